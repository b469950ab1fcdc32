package delivery

import (
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// alive is the status of a run that has not ended.
func alive(p Progress, phase Phase, reason Reason, message string) Status {
	message = cut(message, MaxMessageBytes)
	delivered := Condition{Status: False, Reason: reason, Message: message}
	if !p.AcceptedAt.IsZero() {
		delivered = Condition{Status: True, Reason: ReasonAccepted}
	}
	return Status{Phase: phase, Succeeded: Condition{Unknown, reason, message}, Delivered: delivered, Progress: p}
}

// status is the present reservation's, with what the harness told of it.
func (c situation) status(reason Reason, message string) *Status {
	p := c.progress()
	phase := PhasePending
	if !p.StartedAt.IsZero() {
		phase = PhaseRunning
	}
	s := alive(p, phase, reason, message)
	return &s
}

func (c situation) progress() Progress {
	p := c.run.Progress
	a := c.known()
	if a == nil {
		return p
	}
	for _, t := range []struct {
		from *time.Time
		to   *time.Time
	}{{a.AcceptedAt, &p.AcceptedAt}, {a.StartedAt, &p.StartedAt}} {
		if t.from != nil {
			*t.to = *t.from
		}
	}
	if a.Session != "" {
		p.Session = cut(a.Session, MaxSessionBytes)
	}
	return p
}

// disown makes it known, under the lock, that the reservation may be sent by others than its maker.
func (c situation) disown() Decision {
	s := c.status(ReasonReserved, "attempt reserved for Pod "+c.run.PodName)
	s.By = ""
	return Decision{Action: ActionDisown, Status: s}
}

// giveBack ends a reservation that is proven not to have run: no loss (R45).
func (c situation) giveBack(reason Reason, message string) Decision {
	p := Progress{Reservation: Reservation{Attempt: c.run.Attempt}, Losses: c.run.Losses, Spent: c.run.Spent}
	s := alive(p, PhasePending, reason, message)
	return Decision{Action: ActionGiveBack, Status: &s}
}

// lose ends an attempt that may have run: another one only where that was asked for (R45).
func (c situation) lose(reason Reason, message string) Decision {
	if c.mayTryAgain() {
		return c.nextAttempt(reason)
	}
	return c.finish(reason, message)
}

func (c situation) nextAttempt(lost Reason) Decision {
	p := Progress{Reservation: Reservation{Attempt: c.run.Attempt}, Losses: c.run.Losses + 1, Spent: c.run.Spent + c.elapsed()}
	p.NextTime = c.now.Add(Backoff(int(p.Losses), 0))
	reason := ReasonTargetNotReady
	if lost == ReasonTargetLost {
		reason = ReasonServiceRecasting
	}
	s := alive(p, PhasePending, reason, "the last attempt was lost ("+string(lost)+"); another follows")
	return Decision{Action: ActionNextAttempt, Status: &s, Lost: lost}
}

// finish writes a terminal record of the controller's own.
func (c situation) finish(reason Reason, message string) Decision {
	p := c.progress()
	var lost Reason
	switch reason {
	case ReasonTargetLost, ReasonOutcomeUnknown:
		p.Losses++
		lost = reason
	default:
	}
	p.NextTime = time.Time{}
	e := Ending{Reason: reason, Message: cut(message, MaxMessageBytes), CompletionTime: c.now, RecordedAt: c.now}
	s := ended(p, e)
	return Decision{Action: ActionFinish, Status: &s, Lost: lost}
}

// record writes the envelope's terminal record.
func (c situation) record(a *wire.Attempt) Decision {
	p := c.progress()
	e := a.Envelope
	if p.Session == "" {
		p.Session = cut(e.Session, MaxSessionBytes)
	}
	if p.StartedAt.IsZero() {
		p.StartedAt = e.Timing.StartedAt
	}
	var lost Reason
	if e.Outcome == wire.OutcomeInterrupted {
		p.Losses++
		lost = ReasonInterrupted
	}
	s := ended(p, NewEnding(c.now, *e))
	return Decision{Action: ActionRecord, Status: &s, Lost: lost}
}

// ended is the one terminal status, with everything in it (I2, R4).
func ended(p Progress, e Ending) Status {
	phase, verdict := PhaseFailed, False
	if e.Outcome == wire.OutcomeSucceeded {
		phase, verdict = PhaseSucceeded, True
	}
	s := alive(p, phase, e.Reason, e.Message)
	s.Succeeded.Status = verdict
	s.ACPReady = &Condition{Status: False, Reason: ReasonFinished, Message: "the run has ended"}
	s.Ending = &e
	return s
}
