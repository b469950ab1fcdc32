package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

// sizes are how much is measured: few targets first and many then, both multiples of perAgent; each of the few carries out so many runs
// at once. records is how many finished runs there are, in another cluster.
type sizes struct{ few, many, perAgent, each, records int }

// check says what sizes make no sense: what one more costs is told from the difference of two. A result that is kept has both parts.
func (s sizes) check(keep bool) error {
	switch {
	case s.few < 0 || s.records < 0:
		return errors.New("-few, -records: expected 0 or more")
	case s.few > 0 && (s.each < 1 || s.perAgent < 1 || s.few%s.perAgent != 0 || s.many%s.perAgent != 0):
		return errors.New("-few, -many: expected multiples of -per-agent, and that and -each to be 1 at least")
	case s.few > 0 && s.many <= s.few:
		return fmt.Errorf("-many=%d: expected more than -few=%d", s.many, s.few)
	case keep && (s.few == 0 || s.records == 0):
		return errors.New("-keep: expected targets and records: a result that is kept is a whole one")
	}
	return nil
}

// measured is what came out.
type measured struct {
	sizes
	empty, few, full, done, many  usage
	small, loaded, large          latency // with the few targets, with all runs in flight, with the many targets
	again, manyAgain              restarted
	idleFew, idleMany             idle
	creating, delivering, writing time.Duration // of all runs in flight: made, begun; from their end until they are recorded
	doubled                       int
}

// measure does it, on a rig with profiles and nothing in it. What it is at is told on out.
func measure(ctx context.Context, r *rig.Rig, s sizes, out io.Writer) (measured, error) {
	m := measured{sizes: s}
	w := &walk{rig: r, out: out, began: time.Now()}
	if err := r.Namespace(ctx, namespace); err != nil {
		return m, err
	}
	for _, step := range []struct {
		what string
		do   func() (any, error)
	}{
		{"controller with nothing to do", func() (any, error) { return keep(&m.empty)(held(ctx, r)) }},
		{fmt.Sprintf("%d targets come up", s.few), func() (any, error) { return nil, w.grow(ctx, s, s.few) }},
		{"their Events are written", func() (any, error) { return nil, rested(ctx, r) }},
		{"they idle", func() (any, error) { return keep(&m.idleFew)(idling(ctx, r)) }},
		{"the controller with them", func() (any, error) { return keep(&m.few)(held(ctx, r)) }},
		{"short runs", func() (any, error) { return keep(&m.small)(probe(ctx, r, w.agents, "few")) }},
		{fmt.Sprintf("%d runs in flight", s.few*s.each), func() (any, error) { return nil, w.fill(ctx, &m) }},
		{"they go on", func() (any, error) { return idling(ctx, r) }}, // until no connection is kept for a next call
		{"the controller with them", func() (any, error) { return keep(&m.full)(held(ctx, r)) }},
		{"controller killed and started again", func() (any, error) { return keep(&m.again)(restart(ctx, r, s.few, s.few*s.each)) }},
		{"all of them end", func() (any, error) { return nil, w.release(ctx, &m) }},
		{"nothing is left to do", func() (any, error) { return idling(ctx, r) }},
		{"the controller with finished runs", func() (any, error) { return keep(&m.done)(held(ctx, r)) }},
		{fmt.Sprintf("%d targets come up", s.many), func() (any, error) { return nil, w.grow(ctx, s, s.many) }},
		{"their Events are written", func() (any, error) { return nil, rested(ctx, r) }},
		{"they idle", func() (any, error) { return keep(&m.idleMany)(idling(ctx, r)) }},
		{"the controller with them", func() (any, error) { return keep(&m.many)(held(ctx, r)) }},
		{"short runs", func() (any, error) { return keep(&m.large)(probe(ctx, r, w.agents, "many")) }},
		{"controller killed and started again", func() (any, error) { return keep(&m.manyAgain)(restart(ctx, r, s.many, 0)) }},
	} {
		got, err := step.do()
		if err != nil {
			return m, fmt.Errorf("%s: %w", step.what, err)
		}
		w.say(step.what, got)
	}
	return m, nil
}

