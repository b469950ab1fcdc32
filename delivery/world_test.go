package delivery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// A simulated world: an API server with resource versions, harnesses that decide with Admit, Cancel and Record, a network that
// loses, delays and repeats, and two controllers at once with caches of their own. Whatever the two halves decide is carried
// out here, and every side effect is counted.

type key struct {
	uid     string
	attempt int64
}

// stored is an AgentRun on the API server.
type stored struct {
	run    Run
	rv     int
	ending *Ending
}

// harness is a Pod and the harness in it.
type harness struct {
	me              wire.Identity
	boot, journal   string
	exists, failed  bool // in the API server
	up, reachable   bool // the process
	cordoned, drain bool
	agent           wire.AgentState
	book            map[key]*Known
	startBy         map[key]time.Time
}

// request is one call in the network. caller is nil once it has given up.
type request struct {
	action Action
	key    key
	pod    *harness
	boot   string
	body   wire.DeliveryRequest
	within time.Duration
	caller *controller
	orphan bool
}

type reply struct {
	Reply
	attempt *wire.Attempt
	journal string
}

type world struct {
	t        *rapid.T
	now      time.Time
	api      map[string]*stored // by name
	past     map[string]*stored // every run there ever was, by UID
	pods     []*harness
	ctrls    []*controller
	net      []*request
	effects  map[string]int
	attempts map[key]int
	started  map[key]time.Time
	serial   int
	settling bool
	coverage map[string]int
}

func newWorld(t *rapid.T, coverage map[string]int) *world {
	w := &world{t: t, now: noon, api: map[string]*stored{}, past: map[string]*stored{}, effects: map[string]int{}, attempts: map[key]int{}, started: map[key]time.Time{}, coverage: coverage}
	for range 2 {
		w.newPod()
		w.ctrls = append(w.ctrls, w.newController())
	}
	return w
}

func (w *world) id(kind string) string { w.serial++; return fmt.Sprintf("%s-%d", kind, w.serial) }

// below draws evenly from 0 to n-1. Bit by bit, because rapid's own ranges prefer small numbers, and rare things would be common.
func (w *world) below(n int) int {
	v := 0
	for range 10 {
		v <<= 1
		if rapid.Bool().Draw(w.t, "bit") {
			v++
		}
	}
	return v * n / 1024
}

func (w *world) chance(percent int) bool { return w.below(100) >= 100-percent }

// pick draws one of those that qualify.
func pick[T any](w *world, from []T, qualifies func(T) bool) (T, bool) {
	var some []T
	for _, x := range from {
		if qualifies(x) {
			some = append(some, x)
		}
	}
	if len(some) == 0 {
		var none T
		return none, false
	}
	return some[w.below(len(some))], true
}

func names(m map[string]*stored) []string { return slices.Sorted(maps.Keys(m)) }

func goalOf(uid string) string { return "goal of " + uid }

func (w *world) create() {
	uid, name := w.id("run"), fmt.Sprintf("review-%d", w.below(5))
	if w.api[name] != nil {
		return
	}
	limit := int32(0)
	if w.chance(25) {
		limit = 2
	}
	s := &stored{run: Run{UID: uid, Namespace: "team", Name: name, Generation: 1, Created: w.now, Admitted: true, Starting: 20 * time.Minute, Active: 5 * time.Minute, BackoffLimit: limit}}
	w.api[name], w.past[uid] = s, s
}

