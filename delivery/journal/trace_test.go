package journal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, Traces: an attempt's trace is kept until it ended, and told of one that a restart ended.
func TestATraceIsKeptWithItsAttempt(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	of := func(run string) Trace { return Trace{Parent: "00-" + run, State: "a=1"} }
	for _, run := range []string{"running", "waiting"} {
		_, err := j.AcceptIn(request(run, 1), of(run))
		require.NoError(t, err)
	}
	_, err := j.Accept(request("alone", 1))
	require.NoError(t, err)
	for _, run := range []string{"running", "alone"} {
		_, err = j.Start(key(run, 1), "s")
		require.NoError(t, err)
	}
	assert.Empty(t, j.Unfinished())
	require.NoError(t, j.Close())

	j = mustOpen(t, dir)
	w, err := j.Work(key("waiting", 1))
	require.NoError(t, err)
	assert.Equal(t, of("waiting"), w.Trace)
	found := map[string]Trace{}
	for _, u := range j.Unfinished() {
		require.NotNil(t, u.StartedAt)
		require.NotNil(t, u.FinishedAt)
		found[u.Run.UID] = u.Trace
	}
	assert.Equal(t, map[string]Trace{"running": of("running"), "alone": {}}, found)
	require.NoError(t, j.Close())
	assert.Empty(t, mustOpen(t, dir).Unfinished(), "they are told of once")
}

// SPEC.md, Metrics of the harness: every durable write is told of once, with the time that it took; one that failed is not, and neither is a mark,
// which goes with another.
func TestWritesAreTimed(t *testing.T) {
	c := newClock()
	var wrote []string
	fail := false
	j := mustOpen(t, memoryTempDir(t), func(cfg *Config) {
		cfg.Now = c.Now
		cfg.BeforeWrite = func(string) error {
			if fail {
				return ErrFull
			}
			return nil
		}
		cfg.Wrote = func(write string, took time.Duration) {
			assert.Zero(t, took, "nothing moved the clock")
			wrote = append(wrote, write)
		}
	})
	finish(t, j, key("run", 1), "x")
	require.NoError(t, j.Recorded(key("run", 1)))
	fail = true
	_, err := j.Accept(request("another", 1))
	require.ErrorIs(t, err, ErrFull)
	assert.Equal(t, []string{"accept", "start", "finish"}, wrote)
}
