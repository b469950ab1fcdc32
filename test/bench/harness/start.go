package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hearthdev/hearth/test/bench/figures"
)

// startsOfARound is how many starts of each there are in a round.
const startsOfARound = 8

// starts are those of one round: of harnesses whose Pod is new, and of agents alone, in turns. Of a harness it is until port 4000 is
// open, of an agent until it has answered initialize; in milliseconds.
type starts struct{ ours, alone []started }

func startAll(ctx context.Context, built binaries, dir string) (s starts, err error) {
	for i := range startsOfARound {
		a, err := startAgent(ctx, built.agent)
		if err != nil {
			return s, err
		}
		a.end()
		fresh := filepath.Join(dir, fmt.Sprint("start-", i))
		h, err := startHarness(ctx, built, fresh)
		if err != nil {
			return s, err
		}
		h.end()
		if err := os.RemoveAll(fresh); err != nil {
			return s, fmt.Errorf("a directory: %w", err)
		}
		s.ours, s.alone = append(s.ours, h.started), append(s.alone, a.started)
	}
	return s, nil
}

// median is that of one of the two times of some starts.
func median(of []started, value func(started) float64) float64 {
	all := make([]float64, len(of))
	for i, s := range of {
		all[i] = value(s)
	}
	return figures.Median(all)
}

func wall(s started) float64 { return s.wall }
func cpu(s started) float64  { return s.cpu }
