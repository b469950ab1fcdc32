package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/procs"
)

// Prompts of each way in a round: those that only warm up, and those that count.
const (
	warmTries = 2
	tries     = 8
)

// talks are the medians of a round's prompts: through the harness, straight to an agent without one, and through what only copies. Times
// are in milliseconds, ratios those of each prompt to the one straight to the agent beside it.
type talks struct{ through, direct, ratio, throughCPU, directCPU, copied, copiedRatio, copiedCPU float64 }

// way is one way to prompt an agent.
type way struct {
	prompt    func() error
	processes []int // that have work with it, but for who prompts
	close     func()

	took, used []float64 // ms of each prompt that counts, and of their processor time
}

// talk has the agents prompted in turns, and which of them is first changes each time: what else the machine does meets all alike, and
// those of one turn give ratios.
func talk(ctx context.Context, h, relay *harness, direct *agent) (t talks, err error) {
	through, err := h.way(ctx)
	if err != nil {
		return t, err
	}
	defer through.close()
	copied, err := relay.way(ctx)
	if err != nil {
		return t, err
	}
	defer copied.close()
	straight := &way{prompt: direct.prompt, processes: []int{direct.pid()}}
	for i := range warmTries + tries {
		turn := []*way{through, straight, copied}
		for n := range turn {
			if err := turn[(i+n)%len(turn)].try(i >= warmTries); err != nil {
				return t, err
			}
		}
	}
	return talks{
		figures.Median(through.took), figures.Median(straight.took), through.ratio(straight), figures.Median(through.used), figures.Median(straight.used),
		figures.Median(copied.took), copied.ratio(straight), figures.Median(copied.used),
	}, nil
}

// way is the one through a harness, or through what looks like one.
func (h *harness) way(ctx context.Context) (*way, error) {
	v, err := h.view(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := v.ask(ctx, newSession, `"id":2`)
	if err != nil {
		return nil, err
	}
	behind, err := h.child()
	if err != nil {
		return nil, err
	}
	session := sessionOf(opened)
	return &way{prompt: func() error { return v.prompt(ctx, session) }, processes: []int{h.pid(), behind}, close: v.close}, nil
}

// ratio is the median of the prompts' ratios to another way's of the same turn.
func (w *way) ratio(to *way) float64 {
	ratios := make([]float64, len(w.took))
	for i := range ratios {
		ratios[i] = w.took[i] / to.took[i]
	}
	return figures.Median(ratios)
}

func (w *way) try(counts bool) error {
	before, err := w.spent()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := w.prompt(); err != nil {
		return err
	}
	took := since(begun)
	after, err := w.spent()
	if counts {
		w.took, w.used = append(w.took, took), append(w.used, millis(after-before))
	}
	return err
}

// spent is the processor time that its processes have used.
func (w *way) spent() (all time.Duration, err error) {
	for _, pid := range w.processes {
		used, err := procs.CPU(pid)
		if err != nil {
			return 0, err
		}
		all += used
	}
	return all, nil
}

// prompt sends one and reads until its answer: all updates must have come before that, or nothing was measured.
func (a *agent) prompt() error {
	last, err := a.ask(prompt(a.session), updates+1)
	if err == nil && !strings.Contains(last, promptID) {
		err = fmt.Errorf("expected the agent to answer after %d updates, it said %.100q", updates, last)
	}
	return err
}

// child is the harness's one child process, its agent, by the number that it has here.
func (h *harness) child() (int, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", h.pid()))
	if err != nil {
		return 0, fmt.Errorf("the agent's process: %w", err)
	}
	var found []string
	for _, file := range threads {
		text, err := os.ReadFile(file) //nolint:gosec // of /proc
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("the agent's process: %w", err)
		}
		found = append(found, strings.Fields(string(text))...)
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("expected the harness to have one child process, it has %d", len(found))
	}
	return strconv.Atoi(found[0])
}
