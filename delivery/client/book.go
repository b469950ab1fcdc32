package client

import (
	"time"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Key names one attempt of one run.
type Key struct {
	RunUID  string
	Attempt int64
}

// Attempt is what a Link knows of one attempt; the fields after Run are those of delivery.Observed.
type Attempt struct {
	Run    wire.RunRef
	Number int64
	// Sent counts this process's sends and has what the last one proved.
	Sent delivery.Sent
	// Seen is the latest state the harness told, nil when it never told one; its envelope is there once a look brought it.
	// SeenJournal is the journal it was told under, SeenSince when this process first saw that state.
	Seen        *wire.Attempt
	SeenJournal string
	SeenSince   time.Time
	// Absent: a look begun after the last send ended, and after the last Doubt, was answered that journal SeenJournal has no such attempt.
	Absent bool
	// InFlight: a call about this attempt is queued or under way.
	InFlight bool
	// NotBefore is when the next call about it is due, after one that failed.
	NotBefore time.Time
}

// entry is an Attempt and the bookkeeping around it.
type entry struct {
	Attempt
	pending  [verbs]bool
	failures int
	doubts   int
}

// book is a Link's memory of attempts. The Link's lock guards it.
type book struct {
	entries map[Key]*entry
}

func newBook() book { return book{entries: map[Key]*entry{}} }

// open gives the entry of an attempt, making room for a new one; nil when there is none.
func (b *book) open(run wire.RunRef, number int64) *entry {
	key := Key{RunUID: run.UID, Attempt: number}
	if e := b.entries[key]; e != nil {
		return e
	}
	if len(b.entries) >= maxAttempts && !b.evict() {
		return nil
	}
	e := &entry{Attempt: Attempt{Run: run, Number: number}}
	b.entries[key] = e
	return e
}

// evict drops attempts that the target does not hold and that no send of may be there.
func (b *book) evict() bool {
	before := len(b.entries)
	for k, e := range b.entries {
		open := e.Sent.Count > 0 && (e.Sent.Outcome == delivery.SendUnknown || e.Sent.Outcome == delivery.SendAccepted)
		if !e.InFlight && e.Seen == nil && !open {
			delete(b.entries, k)
		}
	}
	return len(b.entries) < before
}

// learn takes over what the harness said of an attempt, under a journal, and tells whether that is news. States only go
// forward within a journal, so an answer that was overtaken by another changes nothing.
func (b *book) learn(a wire.Attempt, journal string, now time.Time) bool {
	if !plausible(a) {
		return false
	}
	a.Session = wire.CutText(wire.CleanText(a.Session), wire.MaxNameBytes) // an agent's word: cut, and no reason to miss an end
	e := b.entries[Key{RunUID: a.Run.UID, Attempt: a.Attempt}]
	if e == nil {
		if a.Recorded {
			return false // over and done with
		}
		if e = b.open(a.Run, a.Attempt); e == nil {
			return false
		}
	}
	e.Absent = false
	if a.Run.Name == "" {
		a.Run = e.Run // an attempt that was voided unseen has no name in the harness
	}
	old := e.Seen
	if e.SeenJournal != journal {
		old = nil
	}
	if old != nil && (rank(a.State) < rank(old.State) || (rank(a.State) == rank(old.State) && covers(*old, a))) {
		return false
	}
	if a.Envelope == nil && old != nil {
		a.Envelope = old.Envelope
	}
	if old == nil || old.State != a.State {
		e.SeenSince = now
	}
	e.Seen, e.SeenJournal = &a, journal
	return true
}

// alive counts what the harness holds and has not ended.
func (b *book) alive(journal string) (running, accepted int) {
	for _, e := range b.entries {
		if e.Seen == nil || e.SeenJournal != journal {
			continue
		}
		switch e.Seen.State {
		case wire.StateRunning:
			running++
		case wire.StateAccepted:
			accepted++
		case wire.StateFinished, wire.StateVoided:
		}
	}
	return running, accepted
}

// held counts what the target may hold that somebody still waits for: attempts that have not ended, results that it was not told are
// recorded, sends of which nobody knows what came, and calls under way.
func (b *book) held(journal string) int {
	n := 0
	for _, e := range b.entries {
		switch {
		case e.InFlight:
			n++
		case e.Seen == nil:
			if e.Sent.Count > 0 && !e.Absent && (e.Sent.Outcome == delivery.SendUnknown || e.Sent.Outcome == delivery.SendAccepted) {
				n++
			}
		case e.SeenJournal == journal && e.Seen.State != wire.StateVoided && !e.Seen.Recorded:
			n++
		}
	}
	return n
}

// retry makes every call due: the target was not there and is back.
func (b *book) retry() {
	for _, e := range b.entries {
		e.failures, e.NotBefore = 0, time.Time{}
	}
}

// covers tells whether the old state says all that the new one does.
func covers(old, a wire.Attempt) bool {
	return (old.CancelRequested || !a.CancelRequested) && (old.Recorded || !a.Recorded) && (old.Envelope != nil || a.Envelope == nil)
}

// plausible bounds what a harness may have us keep.
func plausible(a wire.Attempt) bool {
	return a.Run.UID != "" && len(a.Run.UID) <= wire.MaxUIDBytes && len(a.Run.Name) <= wire.MaxNameBytes &&
		len(a.Run.Namespace) <= wire.MaxNameBytes && a.Attempt >= 1 && a.Attempt <= wire.MaxAttempt && rank(a.State) > 0 &&
		len(a.Digest) <= wire.MaxUIDBytes
}

// rank orders the states of an attempt; 0 is no state of the contract.
func rank(s wire.State) int {
	switch s {
	case wire.StateAccepted:
		return 1
	case wire.StateRunning:
		return 2
	case wire.StateFinished, wire.StateVoided:
		return 3
	default:
		return 0
	}
}
