package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
)

const (
	// resultFile is the name under which the figures are kept.
	resultFile = "cold.json"
	// pace is between two runs of a standing agent: it is idle when a run comes, as most are. What a busy one does, other figures tell.
	pace = 250 * time.Millisecond
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
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for range o.warm {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r, ctx.Err()
		}
		t, err := s.warm(ctx, agent)
		if err != nil {
			return r, err
		}
		r.warm = append(r.warm, t)
	}
	return r, s.fell(ctx, agent)
}
