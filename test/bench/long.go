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
	var ours, limits []outcome
	for round := range b.rounds {
		p := b.plan(longAgent, longGoal, longRuns)
		cpu := b.sampled(ctx, "P3", round, 3*time.Second)
		o, err := b.ours(ctx, p)
		if err := cpu(err); err != nil {
			return nil, err
		}
		p.Name, p.Leave = p.Name+"-l", true
		l, err := b.atLimit(ctx, p, b.writes.Reserved)
		if err != nil {
			return nil, err
		}
		ours, limits = append(ours, o), append(limits, l)
		b.say("P3 round %d: %.2f s, all Pods at work after %.2f s; runs created and reserved at the limit after %.2f s; %s",
			round+1, o.done.Wall().Seconds(), atWork(o), l.done.Wall().Seconds(), spent(o))
	}
	if err := b.rig.Scale(ctx, namespace, longAgent, 0); err != nil {
		return nil, err
	}
	rounds := each(ours, func(o outcome) float64 { return o.done.Wall().Seconds() })
	return []figures.Figure{
		figures.New("P3", "100 runs of 5 s over 50 Pods, one at a time each", "s", figures.Median(rounds)).Of(rounds).
			Against(longIdeal).Aims("ratio ≤ 1.05").Costs(costs(ours)),
		figures.New("P3", "of it, until every Pod is at work; the limit is a bare client that creates as many and writes the status of each once", "s", figures.Median(each(ours, atWork))).
			Of(each(ours, atWork)).Against(figures.Median(each(limits, func(o outcome) float64 { return o.done.Wall().Seconds() }))),
	}, nil
}

// atWork is how many seconds after the first request the last Pod got its first goal.
func atWork(o outcome) float64 {
	first, begun := o.done.Runs[0].Sent, map[string]time.Time{}
	for _, r := range o.done.Runs {
		if r.Sent.Before(first) {
			first = r.Sent
		}
		t := o.times[r.UID]
		if earliest, known := begun[t.Pod]; !known || t.Begun.Before(earliest) {
			begun[t.Pod] = t.Begun
		}
	}
	var last time.Time
	for _, at := range begun {
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(first).Seconds()
}
