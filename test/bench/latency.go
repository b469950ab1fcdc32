package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/load"
	"github.com/hearthdev/hearth/test/bench/node"
)

const (
	latencyRate = 10 // runs a second
	latencyRuns = 150
	latencyWarm = 20
)

// latency is P1.
func (b *bench) latency(ctx context.Context) ([]figures.Figure, error) {
	var ours, limits []outcome
	for round := -1; round < b.rounds; round++ {
		p := b.plan(reviewer, trivial, latencyRuns)
		if round < 0 {
			p.Runs = latencyWarm
		}
		p.Workers, p.Rate = 0, latencyRate
		cpu := b.sampled(ctx, "P1", round, 10*time.Second)
		o, err := b.ours(ctx, p)
		if err := cpu(err); err != nil {
			return nil, err
		}
		p.Name += "-l"
		l, err := b.atLimit(ctx, p, b.writes.Reserved, b.writes.Running, b.writes.Ended)
		if err != nil {
			return nil, err
		}
		if round < 0 {
			continue
		}
		ours, limits = append(ours, o), append(limits, l)
		b.say("P1 round %d: received p50 %.1f ms, p99 %.1f ms; recorded p50 %.1f ms; four round trips p50 %.1f ms; %s", round+1, percentile(o, 50, sent, received),
			percentile(o, 99, sent, received), percentile(o, 50, sent, ended), percentile(l, 50, sent, written), spent(o))
	}
	figure := func(what string, p float64, from, to moment) figures.Figure {
		rounds := each(ours, func(o outcome) float64 { return percentile(o, p, from, to) })
		return figures.New("P1", fmt.Sprintf("%s, p%v", what, p), "ms", figures.Median(rounds)).Of(rounds)
	}
	trips := func(p float64) float64 {
		return figures.Median(each(limits, func(o outcome) float64 { return percentile(o, p, sent, written) }))
	}
	return []figures.Figure{
		figure("create sent → goal received by the harness", 50, sent, received).Against(trips(50)).Aims("ours ≤ 15").Costs(costs(ours)),
		figure("create sent → goal received by the harness", 99, sent, received).Against(trips(99)).Aims("ours ≤ 40"),
		figure("create answered → goal received", 50, created, received),
		figure("create sent → record seen by a watcher", 50, sent, ended).Against(trips(50)).Aims("ours ≤ 30"),
		figure("create sent → record seen by a watcher", 99, sent, ended).Against(trips(99)),
		roundTrip(limits),
	}, nil
}

// roundTrip shows what one write costs, as the limit measures it.
func roundTrip(limits []outcome) figures.Figure {
	rounds := each(limits, func(o outcome) float64 { return percentile(o, 50, sent, created) })
	return figures.New("P1", "the limit's create alone, through its webhook, p50", "ms", figures.Median(rounds)).Of(rounds)
}

// moment is a time of a run.
type moment func(load.Run, node.Times) time.Time

func sent(r load.Run, _ node.Times) time.Time     { return r.Sent }
func created(r load.Run, _ node.Times) time.Time  { return r.Created }
func written(r load.Run, _ node.Times) time.Time  { return r.Written }
func ended(r load.Run, _ node.Times) time.Time    { return r.Ended }
func received(_ load.Run, t node.Times) time.Time { return t.Received }

// percentile is that of the milliseconds between two moments of each run.
func percentile(o outcome, p float64, from, to moment) float64 {
	between := make([]time.Duration, len(o.done.Runs))
	for i, r := range o.done.Runs {
		t := o.times[r.UID]
		between[i] = to(r, t).Sub(from(r, t))
	}
	return figures.Percentile(figures.Millis(between), p)
}
