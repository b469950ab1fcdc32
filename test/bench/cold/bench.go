package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
)

const (
	// resultFile is the name under which the figures are kept.
	resultFile = "cold.json"
	// pace is between two runs of a standing agent: it is idle when a run comes, as most are. What a busy one does, other figures tell.
	pace = 250 * time.Millisecond
	// restful is for how long nothing is asked, to see what the cluster uses by itself.
	restful = 5 * time.Second
	// keptRounds is how many rounds a result that is kept has at least.
	keptRounds = 3
)

type options struct {
	rounds, warm, cold int
	keep               bool
}

func (o options) check() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"-rounds", o.rounds}, {"-warm", o.warm}, {"-cold", o.cold}} {
		if n.value < 1 {
			return fmt.Errorf("%s: expected 1 or more, got %d", n.flag, n.value)
		}
	}
	if o.keep && o.rounds < keptRounds {
		return fmt.Errorf("-keep: expected %d rounds at least", keptRounds)
	}
	return nil
}

// bench goes from a cluster that may not be up yet to the table.
func bench(ctx context.Context, o options, out io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	rounds := make([]round, o.rounds)
	for i := range rounds {
		if rounds[i], err = s.round(ctx, i, o); err != nil {
			s.Explain(context.WithoutCancel(ctx), os.Stderr, s.namespace)
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		_, _ = fmt.Fprintf(os.Stderr, "round %d of %d is over\n", i+1, o.rounds)
	}
	result := report(rounds)
	_, _ = fmt.Fprint(out, "\n", figures.Table(result))
	if !o.keep {
		return nil
	}
	return figures.Write(".", resultFile, result)
}

// round measures everything once, so that what else the machine does meets all of it alike.
func (s *scene) round(ctx context.Context, n int, o options) (round, error) {
	var r round
	for range o.cold {
		bare, err := s.barePod(ctx)
		if err != nil {
			return r, err
		}
		own, err := s.ownPod(ctx)
		if err != nil {
			return r, err
		}
		r.bare, r.own = append(r.bare, bare), append(r.own, own)
	}
	agent := fmt.Sprintf("standing-%d", n+1)
	if err := s.raise(ctx, agent); err != nil {
		return r, err
	}
	first, err := s.warm(ctx, agent)
	if err != nil {
		return r, err
	}
	r.first = append(r.first, first)
	anyway, err := s.rest(ctx)
	if err != nil {
		return r, err
	}
	began, before := time.Now(), s.processorTime()
	if r.warm, err = s.stream(ctx, agent, o.warm); err != nil {
		return r, err
	}
	r.costs = perRun(before, s.processorTime(), time.Since(began), o.warm, anyway)
	return r, s.fell(ctx, agent)
}

// stream makes runs for a standing agent, one after the other.
func (s *scene) stream(ctx context.Context, agent string, runs int) ([]trip, error) {
	var trips []trip
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for range runs {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		t, err := s.warm(ctx, agent)
		if err != nil {
			return nil, err
		}
		trips = append(trips, t)
	}
	return trips, nil
}

// rest looks for a while at what is used while nothing is asked.
func (s *scene) rest(ctx context.Context) (idle, error) {
	began, before := time.Now(), s.processorTime()
	timer := time.NewTimer(restful)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return idle{}, ctx.Err()
	}
	used := s.processorTime()
	for name := range used {
		used[name] -= before[name]
	}
	return idle{used: used, took: time.Since(began)}, nil
}

func (s *scene) processorTime() spent { return processorTime(filepath.Dir(s.Kubeconfig)) }
