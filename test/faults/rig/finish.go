package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/faults/invariant"
)

const (
	// slack is added to what SPEC.md allows, because tests share a small machine.
	slack = 10 * time.Second
	// settleWithin is how long what was used may take to be given back.
	settleWithin = 20 * time.Second
	// leaseAlive: a leader renews every two seconds; one that did not for as long leads no more as far as anybody can tell.
	leaseAlive = 6 * time.Second
)

// Allow is for a case that is about an invariant's exception: violations of that invariant that have the text in them are none.
func (w *World) Allow(name invariant.Name, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allowed = append(w.allowed, invariant.Violation{Invariant: name, Text: text})
}

// Sample remembers what the living controllers and harnesses hold now. What they hold at the test's end is compared with it.
func (w *World) Sample() {
	samples := w.samples()
	_, err := w.secrets()
	require.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range samples {
		if _, known := w.before[name]; !known {
			w.before[name] = s
		}
	}
}

func (w *World) samples() map[string]invariant.Sample {
	found := map[string]invariant.Sample{}
	w.mu.Lock()
	controllers := slices.Clone(w.controllers)
	w.mu.Unlock()
	for i, c := range controllers {
		text := ""
		if c.Alive() && !c.frozen.Load() {
			text = c.Metrics()
		}
		if s, err := invariant.OfMetrics(strings.NewReader(text)); err == nil && text != "" && !waits(text) {
			found[fmt.Sprintf("controller %d", i+1)] = s
		}
	}
	for _, p := range w.node.all() {
		x := p.running()
		if x == nil {
			continue
		}
		if s, err := invariant.OfProcess(x.pid()); err == nil {
			found[fmt.Sprintf("harness of %s (process %d)", p.Name, x.pid())] = s
		}
	}
	return found
}

// waits tells whether a controller does not lead, by its own metrics. What it holds then says nothing of what it holds once it does.
func waits(metrics string) bool { return notLeading.MatchString(metrics) }

var notLeading = regexp.MustCompile(`(?m)^leader_election_master_status\{.*\} 0$`)

// finish checks what must hold after every test.
func (w *World) finish() {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := w.history.Settle(ctx); err != nil {
		w.t.Errorf("history: %v", err)
	}
	var found []invariant.Violation
	for end := time.Now().Add(settleWithin); ; time.Sleep(tick) {
		facts, err := w.facts(ctx)
		if err != nil {
			w.t.Errorf("invariants: %v", err)
			return
		}
		found = slices.DeleteFunc(invariant.Check(facts), w.isAllowed)
		// Only I6 may come right by waiting.
		if time.Now().After(end) || !slices.ContainsFunc(found, func(v invariant.Violation) bool { return v.Invariant == invariant.I6 }) {
			break
		}
	}
	if len(found) > 0 {
		w.t.Errorf("invariants do not hold:\n%s", invariant.Say(found))
	}
}

func (w *World) isAllowed(v invariant.Violation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.allowed, func(a invariant.Violation) bool {
		return a.Invariant == v.Invariant && strings.Contains(v.Text, a.Text)
	})
}

// facts gathers what is known.
func (w *World) facts(ctx context.Context) (invariant.Facts, error) {
	f := invariant.Facts{Now: time.Now(), Versions: w.history.Versions(), Up: w.led(), Drained: map[types.UID]bool{}, Grace: slack}
	effects, err := w.readEffects()
	if err != nil {
		return f, err
	}
	for _, e := range effects {
		f.Effects = append(f.Effects, invariant.Effect{Run: e.RunUID, Attempt: e.Attempt, Pod: e.PodUID, Started: e.At, Ended: e.Ended, Cancelled: e.Cancelled})
		if e.Cancelled {
			f.Cancels = append(f.Cancels, invariant.Cancel{Run: e.RunUID, Attempt: e.Attempt, Pod: e.PodUID})
		}
	}
	for _, p := range w.node.all() {
		if p.wasAsked() {
			f.Drained[p.UID] = true
		}
	}
	f.Cancels = slices.DeleteFunc(f.Cancels, func(c invariant.Cancel) bool { return f.Drained[c.Pod] })
	after := w.samples()
	w.mu.Lock()
	for name, before := range w.before {
		if now, ok := after[name]; ok {
			f.Processes = append(f.Processes, invariant.Process{Name: name, Before: before, After: now, Allow: invariant.Usual()})
		}
	}
	for token := range w.tokens {
		f.Secrets = append(f.Secrets, invariant.Secret{Name: "a run's goal", Value: token})
	}
	w.mu.Unlock()
	secrets, err := w.secrets()
	if err != nil {
		return f, err
	}
	for name, value := range secrets {
		f.Secrets = append(f.Secrets, invariant.Secret{Name: "Secret " + name, Value: value})
	}
	f.Texts, err = w.texts(ctx)
	return f, err
}

// texts are where no goal and no secret may be.
func (w *World) texts(ctx context.Context) ([]invariant.Text, error) {
	var all []invariant.Text
	w.mu.Lock()
	controllers := slices.Clone(w.controllers)
	w.mu.Unlock()
	for i, c := range controllers {
		all = append(all, invariant.Text{Where: fmt.Sprintf("the log of controller %d", i+1), Body: c.Log()})
		if c.Alive() && !c.frozen.Load() {
			all = append(all, invariant.Text{Where: fmt.Sprintf("the metrics of controller %d", i+1), Body: c.Metrics()})
		}
	}
	for _, p := range w.node.all() {
		all = append(all, invariant.Text{Where: "the log of the harness of " + p.Name, Body: p.Log()})
	}
	var events eventsv1.EventList
	if err := w.Admin.List(ctx, &events, client.InNamespace(w.Namespace)); err != nil {
		return nil, fmt.Errorf("read the Events: %w", err)
	}
	body, err := json.Marshal(events.Items)
	if err != nil {
		return nil, fmt.Errorf("read the Events: %w", err)
	}
	return append(all, invariant.Text{Where: "the Events", Body: string(body)}), nil
}

// led is when a controller led: its lease was written without a break.
func (w *World) led() []invariant.Span {
	var spans []invariant.Span
	for _, r := range w.API.Requests() {
		if r.Resource != "leases" || r.Verb == "get" || r.Status < 200 || r.Status > 299 {
			continue
		}
		if last := len(spans) - 1; last >= 0 && r.At.Sub(spans[last].To) < leaseAlive {
			spans[last].To = r.At
			continue
		}
		spans = append(spans, invariant.Span{From: r.At, To: r.At})
	}
	return spans
}
