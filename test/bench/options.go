package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// options are the flags.
type options struct {
	only    []string
	rounds  int
	profile string
	update  bool
	noFsync bool
	// flood is how many runs wait in P9.
	flood int
}

// figureIDs are the figures that this program measures, in the order in which it does.
var figureIDs = []string{"P1", "P2", "P3", "P9"}

// floodRuns is how many runs wait in a P9 that is kept, and leastFlood in any.
const floodRuns, leastFlood = 9_900, 1_000

// keptRounds is how many rounds a result that is kept has at least.
const keptRounds = 3

func parse(args []string, usage io.Writer) (options, error) {
	o := options{only: figureIDs}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(usage)
	set.Func("only", "the figures to measure, such as P1,P2; all unless set", func(v string) error {
		o.only = strings.Split(v, ",")
		for _, id := range o.only {
			if !slices.Contains(figureIDs, id) {
				return fmt.Errorf("expected some of %s, %q is none", strings.Join(figureIDs, ","), id)
			}
		}
		return nil
	})
	set.IntVar(&o.rounds, "rounds", keptRounds, "how many rounds each figure is the median of")
	set.StringVar(&o.profile, "profile", "", "a directory for Go's profiles of controller, node and API server; costs time, so nothing is kept")
	set.BoolVar(&o.update, "update", false, "keep the result in test/bench/results/bench.json and docs/performance.md")
	set.BoolVar(&o.noFsync, "no-fsync", false, "let etcd not wait for its disk, as none in earnest does; nothing is kept")
	set.IntVar(&o.flood, "flood", floodRuns, "how many runs of another Agent wait in P9; of fewer nothing is kept")
	if err := set.Parse(args); err != nil {
		return o, fmt.Errorf("flags: %w", err)
	}
	switch {
	case set.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: expected flags only", set.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds=%d: expected 1 at least", o.rounds)
	case o.flood < leastFlood:
		return o, fmt.Errorf("-flood=%d: expected %d at least", o.flood, leastFlood)
	case o.update && (o.profile != "" || o.noFsync || o.rounds < keptRounds || o.flood != floodRuns):
		return o, errors.New("-update: expected no -profile, no -no-fsync, no -flood and 3 rounds at least: a result that is kept is a whole one")
	}
	return o, nil
}

// wants tells whether a figure is to be measured.
func (o options) wants(id string) bool { return slices.Contains(o.only, id) }
