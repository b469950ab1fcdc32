package main

import (
	"context"
	"errors"
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
	// slowRuns are the flood's first: the Pods are at work with them for a minute.
	slowRuns = 600
	slowGoal = node.Take + "1s"
	// fairTimes is how many bursts of the small Agent's there are in a round: each takes a second or two, and so does what the API server
	// does now and then by itself.
	fairTimes = 3
)

// fairness is P9: first none of the flood moves, so that only its place in the queue could be in the way; then its work takes a second each,
// as fast as it can be worked off that way; then none, so that whoever is served shares the machine with it.
func (b *bench) fairness(ctx context.Context) ([]figures.Figure, error) {
	for _, name := range []string{smallAgent, floodAgent} {
		if err := b.rig.Agent(ctx, namespace, name, rig.AgentOptions{Replicas: fairPods}); err != nil {
			return nil, err
		}
	}
	if _, err := b.ours(ctx, b.plan(smallAgent, trivial, smallRuns)); err != nil { // warm-up
		return nil, err
	}
	var alone []outcome
	for round := range fairTimes * b.rounds {
		cpu := b.sampled(ctx, "P9-alone", round, time.Second)
		o, err := b.ours(ctx, b.plan(smallAgent, trivial, smallRuns))
		if err := cpu(err); err != nil {
			return nil, err
		}
		alone = append(alone, o)
		b.say("P9 round %d: alone p95 %.0f ms", round+1, late(o))
	}
	holding, err := b.makeFlood(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.rig.Node.Reset(ctx); err != nil {
		return nil, err
	}
	still, err := b.beside(ctx, "a flood that waits", "P9-still")
	if err != nil {
		return nil, err
	}
	small := fairTimes * b.rounds * smallRuns
	if err := errors.Join(b.flooded(ctx, small, 0, 0), b.rig.Node.Reset(ctx), b.rig.Node.Release(ctx, holding...)); err != nil {
		return nil, err
	}
	slowly, err := b.beside(ctx, "a flood of work", "P9-slow")
	if err != nil {
		return nil, err
	}
	if err := b.flooded(ctx, small, held+1, held+slowRuns-1); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	if _, err := b.rig.Node.Await(waiting, node.Counts{Ended: small + held + slowRuns}); err != nil {
		return nil, err
	}
	quickly, err := b.beside(ctx, "a flood of nothing", "P9")
	if err != nil {
		return nil, err
	}
	if err := b.flooded(ctx, 2*small, held+slowRuns+1, b.flood-1); err != nil {
		return nil, err
	}
	figure := func(what string, rounds []float64) figures.Figure {
		return figures.New("P9", fmt.Sprintf("100 runs of one Agent, create sent → record seen, p95, beside %d of another %s; the limit is the same alone", b.flood, what), "ms",
			figures.Median(rounds)).Of(rounds).Against(figures.Median(each(alone, late))).Aims("ratio ≤ 1.5")
	}
	return []figures.Figure{
		figure("that all wait", still),
		figure("whose work takes 1 s each", slowly),
		figure("whose work takes no time, so that they share the processor", quickly),
	}, nil
}

// beside measures the small Agent's runs while the flood is worked off.
func (b *bench) beside(ctx context.Context, what, id string) ([]float64, error) {
	var rounds []float64
	for round := range fairTimes * b.rounds {
		before, err := b.used(ctx)
		if err != nil {
			return nil, err
		}
		cpu := b.sampled(ctx, id, round, 2*time.Second)
		done, err := load.Spawn(ctx, b.plan(smallAgent, trivial, smallRuns))
		if err := cpu(err); err != nil {
			return nil, err
		}
		after, err := b.used(ctx)
		if err != nil {
			return nil, err
		}
		o := outcome{done: done, cost: cost(after.cpu.Since(before.cpu), done), requests: after.requests.Since(before.requests, smallRuns)}
		rounds = append(rounds, late(o))
		b.say("P9 round %d: beside %s p95 %.0f ms; of all, for each of the small Agent's runs: %s", round+1, what, rounds[round], spent(o))
	}
	return rounds, nil
}

func late(o outcome) float64 { return percentile(o, 95, sent, ended) }

// makeFlood makes the runs that wait, and gives the UIDs of those that hold them up.
func (b *bench) makeFlood(ctx context.Context) ([]string, error) {
	if err := b.rig.Node.Reset(ctx); err != nil {
		return nil, err
	}
	holding, err := b.leave(ctx, holdGoal, held)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	if _, err := b.rig.Node.Await(waiting, node.Counts{Accepted: held, Begun: fairPods}); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := b.leave(ctx, slowGoal, slowRuns); err != nil {
		return nil, err
	}
	if _, err := b.leave(ctx, trivial, b.flood-held-slowRuns); err != nil {
		return nil, err
	}
	b.say("P9: %d runs of the flood wait, made in %.0f s", b.flood-held, time.Since(began).Seconds())
	return holding, nil
}

// leave makes runs of the flood that nobody waits for, and gives their UIDs.
func (b *bench) leave(ctx context.Context, goal string, runs int) ([]string, error) {
	p := b.plan(floodAgent, goal, runs)
	p.Leave = true
	done, err := load.Spawn(ctx, p)
	if err != nil {
		return nil, err
	}
	uids := make([]string, len(done.Runs))
	for i, r := range done.Runs {
		uids[i] = r.UID
	}
	return uids, nil
}

// flooded makes sure that so much of the flood was begun by now, and nothing twice. small is how many runs of the other Agent there were.
func (b *bench) flooded(ctx context.Context, small, least, most int) error {
	counts, err := b.rig.Node.Counts(ctx)
	if err != nil {
		return err
	}
	flood := counts.Begun - small
	if counts.Again != 0 || len(counts.Failures) > 0 || flood < least || flood > most {
		return fmt.Errorf("expected %d to %d runs of the flood to have begun by now, and nothing twice: %d have, %+v", least, most, flood, counts)
	}
	b.say("P9: %d runs of the flood have begun", flood)
	return nil
}