// write is a status update with the resource version as its lock. It checks what must hold of every write (I2, I7).
func (w *world) write(seen stored, s Status) bool {
	name := seen.run.Name
	now := w.api[name]
	if now == nil || now.run.UID != seen.run.UID || now.rv != seen.rv {
		return false
	}
	old := now.run
	require.False(w.t, old.Terminal, "I2: a record never changes")
	require.GreaterOrEqual(w.t, s.Attempt, old.Attempt, "I7")
	if spent := s.Spent - old.Spent; spent != 0 { // nothing else moves the starting deadline
		at, ran := w.started[key{old.UID, old.Attempt}]
		require.True(w.t, ran && spent > 0 && spent <= w.now.Sub(at), "R28: %s was said to have been running for %s", old.UID, spent)
	}
	if s.Live() && old.Live() {
		want := old.Reservation
		want.By = s.By
		require.Equal(w.t, want, s.Reservation, "a reservation never moves")
	} else if s.Live() {
		require.Equal(w.t, old.Attempt+1, s.Attempt, "I7: a new reservation has a new number")
	}
	next := *now
	next.run.Progress, next.run.Phase, next.run.Reason = s.Progress, s.Phase, s.Succeeded.Reason
	next.run.Terminal, next.ending = s.Ending != nil, s.Ending
	next.rv++
	*now = next
	if s.Ending != nil {
		w.coverage["end "+string(s.Ending.Reason)]++
		w.honest(now)
	}
	return true
}

// honest: a record that says the work never started is true, now and for ever (R45).
func (w *world) honest(s *stored) {
	if s.ending == nil || s.run.Losses > 0 {
		return
	}
	never := s.ending.Reason == ReasonStartingDeadlineExceeded || s.ending.Reason == ReasonRejected || s.ending.Reason == ReasonAgentNotFound ||
		s.ending.Reason == ReasonCancelled && s.ending.Outcome == "" && strings.Contains(s.ending.Message, "before")
	if never {
		require.Zero(w.t, w.effects[s.run.UID], "recorded as never started: %s", s.ending.Message)
	}
}

func (w *world) newPod() {
	n := w.id("pod")
	w.pods = append(w.pods, &harness{me: wire.Identity{Namespace: "team", PodName: n, PodUID: n}, boot: w.id("boot"), journal: w.id("journal"), exists: true, up: true, reachable: true,
		agent: wire.AgentReady, book: map[key]*Known{}, startBy: map[key]time.Time{}})
}

func (h *harness) keys(is func(*Known) bool) []key {
	var out []key
	for k, a := range h.book {
		if is(a) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b key) int { return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.attempt, b.attempt)) })
	return out
}

func inState(s wire.State) func(*Known) bool { return func(k *Known) bool { return k.State == s } }

func (h *harness) capacity() wire.Capacity {
	return wire.Capacity{Concurrency: 1, Queue: 1, Running: len(h.keys(inState(wire.StateRunning))), Queued: len(h.keys(inState(wire.StateAccepted)))}
}

func (h *harness) held(k key) Held {
	held := Held{Same: h.book[k], Draining: h.drain, Agent: h.agent, Capacity: h.capacity()}
	for other, a := range h.book {
		if other.uid == k.uid {
			held.Highest = max(held.Highest, other.attempt)
			if !a.State.Ended() {
				held.Active = other.attempt
			}
		}
	}
	return held
}

// start begins accepted work; one side effect is counted (I1).
func (w *world) start(h *harness) {
	waiting := h.keys(inState(wire.StateAccepted))
	if !h.up || h.agent != wire.AgentReady || len(waiting) == 0 || h.capacity().Running > 0 {
		return
	}
	k := waiting[0]
	if w.now.After(h.startBy[k]) {
		h.book[k].State = wire.StateVoided
		return
	}
	at := w.now
	h.book[k].State, h.book[k].StartedAt = wire.StateRunning, &at
	w.effects[k.uid]++
	w.attempts[k]++
	w.started[k] = at
	require.LessOrEqual(w.t, w.attempts[k], 1, "I1: attempt %v started twice", k)
	run := w.past[k.uid]
	require.LessOrEqual(w.t, w.effects[k.uid], 1+int(run.run.BackoffLimit), "I1: run %s started too often", k.uid)
	w.honest(run)
}

