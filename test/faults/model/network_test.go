package model

import (
	"slices"
	"time"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// request is one call in the network. caller is nil once it has given up.
type request struct {
	action delivery.Action
	key    key
	pod    *harness
	boot   string
	body   wire.DeliveryRequest
	within time.Duration
	caller *controller
	link   *link
	orphan bool
	doubts bool // it was begun before its caller saw that the attempt was accepted
}

type reply struct {
	delivery.Reply
	attempt *wire.Attempt
	journal string
}

// call sends something about a run's attempt, by the Link, if there is one.
func (w *world) call(c *controller, run delivery.Run, n *note, action delivery.Action) {
	l := c.links[n.pod]
	if l == nil {
		return
	}
	r := &request{action: action, key: key{run.UID, run.Attempt}, pod: n.pod, boot: l.boot, caller: c, link: l, within: time.Duration(delivery.StartWithin(w.now, run)) * time.Second,
		body: wire.DeliveryRequest{Run: wire.RunRef{Namespace: run.Namespace, Name: run.Name, UID: run.UID}, Attempt: run.Attempt, Journal: run.Journal, Goal: goalOf(run.UID),
			Target: wire.Target{Name: run.PodName, UID: run.PodUID}}}
	n.InFlight, r.doubts = true, !n.accepted
	if action == delivery.ActionSend {
		n.Sent.Count++
		n.Absent = false
	}
	if l.state != delivery.LinkVerified || !w.reaches(c, n.pod) {
		if l.state == delivery.LinkVerified {
			l.state = delivery.LinkUnreachable
		} // else the challenge that it asks for is a step of its own
		w.done(r, reply{Reply: delivery.Reply{NeverLeft: true}})
		return
	}
	w.net = append(w.net, r)
}

// deliver lets a request arrive. It may arrive twice, and its answer may get lost.
func (w *world) deliver(i int) {
	r := w.net[i]
	if !w.mishap(15) {
		w.net = slices.Delete(w.net, i, i+1)
	}
	if !r.pod.up || r.caller != nil && r.caller.cut[r.pod] {
		w.done(r, reply{})
		return
	}
	answer := w.handle(r)
	if w.mishap(20) {
		answer = reply{}
	}
	w.done(r, answer)
}

// lose loses a request on its way.
func (w *world) lose(i int) {
	w.done(w.net[i], reply{})
	w.net = slices.Delete(w.net, i, i+1)
}

// done hands the answer to the caller, once. It may have restarted meanwhile, or closed its Link.
func (w *world) done(r *request, answer reply) {
	c := r.caller
	r.caller = nil
	if c == nil || r.orphan || c.notes[r.key] == nil || c.links[r.pod] != r.link {
		return
	}
	n := c.notes[r.key]
	n.InFlight = false
	if answer.Code == wire.CodeBootChanged {
		r.link.state = delivery.LinkChallenging
	}
	if answer.Verified {
		r.link.contact = w.now
	} else {
		n.NotBefore = w.now.Add(time.Second)
	}
	switch r.action {
	case delivery.ActionSend:
		n.Sent.Outcome, n.Sent.Code = delivery.Classify(answer.Reply), answer.Code
	case delivery.ActionLook:
		if answer.Code == wire.CodeUnknown && r.doubts != n.accepted {
			n.Absent, n.Seen, n.SeenJournal = true, nil, answer.journal
		}
	default:
	}
	if answer.attempt != nil {
		w.see(n, *answer.attempt, answer.journal)
	}
}

func (w *world) see(n *note, a wire.Attempt, journal string) {
	if n.Seen == nil || n.Seen.State != a.State {
		n.SeenSince = w.now
	}
	n.Seen, n.SeenJournal, n.Absent = &a, journal, false
}
