package delivery

import (
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// seen is the harness's word about this very attempt, under whatever journal.
func (c situation) seen() *wire.Attempt {
	if a := c.obs.Seen; a != nil && a.Run.UID == c.run.UID && a.Attempt == c.run.Attempt {
		return a
	}
	return nil
}

// known is the harness's word about this attempt, told under the journal it was reserved with. Another journal's word about it
// says nothing of what happened before (fault row 18).
func (c situation) known() *wire.Attempt {
	if c.obs.SeenJournal != c.run.Journal {
		return nil
	}
	return c.seen()
}

// absent: the harness has nothing of this attempt, and its journal is the one the attempt was reserved with.
func (c situation) absent() bool { return c.obs.Absent && c.obs.SeenJournal == c.run.Journal }

// foreign: the number is ours, the content is not. A tombstone of an attempt never seen has no content.
func (c situation) foreign() bool {
	a := c.known()
	return a != nil && a.State != wire.StateVoided && a.Digest != c.run.Digest
}

// mine: this process made the reservation, remembers all it did about it, and no other has sent it since: that one would have
// cleared By first.
func (c situation) mine() bool { return c.obs.Mine && c.obs.Self != "" && c.run.By == c.obs.Self }

// unsent tells whether it is proven that the harness has nothing of this attempt and will not get it: this process reserved it,
// and has not sent it or was refused the only time. Found after a restart, it is not (fault row 2).
func (c situation) unsent() bool {
	s := c.obs.Sent
	refused := s.Count == 1 && s.Outcome == SendNotTaken && !mustVoid(s.Code)
	return c.mine() && !c.obs.InFlight && c.seen() == nil && !c.accepted() && (s.Count == 0 || refused)
}

// rejected: the answer 400 came to the first send ever of this attempt.
func (c situation) rejected() bool {
	s := c.obs.Sent
	return c.mine() && !c.obs.InFlight && s.Count == 1 && s.Outcome == SendRejected && c.known() == nil
}

// accepted: the harness has journalled it, by its own word or by the status we wrote upon it.
func (c situation) accepted() bool {
	return !c.run.AcceptedAt.IsZero() || c.known() != nil || c.obs.Sent.Count > 0 && !c.obs.InFlight && c.obs.Sent.Outcome == SendAccepted
}

// journalLost: the last challenge was answered with another journal than the one it was reserved with. It may have been answered
// before another controller made the reservation, so by itself it proves no loss.
func (c situation) journalLost() bool {
	return c.obs.Link == LinkVerified && c.obs.Journal != c.run.Journal
}

// answered: asked for this very attempt, so after it was reserved, the harness told what it has under its present journal.
func (c situation) answered() bool {
	return (c.obs.Absent || c.seen() != nil) && c.obs.SeenJournal == c.obs.Journal
}

func (c situation) startingOver() bool { return !c.now.Before(c.run.startingEnd()) }

func (c situation) contactLost() bool {
	return c.obs.Link != LinkVerified && !c.now.Before(c.since(c.obs.LastContact).Add(ContactLostAfter))
}

func (c situation) podGone() bool { return c.obs.PodRead == PodGone || c.obs.PodRead == PodTerminal }

// podReadDue: a cache never proves that a Pod is gone (fault row 51).
func (c situation) podReadDue() bool {
	return c.obs.PodSuspect && !c.podGone() && !c.now.Before(c.podReadAt())
}

func (c situation) podReadAt() time.Time {
	switch {
	case !c.obs.PodSuspect || c.podGone():
		return time.Time{}
	case c.obs.PodReadAt.IsZero():
		return c.now
	case c.obs.PodRead == PodPresent:
		return c.obs.PodReadAt.Add(PodReadEvery)
	default:
		return c.obs.PodReadAt.Add(PodReadAgain)
	}
}

func (c situation) mayTryAgain() bool {
	return !c.run.Cancel && c.run.Losses < c.run.BackoffLimit && c.now.Before(c.run.startingEnd().Add(c.elapsed()))
}

// elapsed is how long the attempt may have been running. The reservation bounds it, so a clock that is off cannot stretch it.
func (c situation) elapsed() time.Duration {
	start := c.run.StartedAt
	if a := c.known(); a != nil && a.StartedAt != nil {
		start = *a.StartedAt
	}
	if start.IsZero() {
		return 0
	}
	if start.Before(c.run.At) {
		start = c.run.At
	}
	return max(0, c.now.Sub(start))
}

// since reads a remembered time of which zero means now.
func (c situation) since(t time.Time) time.Time {
	if t.IsZero() {
		return c.now
	}
	return t
}

// due is when a living attempt has to be looked at though nothing happens.
func (c situation) due() time.Time {
	var contact time.Time
	if c.obs.Link != LinkVerified {
		contact = c.since(c.obs.LastContact).Add(ContactLostAfter)
	}
	return earliest(c.now, c.run.startingEnd(), c.run.deadline(), contact, c.podReadAt())
}

// call adds a call to the harness, unless one is under way or it is too early.
func (c situation) call(a Action, d Decision) Decision {
	switch {
	case c.obs.InFlight:
	case c.obs.NotBefore.After(c.now):
		d.RequeueAt = earliest(c.now, d.RequeueAt, c.obs.NotBefore)
	default:
		d.Action = a
	}
	return d
}
