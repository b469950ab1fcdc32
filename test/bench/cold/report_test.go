package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made is a trip of which each moment is so many milliseconds after the one before.
func made(reserved, accepted, started, asked, recorded int) trip {
	at := time.Unix(1_800_000_000, 0)
	after := func(ms int) time.Time {
		at = at.Add(time.Duration(ms) * time.Millisecond)
		return at
	}
	return trip{sent: after(0), reserved: after(reserved), accepted: after(accepted), started: after(started), asked: after(asked), recorded: after(recorded)}
}

func TestAFigureIsTheMedianOfItsRoundsMedians(t *testing.T) {
	slow, quick := made(1000, 1000, 1000, 1000, 1000), made(10, 10, 2, 8, 20)
	pod := func(ms int) []trip { return []trip{made(0, 0, 0, ms, 0)} }
	r := report([]round{
		{bare: pod(1000), own: pod(1500), first: pod(400), warm: []trip{quick, quick, slow}, costs: map[string]float64{"goose": 6, "etcd": 1}},
		{bare: pod(1200), own: pod(1600), first: pod(500), warm: []trip{made(12, 10, 2, 16, 20)}, costs: map[string]float64{"goose": 8, "etcd": 1}},
		{bare: pod(9000), own: pod(9000), first: pod(600), warm: []trip{slow}},
	})
	var ours []float64
	for _, f := range r.Figures {
		assert.Equal(t, id, f.ID)
		require.NotNil(t, f.Ours, f.Figure)
		ours = append(ours, *f.Ours)
	}
	assert.Equal(t, []float64{40, 40, 12, 10, 2, 16, 20, 500}, ours)
	assert.InDelta(t, 1200, *r.Figures[0].Limit, 0, "the quickest Pod is what we are compared with")
	assert.Equal(t, map[string]float64{"goose": 7, "etcd": 1}, r.Figures[0].CPU)
	assert.InDelta(t, 0.0333, *r.Figures[0].Ratio, 0)
	assert.True(t, *r.Figures[0].Met)
	assert.InDelta(t, 1600, *r.Figures[1].Limit, 0)
	assert.Equal(t, []float64{30, 4000}, r.Figures[0].Range)
}

// P4: warm is to be 25 times as fast.
func TestTheAimIsOne25th(t *testing.T) {
	of := func(warm int) bool {
		return *report([]round{{bare: []trip{made(0, 0, 0, 1000, 0)}, own: []trip{{}}, first: []trip{{}}, warm: []trip{made(0, 0, 0, warm, 0)}}}).Figures[0].Met
	}
	assert.True(t, of(40))
	assert.False(t, of(41))
}

func TestAnOptionThatMeasuresNothingIsNamed(t *testing.T) {
	require.NoError(t, options{rounds: 1, warm: 1, cold: 1}.check())
	assert.EqualError(t, options{rounds: 1, warm: 0, cold: 1}.check(), "-warm: expected 1 or more, got 0")
	require.EqualError(t, options{rounds: 2, warm: 1, cold: 1, keep: true}.check(), "-keep: expected 3 rounds at least")
}
