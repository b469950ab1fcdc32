package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
)

type options struct {
	rounds, runs int
	only         string
	update       bool
}

// What may be measured alone.
const (
	onlyStarts  = "starts"
	onlyPrompts = "prompts"
)

const (
	resultName = "harness.json"
	// keptRounds is how many rounds a result that is kept has at least.
	keptRounds = 3
	// roundLimit bounds a round: whatever hangs is ended with it.
	roundLimit = 10 * time.Minute
)

func (o options) check() error {
	switch {
	case o.rounds < 1:
		return fmt.Errorf("-rounds: expected 1 or more, got %d", o.rounds)
	case o.runs <= warmRuns:
		return fmt.Errorf("-runs: expected more than %d, which are not counted, got %d", warmRuns, o.runs)
	case o.only != "" && o.only != onlyStarts && o.only != onlyPrompts:
		return fmt.Errorf("-only: expected %s or %s, got %q", onlyStarts, onlyPrompts, o.only)
	case o.update && o.only != "":
		return fmt.Errorf("-update: keeps all figures, and -only measures some")
	case o.update && o.rounds < keptRounds:
		return fmt.Errorf("-update: expected %d rounds at least", keptRounds)
	}
	return nil
}

// updates are those of a prompt of P5 and P8, of 1 KiB each.
const updates = 1000

var crowds = []int{1, 10, 100}

// round is what one round measured.
type round struct {
	starts       starts
	prompts      talks
	perViewer    map[int]float64
	idle, worked float64 // MiB resident
	growth       float64 // KiB a run
	cpuRun       float64 // ms of processor time a delivered run
}

