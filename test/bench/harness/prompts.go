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

// talks are the medians of a round's prompts: through the harness, and straight to an agent without one. Times are in milliseconds.
type talks struct{ through, direct, ratio, throughCPU, directCPU float64 }

// way is one way to prompt an agent.
type way struct {
	prompt    func() error
	processes []int // that have work with it, but for who prompts

	took, used []float64 // ms of each prompt that counts, and of their processor time
}

// talk has both agents prompted in turns, and which of them is first changes each time: what else the machine does meets both alike, and
// each pair gives a ratio.
func talk(ctx context.Context, h *harness, direct *agent) (t talks, err error) {
	v, err := h.view(ctx)
	if err != nil {
		return t, err
	}
	defer v.close()
	opened, err := v.ask(ctx, newSession, `"id":2`)
	if err != nil {
		return t, err
	}
	session := sessionOf(opened)
	behind, err := h.child()
	if err != nil {
		return t, err
	}
	through := &way{prompt: func() error { return v.prompt(ctx, session) }, processes: []int{h.pid(), behind}}
	straight := &way{prompt: direct.prompt, processes: []int{direct.pid()}}
	for i := range warmTries + tries {
		pair := []*way{through, straight}
		for n := range pair {
			if err := pair[(i+n)%len(pair)].try(i >= warmTries); err != nil {
				return t, err
			}
		}
	}
	ratios := make([]float64, tries)
	for i := range ratios {
		ratios[i] = through.took[i] / straight.took[i]
	}
	return talks{
		figures.Median(through.took), figures.Median(straight.took), figures.Median(ratios), figures.Median(through.used), figures.Median(straight.used),
	}, nil
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
