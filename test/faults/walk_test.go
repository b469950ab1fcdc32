//go:build faults

package faults_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/faults/storm"
)

const (
	walkTime  = 60 * time.Second
	shortWalk = 10 * time.Second
)

// Whatever is done to real processes in whatever order, nothing is lost and nothing runs twice; the World checks I1 to I8 at its end.
// FAULTS_SEED repeats the steps of a walk.
func TestARandomWalkOverRealProcesses(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number
	if asked := os.Getenv("FAULTS_SEED"); asked != "" {
		var err error
		seed, err = strconv.ParseUint(asked, 10, 64)
		require.NoError(t, err, "FAULTS_SEED: expected a number")
	}
	long := walkTime
	if testing.Short() {
		long = shortWalk
	}
	s := storm.New(t, seed)
	s.Blow(long, 0)
	s.Settle()
	r := s.Result()
	t.Logf("seed %d: %d steps, %+v", seed, s.Steps(), r)
	assert.Empty(t, r.Lost, "lost")
	assert.Empty(t, r.Doubled, "doubled")
	assert.Positive(t, r.Recorded["Completed"], "nothing was done")
}
