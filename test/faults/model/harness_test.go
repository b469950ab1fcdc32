package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// harness is a Pod and the harness in it.
type harness struct {
	me             wire.Identity
	agent          string
	owner          types.UID // the standing run
	boot, journal  string
	exists, failed bool // in the API server
	endsBy         time.Time
	up             bool // the process
	draining       bool
	state          wire.AgentState
	book           map[key]*delivery.Known
	startBy        map[key]time.Time
}

func (w *world) newHarness(agent, podName string, owner types.UID) *harness {
	h := &harness{me: wire.Identity{Namespace: namespace, PodName: podName, PodUID: w.id("pod")}, agent: agent, owner: owner, boot: w.id("boot"), journal: w.id("journal"),
		exists: true, up: true, state: wire.AgentReady, book: map[key]*delivery.Known{}, startBy: map[key]time.Time{}}
	w.harnesses = append(w.harnesses, h)
	return h
}

func (w *world) byUID(podUID string) *harness {
	return w.harnesses[slices.IndexFunc(w.harnesses, func(h *harness) bool { return h.me.PodUID == podUID })]
}

func (h *harness) keys(is func(*delivery.Known) bool) []key {
	var out []key
	for k, a := range h.book {
		if is(a) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b key) int { return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.attempt, b.attempt)) })
	return out
}

func in(s wire.State) func(*delivery.Known) bool {
	return func(k *delivery.Known) bool { return k.State == s }
}

func unrecorded(k *delivery.Known) bool {
	return k.State != wire.StateVoided && !k.Recorded
}

func (h *harness) capacity() wire.Capacity {
	return wire.Capacity{Concurrency: 1, Queue: 1, Running: len(h.keys(in(wire.StateRunning))), Queued: len(h.keys(in(wire.StateAccepted)))}
}

func (h *harness) held(k key) delivery.Held {
	held := delivery.Held{Same: h.book[k], Draining: h.draining, Agent: h.state, Capacity: h.capacity()}
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

// start begins accepted work: one side effect.
func (w *world) start(h *harness) {
	waiting := h.keys(in(wire.StateAccepted))
	if !h.up || h.state != wire.AgentReady || len(waiting) == 0 || h.capacity().Running > 0 {
		return
	}
	k := waiting[0]
	if w.now.After(h.startBy[k]) {
		h.book[k].State = wire.StateVoided
		return
	}
	at := w.now
	h.book[k].State, h.book[k].StartedAt = wire.StateRunning, &at
	w.tell("%v starts in %s", k, h.me.PodUID)
	w.checkStart(k)
}

// finish ends what runs, as it was asked to.
func (w *world) finish(h *harness) {
	for _, k := range h.keys(in(wire.StateRunning)) {
		switch a := h.book[k]; {
		case !h.up:
		case a.CancelRequested:
			w.end(h, k, wire.OutcomeCancelled, wire.ReasonCancelled)
		default:
			w.end(h, k, wire.OutcomeSucceeded, wire.ReasonCompleted)
		}
	}
}

func (w *world) end(h *harness, k key, outcome wire.Outcome, reason wire.Reason) {
	a, at := h.book[k], w.now
	w.results[k] = fmt.Sprintf("%s of %v in %s", reason, k, h.me.PodUID)
	a.State, a.FinishedAt = wire.StateFinished, &at
	a.Envelope = &wire.Envelope{Outcome: outcome, Reason: reason, Output: &wire.Output{MediaType: "text/plain", Value: w.results[k]}, Timing: wire.Timing{StartedAt: *a.StartedAt, FinishedAt: at}}
	w.tell("%v ends %s in %s", k, reason, h.me.PodUID)
}

func (w *world) endAll(h *harness, outcome wire.Outcome, reason wire.Reason) {
	for _, k := range h.keys(in(wire.StateRunning)) {
		w.end(h, k, outcome, reason)
	}
}

// overtime is the harness's own clock, which fires before the controller's.
func (w *world) overtime() {
	for _, h := range w.harnesses {
		for _, k := range h.keys(in(wire.StateRunning)) {
			if h.up && w.elapsed(h.book[k]) >= active && !w.mishap(40) {
				w.end(h, k, wire.OutcomeFailed, wire.ReasonDeadlineExceeded)
			}
		}
	}
}

// boots is a new boot; with lost, of a new journal.
func (w *world) boots(h *harness, lost bool) {
	h.boot, h.state, h.up = w.id("boot"), wire.AgentReady, true
	w.endAll(h, wire.OutcomeInterrupted, wire.ReasonInterrupted)
	if lost {
		h.journal, h.book, h.startBy = w.id("journal"), map[key]*delivery.Known{}, map[key]time.Time{}
	}
	w.tell("%s boots (journal lost: %t)", h.me.PodUID, lost)
}

// drains takes no new work and gives back what has not started.
func (w *world) drains(h *harness) {
	h.draining = true
	for _, k := range h.keys(in(wire.StateAccepted)) {
		h.book[k].State = wire.StateVoided
	}
}

// handle is the harness's side of the wire, by the real decisions.
func (w *world) handle(r *request) reply {
	h := r.pod
	problem := func(p *wire.Problem) reply {
		return reply{Reply: delivery.Reply{Verified: true, Status: p.Status, Code: p.Code}, journal: h.journal}
	}
	ok := func(status int, a delivery.Known) reply {
		return reply{Reply: delivery.Reply{Verified: true, Status: status}, attempt: &a.Attempt, journal: h.journal}
	}
	if r.boot != h.boot {
		return problem(wire.NewProblem(wire.CodeBootChanged, ""))
	}
	held := h.held(r.key)
	switch r.action {
	case delivery.ActionSend:
		a := delivery.Admit(h.me, h.journal, r.body, held)
		switch a.Kind {
		case delivery.AdmissionAccept:
			at := w.now
			h.book[r.key] = &delivery.Known{Attempt: wire.Attempt{Run: r.body.Run, Attempt: r.body.Attempt, State: wire.StateAccepted, AcceptedAt: &at,
				Digest: wire.Digest(r.key.uid, r.key.attempt, r.body.Goal)}}
			h.startBy[r.key] = w.now.Add(r.within)
			return ok(202, *h.book[r.key])
		case delivery.AdmissionDuplicate:
			return ok(200, *a.Known)
		case delivery.AdmissionRefuse:
		}
		w.coverage["refused "+string(a.Problem.Code)]++
		return problem(a.Problem)
	case delivery.ActionLook:
		if held.Same == nil {
			return problem(wire.NewProblem(wire.CodeUnknown, ""))
		}
		return ok(200, *held.Same)
	default:
		return w.handleCancel(r, held, problem, ok)
	}
}

func (w *world) handleCancel(r *request, held delivery.Held, problem func(*wire.Problem) reply, ok func(int, delivery.Known) reply) reply {
	c := delivery.Cancel(held, r.action == delivery.ActionVoid)
	book := r.pod.book
	switch c.Kind {
	case delivery.CancellationVoid:
		if r.action == delivery.ActionCancel && held.Same != nil {
			w.checkStop(r)
		}
		if held.Same == nil {
			book[r.key] = &delivery.Known{Attempt: wire.Attempt{Run: r.body.Run, Attempt: r.key.attempt}}
		}
		book[r.key].State = wire.StateVoided
		return ok(200, *book[r.key])
	case delivery.CancellationStop:
		w.checkStop(r)
		book[r.key].CancelRequested = true
		return ok(202, *book[r.key])
	case delivery.CancellationEnded:
		return ok(200, *c.Known)
	case delivery.CancellationRefuse:
	}
	return problem(c.Problem)
}
