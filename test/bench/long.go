package main

import (
	"context"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/rig"
)

const (
	longAgent = "long"
	longGoal  = "take 5s"
	longPods  = 50
	longRuns  = 100
	// longIdeal is how many seconds it takes when nothing but the work takes time.
	longIdeal = longRuns / longPods * 5
)

// long is P3.
func (b *bench) long(ctx context.Context) ([]figures.Figure, error) {
	if err := b.rig.Agent(ctx, namespace, longAgent, rig.AgentOptions{Replicas: longPods}); err != nil {
		return nil, err
	}
	if _, err := b.ours(ctx, b.plan(longAgent, trivial, longPods)); err != nil {
		return nil, err
	}
	var ours []outcome
	for round := range b.rounds {
		cpu := b.sampled(ctx, "P3", round, 9*time.Second)
		o, err := b.ours(ctx, b.plan(longAgent, longGoal, longRuns))
		if err := cpu(err); err != nil {
			return nil, err
		}
		ours = append(ours, o)
		b.say("P3 round %d: %.2f s; %s", round+1, o.done.Wall().Seconds(), spent(o))
	}
	if err := b.rig.Scale(ctx, namespace, longAgent, 0); err != nil {
		return nil, err
	}
	rounds := each(ours, func(o outcome) float64 { return o.done.Wall().Seconds() })
	return []figures.Figure{
		figures.New("P3", "100 runs of 5 s over 50 Pods, one at a time each", "s", figures.Median(rounds)).Of(rounds).
			Against(longIdeal).Aims("ratio ≤ 1.05").Costs(costs(ours)),
	}, nil
}