func bench(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hearth-bench-")
	if err != nil {
		return fmt.Errorf("a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if o.only != "" {
		return alone(ctx, o, built, dir)
	}
	parts, err := contents(ctx, built)
	if err != nil {
		return err
	}
	var rounds []round
	for i := range o.rounds {
		r, err := measure(ctx, built, filepath.Join(dir, fmt.Sprint("round-", i)), o)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		fmt.Printf("round %d: bound %.1f ms, agent alone %.1f ms; prompt %.0f ms, direct %.0f ms; %.1f MiB idle, %.1f MiB after %d runs\n",
			i+1, median(r.starts.ours, wall), median(r.starts.alone, wall), r.prompts.through, r.prompts.direct, r.idle, r.worked, o.runs)
		rounds = append(rounds, r)
	}
	result := figures.Result{Machine: figures.Machine(dir), Figures: append(report(rounds, o.runs), sizes(built, parts)...)}
	fmt.Println(figures.Table(result))
	if !o.update {
		return nil
	}
	return figures.Write(".", resultName, result)
}

// alone measures one of the figures and prints each round.
func alone(ctx context.Context, o options, built binaries, dir string) error {
	for i := range o.rounds {
		r, err := measure(ctx, built, filepath.Join(dir, fmt.Sprint("round-", i)), o)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		if o.only == onlyStarts {
			ours, alone := r.starts.ours, r.starts.alone
			fmt.Printf("round %d: bound %.1f ms, agent alone %.1f ms; processor time %.1f ms, %.1f ms\n", i+1, median(ours, wall), median(alone, wall), median(ours, cpu), median(alone, cpu))
			continue
		}
		p := r.prompts
		fmt.Printf("round %d: prompt %.0f ms (%.2f), direct %.0f ms, copied %.0f ms (%.2f); processor time %.0f ms, %.0f ms, %.0f ms\n",
			i+1, p.through, p.ratio, p.direct, p.copied, p.copiedRatio, p.throughCPU, p.directCPU, p.copiedCPU)
	}
	return nil
}

// measure is a round: the agent alone and behind a harness, one after the other.
func measure(ctx context.Context, built binaries, dir string, o options) (r round, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	if o.only != onlyPrompts {
		if r.starts, err = startAll(ctx, built, dir); err != nil || o.only == onlyStarts {
			return r, wrap("starts", err)
		}
	}
	direct, err := startAgent(ctx, built.agent)
	if err != nil {
		return r, err
	}
	defer direct.end()
	h, err := startHarness(ctx, built, dir)
	if err != nil {
		return r, err
	}
	defer h.end()
	relay, err := startRelay(ctx, built)
	if err != nil {
		return r, err
	}
	defer relay.end()
	if r.idle, err = h.resident(); err != nil {
		return r, err
	}
	if r.prompts, err = talk(ctx, h, relay, direct); err != nil || o.only == onlyPrompts {
		return r, wrap("prompts", err)
	}
	if r.perViewer, err = crowd(ctx, h); err != nil {
		return r, fmt.Errorf("viewers: %w", err)
	}
	// A harness that has carried out nothing but runs, so that what clients left behind is not counted.
	worker, err := startHarness(ctx, built, dir+"-runs")
	if err != nil {
		return r, err
	}
	defer worker.end()
	before, cpu, err := worker.deliver(ctx, o.runs)
	if err != nil {
		return r, fmt.Errorf("runs: %w", err)
	}
	if r.worked, err = worker.resident(); err != nil {
		return r, err
	}
	r.growth, r.cpuRun = (r.worked-before)*1024/float64(o.runs-warmRuns), cpu
	return r, nil
}

// wrap says what an error is about; nil stays nil.
func wrap(about string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", about, err)
}

func report(rounds []round, runs int) []figures.Figure {
	of := func(value func(round) float64) []float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, value(r))
		}
		return all
	}
	figure := func(id, name, unit string, value func(round) float64) figures.Figure {
		all := of(value)
		return figures.New(id, name, unit, figures.Median(all)).Of(all)
	}
	through := figure("P5", "a prompt with 1,000 updates of 1 KiB through port 4000; the limit is the agent itself, on its stdin and stdout", "ms", func(r round) float64 { return r.prompts.through })
	ratio := figure("P5", "the same as a ratio, each prompt to the one beside it", "", func(r round) float64 { return r.prompts.ratio })
	bound := figure("P5", "start of the process until port 4000 is open; the limit is the agent's own start until it has answered initialize", "ms", func(r round) float64 { return median(r.starts.ours, wall) })
	needed := figure("P5", "processor time of the harness's process until then; the limit is the agent's own", "ms", func(r round) float64 { return median(r.starts.ours, cpu) })
	all := []figures.Figure{
		through.Against(figures.Median(of(func(r round) float64 { return r.prompts.direct }))),
		ratio.Aims("ours ≤ 1.1"),
		figure("P5", "processor time of agent and harness for such a prompt; the limit is the agent's, without a harness", "ms", func(r round) float64 { return r.prompts.throughCPU }).
			Against(figures.Median(of(func(r round) float64 { return r.prompts.directCPU }))),
		figure("P5", "the same prompt through a process that only copies each line into a WebSocket, instead of a harness; same limit", "ms", func(r round) float64 { return r.prompts.copied }).
			Against(figures.Median(of(func(r round) float64 { return r.prompts.direct }))),
		figure("P5", "that as a ratio, each prompt to the one beside it", "", func(r round) float64 { return r.prompts.copiedRatio }),
		figure("P5", "processor time of agent and that process", "ms", func(r round) float64 { return r.prompts.copiedCPU }).
			Against(figures.Median(of(func(r round) float64 { return r.prompts.directCPU }))),
		figure("P5", "resident, idle", "MiB", func(r round) float64 { return r.idle }).Aims("ours ≤ 30"),
		bound.Against(figures.Median(of(func(r round) float64 { return median(r.starts.alone, wall) }))),
		figure("P5", "the same beyond the agent's own", "ms", func(r round) float64 { return median(r.starts.ours, wall) - median(r.starts.alone, wall) }).Aims("ours ≤ 10"),
		needed.Against(figures.Median(of(func(r round) float64 { return median(r.starts.alone, cpu) }))),
	}
	base := figures.Median(of(func(r round) float64 { return r.perViewer[crowds[1]] }))
	for _, viewers := range crowds {
		f := figure("P8", fmt.Sprintf("processor time of the harness for an update and a viewer, %d viewers", viewers), "µs", func(r round) float64 { return r.perViewer[viewers] })
		if viewers > crowds[1] {
			f = f.Against(base).Aims("ratio ≤ 1.1")
		}
		all = append(all, f)
	}
	return append(all,
		figure("harness", fmt.Sprintf("resident after %d runs", runs), "MiB", func(r round) float64 { return r.worked }),
		figure("harness", fmt.Sprintf("growth a run, from run %d on", warmRuns), "KiB", func(r round) float64 { return r.growth }),
		figure("harness", "processor time of the harness for a delivered run", "ms", func(r round) float64 { return r.cpuRun }),
	)
}