func (w *world) finish(h *harness) {
	for _, k := range h.keys(inState(wire.StateRunning)) {
		if !h.up {
			return
		}
		a := h.book[k]
		if a.CancelRequested {
			w.end(a, wire.OutcomeCancelled, wire.ReasonCancelled)
		} else {
			w.end(a, wire.OutcomeSucceeded, wire.ReasonCompleted)
		}
	}
}

func (w *world) end(a *Known, outcome wire.Outcome, reason wire.Reason) {
	at := w.now
	a.State, a.FinishedAt = wire.StateFinished, &at
	a.Envelope = &wire.Envelope{Outcome: outcome, Reason: reason, Timing: wire.Timing{StartedAt: *a.StartedAt, FinishedAt: at}}
}

// restart is a new boot; with lost, of a new journal.
func (w *world) restart(h *harness, lost bool) {
	h.boot, h.agent, h.drain, h.up = w.id("boot"), wire.AgentReady, false, true
	for _, k := range h.keys(inState(wire.StateRunning)) {
		w.end(h.book[k], wire.OutcomeInterrupted, wire.ReasonInterrupted)
	}
	if lost {
		h.journal, h.book, h.startBy = w.id("journal"), map[key]*Known{}, map[key]time.Time{}
	}
}

// handle is the harness's side of the wire, by the real decisions.
func (w *world) handle(r *request) reply {
	h := r.pod
	problem := func(p *wire.Problem) reply {
		return reply{Reply: Reply{Verified: true, Status: p.Status, Code: p.Code}, journal: h.journal}
	}
	ok := func(status int, a Known) reply {
		return reply{Reply: Reply{Verified: true, Status: status}, attempt: &a.Attempt, journal: h.journal}
	}
	if r.boot != h.boot {
		return problem(wire.NewProblem(wire.CodeBootChanged, ""))
	}
	held := h.held(r.key)
	switch r.action {
	case ActionSend:
		switch a := Admit(h.me, h.journal, r.body, held); a.Kind {
		case AdmissionAccept:
			at := w.now
			h.book[r.key] = &Known{Attempt: wire.Attempt{Run: r.body.Run, Attempt: r.body.Attempt, State: wire.StateAccepted, AcceptedAt: &at, Digest: wire.Digest(r.key.uid, r.key.attempt, r.body.Goal)}}
			h.startBy[r.key] = w.now.Add(r.within)
			return ok(202, *h.book[r.key])
		case AdmissionDuplicate:
			return ok(200, *a.Known)
		case AdmissionRefuse:
			return problem(a.Problem)
		}
	case ActionLook:
		if held.Same == nil {
			return problem(wire.NewProblem(wire.CodeUnknown, ""))
		}
		return ok(200, *held.Same)
	case ActionVoid, ActionCancel:
		switch c := Cancel(held, r.action == ActionVoid); c.Kind {
		case CancellationVoid:
			if held.Same == nil {
				h.book[r.key] = &Known{Attempt: wire.Attempt{Run: r.body.Run, Attempt: r.key.attempt}}
			}
			h.book[r.key].State = wire.StateVoided
			return ok(200, *h.book[r.key])
		case CancellationStop:
			w.mayStop(r)
			h.book[r.key].CancelRequested = true
			return ok(202, *h.book[r.key])
		case CancellationEnded:
			return ok(200, *c.Known)
		case CancellationRefuse:
			return problem(c.Problem)
		}
	default:
	}
	panic("not a call")
}

// mayStop: work is only stopped when nobody wants it (I5).
func (w *world) mayStop(r *request) {
	s := w.past[r.key.uid]
	wanted := w.api[s.run.Name] == s && !s.run.Cancel && !s.run.Terminal && s.run.Attempt == r.key.attempt && s.run.PodUID == r.pod.me.PodUID && w.now.Before(s.run.deadline())
	require.False(w.t, wanted, "I5: stopped work that is wanted: %v", r.key)
}
