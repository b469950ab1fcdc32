package sharding

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/api/shard"
)

func watch(t *testing.T, s *store, own shard.Set) (*Watch, *bytes.Buffer) {
	e, said := election(s, own, nil)
	return &Watch{Own: own, Holdings: e.Holdings, Agents: agents(t), After: e.After, Log: e.Log}, said
}

// SPEC.md, Shards, Overlap: of two that both lead one ends itself, and it is clear which; the one of every Agent never does.
func TestOfTwoThatLeadOneGivesWay(t *testing.T) {
	first, second := shard.Of("a"), shard.Of("a", "b")
	if second.Lease() < first.Lease() {
		first, second = second, first
	}
	for name, c := range map[string]struct {
		own, other shard.Set
		ends       bool
	}{
		"the first stays":                   {first, second, false},
		"the second ends":                   {second, first, true},
		"a part gives way to the whole":     {first, shard.All(), true},
		"who has others' Agents is let be":  {shard.Of("x"), first, false},
		"and who is of the same set is one": {first, first, false},
	} {
		s := &store{}
		s.hold(c.own, "me_1", now)
		s.hold(c.other, "another_1", now)
		w, said := watch(t, s, c.own)
		err := w.look(t.Context())
		if !c.ends {
			require.NoError(t, err, name)
			if told := said.String(); strings.Contains(told, "too") {
				said.Reset()
				s.hold(c.other, "", now)
				require.NoError(t, w.look(t.Context()), name)
				assert.Contains(t, said.String(), "level=INFO msg=\"shards: nobody else works for Agents of this controller any more\"", name)
			}
			continue
		}
		require.ErrorContains(t, err, "another controller leads for Agents of the selector", name)
		require.ErrorContains(t, err, c.other.Lease()+", held by another", name)
		assert.Contains(t, said.String(), "work for Agents of this controller's selector, too", name)
		require.Error(t, w.Start(t.Context()), "the process ends with it")
	}
}

// SPEC.md, Shards, Gap.
func TestAgentsThatNobodyWorksForAreToldOfOnce(t *testing.T) {
	s := &store{}
	s.hold(shard.Of("blue"), "me_1", now)
	w, said := watch(t, s, shard.Of("blue"))
	require.NoError(t, w.look(t.Context()))
	assert.Contains(t, said.String(), `nobody="Agents: those of every named shard but blue, and those without the label hearth.dev/shard; there are 2 now"`)
	said.Reset()
	require.NoError(t, w.look(t.Context()))
	assert.Empty(t, said.String(), "what has not changed is not said again")
	s.hold(shard.Of("blue").Without(), "rest_1", now)
	require.NoError(t, w.look(t.Context()))
	assert.Contains(t, said.String(), "every Agent has a controller")
}

func TestAWatchThatCannotReadGoesOn(t *testing.T) {
	s := &store{broken: assert.AnError}
	w, said := watch(t, s, shard.Of("blue"))
	assert.True(t, w.NeedLeaderElection())
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	w.After = func(d time.Duration) <-chan time.Time {
		assert.Equal(t, watchEvery, d)
		if looks++; looks == 2 {
			cancel()
			return nil
		}
		tick := make(chan time.Time, 1)
		tick <- now
		return tick
	}
	require.NoError(t, w.Start(ctx), "it ends with its context")
	assert.Equal(t, 2, looks)
	assert.Contains(t, said.String(), "look at the other controllers")
}