// keep stores what a step gives.
func keep[T any](to *T) func(T, error) (any, error) {
	return func(got T, err error) (any, error) {
		*to = got
		return got, err
	}
}

// walk is where a measurement is.
type walk struct {
	rig    *rig.Rig
	out    io.Writer
	began  time.Time
	agents []string
}

func (w *walk) say(what string, got any) {
	_, _ = fmt.Fprintf(w.out, "%6.1f s  %s", time.Since(w.began).Seconds(), what)
	if got != nil {
		_, _ = fmt.Fprintf(w.out, ": %v", got)
	}
	_, _ = fmt.Fprintln(w.out)
}

// grow makes Agents until there are so many targets, and waits until every Link is open and nothing is left to do.
func (w *walk) grow(ctx context.Context, s sizes, targets int) error {
	for len(w.agents)*s.perAgent < targets {
		name := fmt.Sprintf("agent-%03d", len(w.agents))
		o := rig.AgentOptions{Replicas: s.perAgent, Concurrency: int32(s.each) + 1, Queue: ptr.To[int32](0)} // one more, for short runs beside the held ones
		if err := w.rig.Agent(ctx, namespace, name, o); err != nil {
			return err
		}
		w.agents = append(w.agents, name)
	}
	if err := awaited(ctx, w.rig, node.Counts{Pods: targets}); err != nil {
		return err
	}
	return settled(ctx, w.rig, targets, 0)
}

// fill makes as many runs as the few targets carry out at once, and waits until all are begun and that is written.
func (w *walk) fill(ctx context.Context, m *measured) error {
	if err := w.rig.Node.Reset(ctx); err != nil {
		return err
	}
	count, began := m.sizes.few*m.sizes.each, time.Now()
	if err := create(ctx, w.rig, w.agents, count, node.Hold, "held"); err != nil {
		return err
	}
	m.creating = time.Since(began)
	if err := awaited(ctx, w.rig, node.Counts{Begun: count}); err != nil {
		return err
	}
	m.delivering = time.Since(began)
	if err := settled(ctx, w.rig, m.sizes.few, 0); err != nil {
		return err
	}
	w.say("made, delivered", fmt.Sprintf("%.1f s, %.1f s", m.creating.Seconds(), m.delivering.Seconds()))
	loaded, err := probe(ctx, w.rig, w.agents, "loaded")
	m.loaded = loaded
	w.say("short runs beside them", loaded)
	return err
}

// release lets all of them end, and checks that each was carried out once and recorded as succeeded at its first attempt.
func (w *walk) release(ctx context.Context, m *measured) error {
	count, began := m.sizes.few*m.sizes.each, time.Now()
	if err := w.rig.Node.Release(ctx); err != nil {
		return err
	}
	if err := awaited(ctx, w.rig, node.Counts{Recorded: count}); err != nil {
		return err
	}
	m.writing = time.Since(began)
	w.say("recorded", fmt.Sprintf("%.1f s", m.writing.Seconds()))
	if err := settled(ctx, w.rig, m.sizes.few, 0); err != nil {
		return err
	}
	counts, err := w.rig.Node.Counts(ctx)
	if err != nil {
		return err
	}
	m.doubled = counts.Again
	return once(ctx, w.rig.Client, count+2*probes)
}

// once checks the records.
func once(ctx context.Context, api client.Client, count int) error {
	found := 0
	for list, next := (hearthv1.AgentRunList{}), true; next; next = list.Continue != "" {
		if err := api.List(ctx, &list, client.InNamespace(namespace), client.Limit(500), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list the records: %w", err)
		}
		for i := range list.Items {
			run := &list.Items[i]
			if run.Standing() {
				continue
			}
			found++
			if d := run.Status.Delivery; run.Status.Phase != hearthv1.PhaseSucceeded || d == nil || d.Attempt != 1 || d.Losses != 0 {
				return fmt.Errorf("run %s: expected Succeeded at the first attempt, it is %s (%+v)", run.Name, run.Status.Phase, d)
			}
		}
	}
	if found != count {
		return fmt.Errorf("expected %d records, there are %d", count, found)
	}
	return nil
}
