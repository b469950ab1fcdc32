package delivery

import (
	"cmp"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// reserved decides about a reservation whose attempt has no proven end (SPEC.md, Lifecycle, re-attach table).
func (c situation) reserved() Decision {
	a, unsent := c.known(), c.unsent()
	switch {
	case a != nil && a.State == wire.StateVoided:
		return c.voided()
	case c.podReadDue():
		return Decision{Action: ActionReadPod}
	case c.podGone() && unsent:
		return c.giveBack(ReasonServiceRecasting, "its target went away before anything was sent")
	case c.podGone():
		return c.lose(ReasonTargetLost, "its target's Pod went away; the work may have started")
	case c.journalLost() && unsent:
		return c.giveBack(ReasonTargetNotReady, "its target's journal was lost before anything was sent")
	case c.journalLost() && c.answered():
		return c.lose(ReasonOutcomeUnknown, "its target's journal was lost; the work may have run")
	case unsent:
		return c.unsentYet()
	case c.rejected():
		return c.finish(ReasonRejected, cmp.Or(c.obs.Sent.Message, "the harness refused the request as malformed"))
	case !c.now.Before(c.run.deadline()):
		return c.overdue(a)
	case c.obs.Link != LinkVerified:
		return c.outOfReach()
	case c.journalLost(): // or our word of it is older than the reservation
		return c.call(ActionLook, Decision{RequeueAt: c.due()})
	case a != nil:
		return c.underWay(a)
	default:
		return c.unknown()
	}
}

// voided is proven never to run. Who asked for it does not matter: what the run wants now decides.
func (c situation) voided() Decision {
	switch {
	case c.obs.AgentGone:
		return c.finish(ReasonAgentNotFound, "the Agent that it was resolved from does not exist any more")
	case c.startingOver():
		return c.finish(ReasonStartingDeadlineExceeded, "it had not started within its starting deadline")
	case c.obs.Sent.Outcome == SendNotTaken && c.obs.Sent.Code != "":
		return c.giveBack(refusalReason(c.obs.Sent.Code), cmp.Or(c.obs.Sent.Message, "its target did not take it"))
	default:
		return c.giveBack(ReasonTargetNotReady, "its target gave it back unstarted")
	}
}

// unsentYet is proven not to have been sent or taken. It may go anywhere, and no void is needed.
func (c situation) unsentYet() Decision {
	switch {
	case c.obs.AgentGone:
		return c.finish(ReasonAgentNotFound, "the Agent that it was resolved from does not exist any more")
	case c.startingOver():
		return c.finish(ReasonStartingDeadlineExceeded, "it had not started within its starting deadline")
	case c.obs.Sent.Count > 0:
		return c.giveBack(refusalReason(c.obs.Sent.Code), cmp.Or(c.obs.Sent.Message, "its target did not take it"))
	case c.obs.Cordoned:
		return c.giveBack(ReasonServiceRecasting, "its target is being replaced")
	case c.obs.Link == LinkVerified:
		return c.call(ActionSend, Decision{RequeueAt: c.due()})
	case c.obs.Link == LinkNone, c.obs.Link == LinkChallenging:
		if !c.contactLost() {
			return Decision{RequeueAt: c.due()}
		}
	case c.obs.Link == LinkUnreachable, c.obs.Link == LinkUnauthenticated, c.obs.Link == LinkIncompatible:
	}
	return c.giveBack(LinkReason(c.obs.Link), cmp.Or(c.obs.LinkMessage, "its target gave no valid answer"))
}

// overdue is past the controller's deadline. It is looked at a last time, and what that finds alive is stopped; then it ends,
// whatever is known. A look that fails says nothing, and on a Link that is not verified it fails at once: only time ends it.
func (c situation) overdue(a *wire.Attempt) Decision {
	end := c.run.deadline()
	if since := c.since(c.obs.Since); since.After(end) {
		end = since // a controller that was down past the deadline looks first
	}
	end = end.Add(LastLookPatience)
	d := Decision{RequeueAt: earliest(c.now, end)}
	alive := a != nil && c.obs.Link == LinkVerified
	switch {
	case !c.now.Before(end):
	case alive && a.State == wire.StateFinished:
		return c.call(ActionLook, d)
	case alive && a.CancelRequested:
		return d
	case alive:
		return c.call(ActionCancel, d)
	case c.absent() && c.obs.Link == LinkVerified:
		return c.call(ActionVoid, d) // proven unstarted is better than unknown
	default:
		return c.call(ActionLook, d)
	}
	return c.finish(ReasonOutcomeUnknown, "its target could not be asked within the deadline; the work may have run")
}

// outOfReach is not gone. Nothing is concluded from silence before the deadline. An accepted run has somebody at work; one that
// is not known to be waits, and says for whom: that a stranger answers there is news at once.
func (c situation) outOfReach() Decision {
	d := Decision{RequeueAt: c.due()}
	opening := c.obs.Link == LinkNone || c.obs.Link == LinkChallenging
	switch {
	case (c.accepted() || opening) && !c.contactLost():
	case c.accepted():
		d.Status = c.status(ReasonContactLost, cmp.Or(c.obs.LinkMessage, "its target does not answer"))
	default:
		d.Status = c.status(LinkReason(c.obs.Link), cmp.Or(c.obs.LinkMessage, "its target does not answer"))
	}
	return d
}

// underWay is in the harness's hands; the feed tells what changes.
func (c situation) underWay(a *wire.Attempt) Decision {
	d := Decision{RequeueAt: c.due()}
	after, reason, message := WriteRunningAfter, ReasonRunning, "the agent is at work"
	switch a.State {
	case wire.StateFinished:
		return c.call(ActionLook, d) // the feed has no envelopes
	case wire.StateAccepted:
		if c.startingOver() || c.obs.AgentGone {
			return c.call(ActionVoid, d)
		}
		after, reason, message = WriteQueuedAfter, ReasonQueued, "accepted; waiting inside the harness"
	case wire.StateRunning, wire.StateVoided:
	}
	show := c.since(c.obs.SeenSince).Add(after)
	// What is said already need not be waited with: of a controller that begins anew that would be a second look at every run.
	if c.now.Before(show) && c.run.Reason != ReasonContactLost && c.run.Reason != reason {
		d.RequeueAt = earliest(c.now, d.RequeueAt, show)
		return d
	}
	d.Status = c.status(reason, message)
	return d
}

// unknown may have been sent, and the harness has not said what it knows. It stays on this Pod until that is known: look at the
// same attempt, send the same attempt, or void it there.
func (c situation) unknown() Decision {
	d := Decision{RequeueAt: c.due()}
	absent := c.absent()
	refused := c.obs.Sent.Count > 0 && c.obs.Sent.Outcome == SendNotTaken
	if !c.accepted() {
		d.Status = c.status(ReasonReserved, "attempt reserved for Pod "+c.run.PodName)
		if r := refusalReason(c.obs.Sent.Code); r == ReasonTargetUnauthenticated || r == ReasonTargetIncompatible {
			d.Status = c.status(r, c.obs.Sent.Message)
		}
	}
	switch {
	case c.obs.InFlight:
		return d
	case absent && c.accepted():
		return c.lose(ReasonOutcomeUnknown, "its target has forgotten an attempt that it had accepted")
	case c.startingOver(), c.obs.AgentGone, refused && mustVoid(c.obs.Sent.Code), absent && c.obs.Cordoned:
		return c.call(ActionVoid, d)
	case absent && c.run.By != "" && !c.mine():
		return c.disown()
	case absent:
		return c.call(ActionSend, d)
	default:
		return c.call(ActionLook, d)
	}
}

// refusalReason is the waiting reason that goes with a refusal; TargetUnreachable when it never left.
func refusalReason(code wire.Code) Reason {
	switch code {
	case "":
		return ReasonTargetUnreachable
	case wire.CodeBusy, wire.CodeJournalFull:
		return ReasonTargetBusy
	case wire.CodeUnauthenticated:
		return ReasonTargetUnauthenticated
	case wire.CodeUnsupportedVersion, wire.CodeTooLarge, wire.CodeUnsupportedMedia:
		return ReasonTargetIncompatible
	default:
		return ReasonTargetNotReady
	}
}
