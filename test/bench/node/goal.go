package node

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The words that a goal may begin with.
const (
	Hold = "hold"
	Take = "take "
	Give = "give "
)

// session is the one that every goal is sent in.
const session = "session-1"

// agent carries out the goals of one Pod as they say.
type agent struct {
	pod      *pod
	book     *book
	released *gates
}

// Agent implements server.Runner: it is always there.
func (a *agent) Agent() wire.AgentInfo {
	return wire.AgentInfo{Name: "scripted", Version: "1", State: wire.AgentReady}
}

// Run implements server.Runner.
func (a *agent) Run(ctx context.Context, w server.Work, start func(session string) error) wire.Envelope {
	key := Key{Run: w.Run.UID, Attempt: w.Attempt}
	if err := start(session); err != nil {
		return wire.Envelope{}
	}
	began := time.Now()
	a.book.begun(key, a.pod.name, began)
	outcome, reason := wire.OutcomeSucceeded, wire.ReasonCompleted
	if !a.carryOut(ctx, w) {
		outcome, reason = wire.OutcomeCancelled, wire.ReasonCancelled
	}
	ended := time.Now()
	a.book.ended(key, ended)
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: outcome, Reason: reason, Session: session, StopReason: "end_turn",
		Output: &wire.Output{MediaType: "text/plain", Value: output(w.Goal)},
		Timing: wire.Timing{StartedAt: began.UTC(), FinishedAt: ended.UTC(), DurationMillis: ended.Sub(began).Milliseconds()},
	}
}

// carryOut is false when the work was cancelled.
func (a *agent) carryOut(ctx context.Context, w server.Work) bool {
	switch taking, takes := strings.CutPrefix(w.Goal, Take); {
	case takes:
		d, _ := time.ParseDuration(strings.TrimSpace(taking)) // what is no time takes none
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	case strings.HasPrefix(w.Goal, Hold):
		select {
		case <-a.released.gate(w.Run.UID):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// output is what a goal yields.
func output(goal string) string {
	if text, gives := strings.CutPrefix(goal, Give); gives {
		n, _ := strconv.Atoi(strings.TrimSpace(text)) // what is no number gives nothing
		return strings.Repeat("x", min(max(0, n), wire.MaxEnvelopeBytes/2))
	}
	return "done"
}

// gates hold the goals that wait for Release.
type gates struct {
	mu  sync.Mutex
	all map[string]chan struct{} // by run
}

func (g *gates) gate(run string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of(run)
}

// of is a run's gate; the lock is held.
func (g *gates) of(run string) chan struct{} {
	if g.all[run] == nil {
		g.all[run] = make(chan struct{})
	}
	return g.all[run]
}

// open lets these runs end, or without any all that hold now.
func (g *gates) open(runs []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(runs) == 0 {
		for run := range g.all {
			runs = append(runs, run)
		}
	}
	for _, run := range runs {
		gate := g.of(run)
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}
