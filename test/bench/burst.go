package main

import (
	"context"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
)

const (
	burstRuns = 500
	burstWarm = 100
)

// burst is P2.
func (b *bench) burst(ctx context.Context) ([]figures.Figure, error) {
	var ours, limits []outcome
	for round := -1; round < b.rounds; round++ {
		p := b.plan(reviewer, trivial, burstRuns)
		if round < 0 {
			p.Runs = burstWarm
		}
		cpu := b.sampled(ctx, "P2", round, 4*time.Second)
		o, err := b.ours(ctx, p)
		if err := cpu(err); err != nil {
			return nil, err
		}
		p.Name += "-l"
		l, err := b.atLimit(ctx, p, b.writes.Reserved, b.writes.Ended)
		if err != nil {
			return nil, err
		}
		if round < 0 {
			continue
		}
		ours, limits = append(ours, o), append(limits, l)
		b.say("P2 round %d: %.1f runs/s of %.1f; %s; the limit's: %s", round+1, rate(o), rate(l), spent(o), spent(l))
	}
	rates := each(ours, rate)
	requests := each(ours, func(o outcome) float64 { return o.requests.Sum() })
	served := each(ours, serverCost)
	return []figures.Figure{
		figures.New("P2", "500 runs at once over 10 Pods", "runs/s", figures.Median(rates)).Of(rates).
			Against(figures.Median(each(limits, rate))).Aims("ratio ≥ 0.8").Costs(costs(ours)),
		figures.New("P2", "processor time of API server and etcd a run", "ms", figures.Median(served)).Of(served).Against(figures.Median(each(limits, serverCost))),
		figures.New("P2", "requests to the API server a run, Events included", "", figures.Median(requests)).Of(requests).
			Against(figures.Median(each(limits, func(o outcome) float64 { return o.requests.Sum() }))),
	}, nil
}

// rate is how many runs a second were carried out.
func rate(o outcome) float64 { return float64(len(o.done.Runs)) / o.done.Wall().Seconds() }

// serverCost is what a run costs those that every controller needs.
func serverCost(o outcome) float64 { return o.cost[apiServer] + o.cost[etcd] }
