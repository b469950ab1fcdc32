package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/load"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

const (
	smallAgent, floodAgent = "small", "flood"
	fairPods               = 10
	smallRuns              = 100
	// held fill the flood's Pods, of which each has one at work and one queued, until all of it waits.
	held     = 2 * fairPods
	holdGoal = node.Hold
)

// fairness is P9.
func (b *bench) fairness(ctx context.Context) ([]figures.Figure, error) {
	for _, name := range []string{smallAgent, floodAgent} {
		if err := b.rig.Agent(ctx, namespace, name, rig.AgentOptions{Replicas: fairPods}); err != nil {
			return nil, err
		}
	}
	var alone, beside []outcome
	for round := -1; round < b.rounds; round++ {
		o, err := b.ours(ctx, b.plan(smallAgent, trivial, smallRuns))
		if err != nil {
			return nil, err
		}
		if round >= 0 {
			alone = append(alone, o)
			b.say("P9 round %d: alone p95 %.0f ms", round+1, late(o))
		}
	}
	holding, err := b.makeFlood(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.rig.Node.Reset(ctx); err != nil {
		return nil, err
	}
	if err := b.rig.Node.Release(ctx, holding...); err != nil {
		return nil, err
	}
	for round := range b.rounds {
		p := b.plan(smallAgent, trivial, smallRuns)
		cpu := b.sampled(ctx, "P9", round, 3*time.Second)
		done, err := load.Spawn(ctx, p)
		if err := cpu(err); err != nil {
			return nil, err
		}
		o := outcome{done: done}
		beside = append(beside, o)
		b.say("P9 round %d: beside the flood p95 %.0f ms", round+1, late(o))
	}
	if err := b.flooded(ctx); err != nil {
		return nil, err
	}
	rounds := each(beside, late)
	return []figures.Figure{
		figures.New("P9", fmt.Sprintf("100 runs of one Agent beside %d of another, create sent → record seen, p95; the limit is the same alone", b.flood), "ms", figures.Median(rounds)).Of(rounds).
			Against(figures.Median(each(alone, late))).Aims("ratio ≤ 1.5"),
	}, nil
}

func late(o outcome) float64 { return percentile(o, 95, sent, ended) }

// makeFlood makes the runs that wait, and gives the UIDs of those that hold them up.
func (b *bench) makeFlood(ctx context.Context) ([]string, error) {
	p := b.plan(floodAgent, holdGoal, held)
	p.Leave = true
	if err := b.rig.Node.Reset(ctx); err != nil {
		return nil, err
	}
	first, err := load.Spawn(ctx, p)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	if _, err := b.rig.Node.Await(waiting, node.Counts{Accepted: held, Begun: fairPods}); err != nil {
		return nil, err
	}
	var uids []string
	for _, r := range first.Runs {
		uids = append(uids, r.UID)
	}
	began := time.Now()
	p = b.plan(floodAgent, trivial, b.flood-held)
	p.Leave = true
	if _, err := load.Spawn(ctx, p); err != nil {
		return nil, err
	}
	b.say("P9: %d runs of the flood wait, made in %.0f s", b.flood-held, time.Since(began).Seconds())
	return uids, nil
}

// flooded makes sure that the flood was worked off all the time, and that there was always more of it.
func (b *bench) flooded(ctx context.Context) error {
	counts, err := b.rig.Node.Counts(ctx)
	if err != nil {
		return err
	}
	flood := counts.Ended - b.rounds*smallRuns
	if counts.Again != 0 || len(counts.Failures) > 0 || flood <= held || flood >= b.flood-held {
		return fmt.Errorf("expected more than %d and less than all of the flood to have ended by now, and nothing twice: %d have, %+v", held, flood, counts)
	}
	b.say("P9: %d runs of the flood ended meanwhile", flood)
	return nil
}
