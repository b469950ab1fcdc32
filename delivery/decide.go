package delivery

import (
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// How long things may take (SPEC.md, Lifecycle, Clocks).
const (
	// ContactLostAfter is how long a target may be silent before its runs say so.
	ContactLostAfter = 90 * time.Second
	// CancelPatience is how long a cancel may stay unconfirmed.
	CancelPatience = 30 * time.Second
	// DeadlineGrace is what the controller's deadline leaves to the harness's, which fires first.
	DeadlineGrace = 30 * time.Second
	// LastLookPatience is how long the last look past the deadline may take, and the stop of what it finds still running.
	LastLookPatience = 30 * time.Second
	// WriteRunningAfter spares a short run the write of Running.
	WriteRunningAfter = time.Second
	// WriteQueuedAfter spares a run whose turn at its target comes soon the write of Queued: that there is a queue is no news while it moves.
	WriteQueuedAfter = 2 * time.Second
	// WriteBusyAfter spares a run that has its turn soon the write of TargetBusy.
	WriteBusyAfter = 5 * time.Second
	// PodReadEvery is how often a Pod that the cache has lost and the API server has not is looked up again.
	PodReadEvery = 30 * time.Second
	// PodReadAgain is when a failed read of a Pod is repeated.
	PodReadAgain = 5 * time.Second
	// DefaultStarting and DefaultActive bound a run whose limits are absent.
	DefaultStarting = time.Hour
	DefaultActive   = 30 * time.Minute
)

// Decide tells the one next action for a run and the status it should show (SPEC.md, Lifecycle). It is total: any run and
// anything observed, or not, lead to an action, and every living run has a deadline (R41).
func Decide(now time.Time, run Run, obs Observed) Decision {
	c := situation{now: now, run: run, obs: obs}
	switch {
	case run.Terminal:
		return Decision{}
	case !run.Admitted:
		return c.finish(ReasonNotAdmitted, "the run was stored without admission and is never executed")
	case !run.Live():
		return c.waiting()
	}
	// What the harness proved about the end comes before everything else, whatever else is known.
	if c.foreign() {
		return c.finish(ReasonOutcomeUnknown, "the harness holds this attempt with another content")
	}
	if a := c.known(); a != nil && a.State == wire.StateFinished && (a.Envelope != nil || a.Recorded) {
		return c.finished(a)
	}
	if run.Cancel {
		return c.cancelling()
	}
	return c.reserved()
}

// StartWithin is the startWithinSeconds to send along: what is left of the starting deadline, at least 1.
func StartWithin(now time.Time, run Run) int64 {
	left := (run.startingEnd().Sub(now) + time.Second - 1) / time.Second
	return min(max(int64(left), 1), wire.MaxSeconds)
}

// startingEnd is when a run that has not started ends. Running is not waiting, so lost attempts push it on; nothing resets it.
func (r Run) startingEnd() time.Time {
	d := r.Starting
	if d <= 0 {
		d = DefaultStarting
	}
	return r.Created.Add(d + r.Spent)
}

// deadline is the controller's own, made of what is persisted: reservedAt + the starting deadline then left + the run's own
// time + grace. The harness's clocks fire first.
func (r Run) deadline() time.Time {
	d := r.Active
	if d <= 0 {
		d = DefaultActive
	}
	from := r.startingEnd()
	if r.At.After(from) {
		from = r.At
	}
	return from.Add(d + DeadlineGrace)
}

// situation is one run as it is decided about.
type situation struct {
	now time.Time
	run Run
	obs Observed
}

// waiting has no reservation: only its end is decided here, the rest is Assign's.
func (c situation) waiting() Decision {
	switch {
	case c.run.Cancel:
		return c.finish(ReasonCancelled, "cancelled while it waited for a target")
	case c.obs.AgentGone:
		return c.finish(ReasonAgentNotFound, "the Agent that it was resolved from does not exist any more")
	case c.startingOver():
		return c.finish(ReasonStartingDeadlineExceeded, "it found no target within its starting deadline")
	default:
		return Decision{RequeueAt: earliest(c.now, c.run.startingEnd())}
	}
}

// finished has the attempt's proven end. A result that the harness has dropped was recorded by somebody: this view of the run
// is stale, unless the API server says otherwise.
func (c situation) finished(a *wire.Attempt) Decision {
	switch {
	case a.Envelope == nil && !c.obs.LiveRun:
		return Decision{Action: ActionReadRun}
	case a.Envelope == nil:
		return c.finish(ReasonOutcomeUnknown, "the harness has dropped the result as recorded, and there is no record")
	case a.Envelope.Outcome == wire.OutcomeInterrupted && c.mayTryAgain():
		return c.nextAttempt(ReasonInterrupted)
	default:
		return c.record(a)
	}
}

// cancelling walks the cancel ladder's outer rungs: DELETE until it is confirmed, the Pod is gone, or patience is over (R42).
func (c situation) cancelling() Decision {
	end := c.since(c.obs.CancelSince).Add(CancelPatience)
	seen := c.seen()
	voided := seen != nil && seen.State == wire.StateVoided
	switch {
	case voided && c.known() != nil:
		return c.finish(ReasonCancelled, "cancelled before it started")
	case voided:
		return c.finish(ReasonCancelled, "nothing of it is left at its target, whose journal was lost; it may have started")
	case c.unsent():
		return c.finish(ReasonCancelled, "cancelled before it was sent")
	case c.podReadDue():
		return Decision{Action: ActionReadPod}
	case c.podGone():
		return c.finish(ReasonCancelled, "its Pod is gone")
	case !c.now.Before(end):
		return c.finish(ReasonCancelUnconfirmed, "the cancel was not confirmed in time; the work may still go on")
	}
	d := Decision{Status: c.status(ReasonCancelling, "waiting for the harness to confirm"), RequeueAt: earliest(c.now, end, c.podReadAt())}
	switch {
	case c.obs.Link != LinkVerified:
		return d
	case c.known() != nil && c.known().State == wire.StateFinished:
		return c.call(ActionLook, d) // it ended: the result decides
	case seen != nil && seen.CancelRequested && c.obs.SeenJournal == c.obs.Journal:
		return d // confirmed; its end is awaited
	default:
		return c.call(ActionCancel, d)
	}
}
