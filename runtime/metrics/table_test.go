package metrics

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, Metrics of the harness: names as Prometheus wants them, and no label whose values have no bound.
func TestTheTableIsSound(t *testing.T) {
	bounded := []string{"component", "version", "revision", "goversion", "outcome", "reason", "decision", "by", "access", "transport", "state", "endpoint", "code"}
	seen := map[string]bool{}
	for _, m := range Table {
		assert.False(t, seen[m.Name], m.Name)
		seen[m.Name] = true
		assert.Regexp(t, `^hearth_[a-z_]+$`, m.Name)
		assert.NotEmpty(t, m.Help, m.Name)
		assert.Equal(t, m.Kind == Counter, strings.HasSuffix(m.Name, "_total"), m.Name)
		assert.Equal(t, m.Kind == Histogram, strings.HasSuffix(m.Name, "_seconds"), m.Name)
		assert.Equal(t, m.Kind == Histogram, len(m.buckets) > 0, m.Name)
		assert.True(t, slices.IsSorted(m.buckets), m.Name)
		for _, l := range m.Labels {
			assert.Contains(t, bounded, l, m.Name)
		}
	}
}

// What has not happened yet is 0 where it has no labels, so that an increase is seen.
func TestCountersBeginAtZero(t *testing.T) {
	s := New("v1", "abc")
	s.Watch(func() (int, int) { return 2, 1 })
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
	require.Equal(t, http.StatusOK, w.Code)
	for _, line := range []string{
		"hearth_agent_restarts_total 0", "hearth_agent_up 0", "hearth_turn_seconds_count 0", "hearth_journal_write_seconds_count 0",
		`hearth_harness_runs{state="queued"} 2`, `hearth_harness_runs{state="running"} 1`, `hearth_build_info{component="harness",goversion="go1.`,
		"\ngo_goroutines ", "\nprocess_open_fds ",
	} {
		assert.Contains(t, w.Body.String(), line)
	}
}
