//go:build faults

package soak

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/faults/invariant"
	"github.com/hearthdev/hearth/test/faults/rig"
	"github.com/hearthdev/hearth/test/faults/storm"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// Mixed load with random kills, cuts, stalls, failing writes, deletes, cancels and recasts for as long as SOAK says: nothing is lost,
// nothing runs twice, and what the controller and a harness hold is at the end what it was at the start. SOAK_SEED repeats the steps.
func TestSoak(t *testing.T) {
	asked := os.Getenv("SOAK")
	if asked == "" {
		t.Skip("make soak runs this: SOAK is how long, 10m for example")
	}
	long, err := time.ParseDuration(asked)
	require.NoError(t, err, "SOAK: expected a duration such as 10m")
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number
	if s := os.Getenv("SOAK_SEED"); s != "" {
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "SOAK_SEED: expected a number")
	}
	t.Logf("seed %d", seed)
	s := storm.New(t, seed)
	controllerBefore, harnessBefore, err := s.Sample()
	require.NoError(t, err)
	s.Blow(long, long/3)
	s.Settle()
	controllerAfter, harnessAfter, err := s.Sample()
	require.NoError(t, err)
	r := s.Result()

	var table strings.Builder
	fmt.Fprintf(&table, "\nsoak of %s, seed %d, %d steps\n\n", long, seed, s.Steps())
	r.Table(&table)
	table.WriteString("\n")
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "\tgoroutines\topen files\tmemory, MiB\n")
	for _, p := range []struct {
		name          string
		before, after invariant.Sample
	}{{"controller", controllerBefore, controllerAfter}, {"harness", harnessBefore, harnessAfter}} {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.name, change(int64(p.before.Goroutines), int64(p.after.Goroutines)), change(int64(p.before.Files), int64(p.after.Files)),
			change(p.before.Bytes>>20, p.after.Bytes>>20))
	}
	_ = w.Flush()
	t.Log(table.String())

	assert.Empty(t, r.Lost, "lost")
	assert.Empty(t, r.Doubled, "doubled")
	assert.Positive(t, r.Recorded["Completed"], "nothing was done")
	assert.Empty(t, invariant.Flat(invariant.Process{Name: "controller", Before: controllerBefore, After: controllerAfter, Allow: invariant.Usual()}))
	assert.Empty(t, invariant.Flat(invariant.Process{Name: "harness", Before: harnessBefore, After: harnessAfter, Allow: invariant.Usual()}))
}

// change is a figure at the start and at the end; one that nobody measured is left out.
func change(before, after int64) string {
	if before < 0 || after < 0 {
		return "-"
	}
	return fmt.Sprintf("%d -> %d", before, after)
}
