package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// marked are the processes that carry this test's data directory in their environment, the harness's agents and what those started.
func marked(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range all {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(dir)) { //nolint:gosec // a file of /proc
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// Killed at any moment between the start of real goose and the end of its first session, a harness leaves no goose behind, its next start
// stands, and what is on disk is no secret and no session of anybody's.
func TestAHarnessKilledWhileRealGooseOpens(t *testing.T) {
	p := newPlace(t)
	realGoose(t, p)
	p.env = append(p.env, envView+"="+viewKey)
	var longest time.Duration
	running := 0
	gone := func() bool { return len(marked(t, p.Dir)) == 0 }
	for range rounds(t, 3) {
		b := p.start("--permissions=Allow")
		<-time.After(time.Duration(rand.IntN(600)) * time.Millisecond) //nolint:gosec // any moment will do
		b.kill()
		began := time.Now()
		if len(marked(t, p.Dir)) > 0 {
			running++
		}
		require.Eventually(t, gone, patience, tick, "a goose without a harness")
		longest = max(longest, time.Since(began))
	}
	t.Logf("goose was running when its harness died: %d times, and at most %s longer", running, longest)
	b := p.ready("--permissions=Allow")
	agents := slices.DeleteFunc(marked(t, p.Dir), func(pid int) bool { return pid == b.cmd.Process.Pid })
	require.NotEmpty(t, agents, "a goose that runs is seen")
	b.accepted("says", "say: hello from goose", wire.StateFinished)
	assert.Equal(t, "hello from goose", b.attempt("says").Envelope.Output.Value)
	b.kill()
	require.Eventually(t, gone, patience, tick, "who still runs removes files")
	require.NoError(t, filepath.WalkDir(p.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // a test's own file
		assert.NotContains(t, string(content), token, path)
		assert.NotContains(t, string(content), viewKey, path)
		return err
	}))
	transcripts, err := filepath.Glob(filepath.Join(p.Dir, "transcripts", "*"))
	require.NoError(t, err)
	assert.Len(t, transcripts, 1, "of the only session that anybody used")
	work, err := filepath.Glob(filepath.Join(p.Dir, "work", "*"))
	require.NoError(t, err)
	t.Log("directories of work:", len(work))
}
