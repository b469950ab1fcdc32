//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// envMeasure asks for the measurement, which asserts nothing about time and is no part of the suite.
	envMeasure = "HEARTH_E2E_MEASURE"
	measured   = 50
)

// TestMeasureLatency prints how long a delivery takes: 50 runs, one after the other, to one standing agent.
func TestMeasureLatency(t *testing.T) {
	if os.Getenv(envMeasure) == "" {
		t.Skipf("a measurement: set %s=1", envMeasure)
	}
	r := newRoom(t, "latency")
	r.readyAgent(reviewer, nil)
	r.succeeds("first", reviewer)
	var received, recorded []time.Duration
	for i := range measured {
		name := fmt.Sprintf("run-%d", i+1)
		created := time.Now()
		r.ask(name, reviewer, "say: hello")
		end, err := r.watched.first(t.Context(), shortly, func(run *hearthv1.AgentRun) bool {
			return run.Name == name && run.Status.CompletionTime != nil
		})
		require.NoError(t, err)
		require.Equal(t, metav1.ConditionTrue, succeeded(end.run).Status, end.run.Status.Message)
		received = append(received, end.run.Status.Delivery.AcceptedAt.Sub(created))
		recorded = append(recorded, end.run.Status.RecordedAt.Sub(created))
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\ndelivery of %d sequential runs, milliseconds since the client sent the create\n", measured)
	fmt.Fprintf(&table, "%-28s %8s %8s %8s %8s\n", "", "p50", "p90", "p99", "max")
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"created -> goal received", received}, {"created -> recorded", recorded}} {
		fmt.Fprintf(&table, "%-28s %8s %8s %8s %8s\n", row.name, percentile(row.took, 50), percentile(row.took, 90), percentile(row.took, 99), percentile(row.took, 100))
	}
	fmt.Fprint(os.Stderr, table.String())
}

// percentile is the smallest value that p percent do not exceed, in milliseconds.
func percentile(values []time.Duration, p int) string {
	sorted := slices.Sorted(slices.Values(values))
	rank := max(1, (len(sorted)*p+99)/100)
	return fmt.Sprintf("%.1f", float64(sorted[rank-1].Microseconds())/1000)
}
