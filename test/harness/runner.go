package harness

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// HoldPrefix begins a goal that runs until Release or a cancel, TakePrefix one that runs for the time that follows, such as 5s.
// Any other goal ends at once with Output(goal).
const (
	HoldPrefix = "hold "
	TakePrefix = "take "
)

// Output is what a goal yields.
func Output(goal string) string { return "done: " + goal }

// Key names one attempt.
type Key struct {
	RunUID  string
	Attempt int64
}

// Runner carries out goals as they say, and counts what it did.
type Runner struct {
	mu       sync.Mutex
	state    wire.AgentState
	notify   func()
	started  map[Key]int
	released map[string]chan struct{}
}

func newRunner() *Runner {
	return &Runner{state: wire.AgentReady, started: map[Key]int{}, released: map[string]chan struct{}{}}
}

func (r *Runner) changed(notify func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = notify
}

// Set changes the agent's state.
func (r *Runner) Set(s wire.AgentState) {
	r.mu.Lock()
	r.state = s
	notify := r.notify
	r.mu.Unlock()
	notify()
}

// Agent implements server.Runner.
func (r *Runner) Agent() wire.AgentInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return wire.AgentInfo{Name: "scripted", Version: "1", State: r.state}
}

// Started counts how often each attempt's goal was sent to the agent: the side effects.
func (r *Runner) Started() map[Key]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[Key]int, len(r.started))
	for k, n := range r.started {
		out[k] = n
	}
	return out
}

// Release lets a held goal of a run end.
func (r *Runner) Release(runUID string) { close(r.gate(runUID)) }

func (r *Runner) gate(runUID string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released[runUID] == nil {
		r.released[runUID] = make(chan struct{})
	}
	return r.released[runUID]
}

// Run implements server.Runner.
func (r *Runner) Run(ctx context.Context, w server.Work, start func(session string) error) wire.Envelope {
	began := time.Now()
	if err := start("session-1"); err != nil {
		return wire.Envelope{}
	}
	r.mu.Lock()
	r.started[Key{w.Run.UID, w.Attempt}]++
	r.mu.Unlock()
	outcome, reason := wire.OutcomeSucceeded, wire.ReasonCompleted
	var over, late <-chan time.Time
	if taking, ok := strings.CutPrefix(w.Goal, TakePrefix); ok {
		d, _ := time.ParseDuration(taking)
		over = time.After(d)
	}
	if s := w.Limits.ActiveSeconds; s != nil {
		late = time.After(time.Duration(*s) * time.Second)
	}
	if over != nil || strings.HasPrefix(w.Goal, HoldPrefix) {
		select {
		case <-over:
		case <-r.gate(w.Run.UID):
		case <-late:
			outcome, reason = wire.OutcomeFailed, wire.ReasonDeadlineExceeded
		case <-ctx.Done():
			outcome, reason = wire.OutcomeCancelled, wire.ReasonCancelled
		}
	}
	ended := time.Now()
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: outcome, Reason: reason, Session: "session-1", StopReason: "end_turn",
		Output: &wire.Output{MediaType: "text/plain", Value: Output(w.Goal)},
		Timing: wire.Timing{StartedAt: began.UTC(), FinishedAt: ended.UTC(), DurationMillis: ended.Sub(began).Milliseconds()},
	}
}
