//go:build faults

package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

func TestMain(m *testing.M) {
	if node.Asked() {
		os.Exit(node.Main())
	}
	os.Exit(m.Run())
}

// Row 44, small: the controller is killed with 500 runs in flight on 20 targets, and the next one asks each target twice, who it is and
// what it holds; nothing is asked of single runs, not either while no target says what it holds and each run is looked at without that; none
// is carried out twice, and each is recorded once. `make bench-scale` does it with 10,000 runs on 500 targets, and says how long it takes.
func TestRow44_KilledWithHundredsInFlight(t *testing.T) {
	ctx := t.Context()
	r, err := rig.Start(ctx, rig.Options{Profiles: true, NoFsync: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Stop()) })
	require.NoError(t, r.Namespace(ctx, namespace))
	s := sizes{few: 20, perAgent: 10, each: 25}
	w := &walk{rig: r, out: io.Discard, began: time.Now()}
	require.NoError(t, w.grow(ctx, s, s.few))
	count := s.few * s.each
	require.NoError(t, create(ctx, r, w.agents, count, node.Hold, "held"))
	require.NoError(t, awaited(ctx, r, node.Counts{Begun: count}))

	again, err := restart(ctx, r, s.few, count)
	require.NoError(t, err, r.Logs())
	assert.Equal(t, []int64{1, 1, 0}, []int64{again.lists, again.challenges, again.others}, "what a target was asked: lists, challenges, all else")

	require.NoError(t, kill(ctx, r))
	require.NoError(t, r.DropLease(ctx))
	require.NoError(t, r.Node.Reset(ctx))
	require.NoError(t, r.Node.HoldLists(ctx))
	_, err = r.StartController(ctx)
	require.NoError(t, err)
	require.NoError(t, attended(ctx, r, count))
	require.NoError(t, r.Node.ReleaseLists(ctx))
	require.NoError(t, settled(ctx, r, s.few, count), r.Logs())
	later, err := askedOf(ctx, r)
	require.NoError(t, err)
	assert.Zero(t, later.others, "what targets were asked that did not say what they hold")

	require.NoError(t, r.Node.Release(ctx))
	require.NoError(t, awaited(ctx, r, node.Counts{Recorded: count}), r.Logs())
	require.NoError(t, settled(ctx, r, s.few, 0))
	require.NoError(t, once(ctx, r.Client, count))
	counts, err := r.Node.Counts(ctx)
	require.NoError(t, err)
	assert.Zero(t, counts.Again, "goals that an agent got twice")
	assert.Equal(t, int64(count), counts.Requests["recorded"], "each is marked as recorded once")
	assert.Zero(t, counts.Requests["deliver"], "nothing is sent again")
}
