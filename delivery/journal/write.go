package journal

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Accept journals a new attempt with its goal, under the contract that the request's apiVersion names. It returns after the sync, so
// that 202 may be answered. ErrFull when there is no room, ErrState when the attempt is known.
func (j *Journal) Accept(r wire.DeliveryRequest) (wire.Attempt, error) { return j.AcceptIn(r, Trace{}) }

// AcceptIn is Accept with the trace that the attempt belongs to.
func (j *Journal) AcceptIn(r wire.DeliveryRequest, trace Trace) (wire.Attempt, error) {
	now := j.now()
	s := stored{Contract: r.APIVersion, Attempt: wire.Attempt{
		Run: r.Run, Attempt: r.Attempt, Digest: wire.Digest(r.Run.UID, r.Attempt, r.Goal), State: wire.StateAccepted, AcceptedAt: &now,
	}}
	work := Work{Goal: r.Goal, Session: r.Session, Trace: trace}
	if r.Limits != nil {
		work.Limits = *r.Limits
	}
	return j.add(writeAccept, s, &work, j.cfg.MaxAttempts)
}

// VoidUnseen journals a tombstone for an attempt that never arrived: it will not run if it does. Only its run's UID is known.
func (j *Journal) VoidUnseen(key Key) (wire.Attempt, error) {
	now := j.now()
	return j.add("void", stored{Contract: wire.APIVersion, Attempt: wire.Attempt{
		Run: wire.RunRef{UID: key.RunUID}, Attempt: key.Attempt, State: wire.StateVoided, FinishedAt: &now,
	}}, nil, j.cfg.MaxAttempts+voidReserve)
}

// Start journals that the goal is about to be sent to the agent in a session. ErrState unless the attempt is accepted: a
// voided one never starts.
func (j *Journal) Start(key Key, session string) (wire.Attempt, error) {
	return j.change("start", key, wire.StateAccepted, nil, func(a *wire.Attempt, now time.Time) {
		a.State, a.StartedAt, a.Session = wire.StateRunning, &now, session
	})
}

// Finish journals the end of a running attempt with its envelope. It returns after the sync, so that anybody may be told.
func (j *Journal) Finish(key Key, envelope wire.Envelope) (wire.Attempt, error) {
	return j.change("finish", key, wire.StateRunning, &envelope, func(a *wire.Attempt, now time.Time) {
		a.State, a.FinishedAt = wire.StateFinished, &now
		if envelope.Session != "" {
			a.Session = envelope.Session
		}
	})
}

// Void journals that an accepted attempt will never start.
func (j *Journal) Void(key Key) (wire.Attempt, error) {
	return j.change("void", key, wire.StateAccepted, nil, func(a *wire.Attempt, now time.Time) {
		a.State, a.FinishedAt = wire.StateVoided, &now
	})
}

// RequestCancel journals that a running attempt was asked to stop. Its end is still to come.
func (j *Journal) RequestCancel(key Key) (wire.Attempt, error) {
	return j.change("cancel", key, wire.StateRunning, nil, func(a *wire.Attempt, _ time.Time) { a.CancelRequested = true })
}

// add writes an attempt that the journal does not know yet, unless it remembers as many as it may.
func (j *Journal) add(name string, s stored, work *Work, most int) (wire.Attempt, error) {
	key := s.key().bytes()
	err := j.update(&write{name: name, key: s.key(), allow: func() error {
		if j.counts.Attempts >= int64(most) {
			return tooMany(j.counts)
		}
		if work != nil {
			if err := j.keepReserve(); err != nil { // no accept while its end might not fit
				return err
			}
		}
		j.order = max(j.order, j.feed.lastOrder()) + 1
		s.Order = j.order
		return nil
	}, change: func(tx *bbolt.Tx, c *counts) error {
		attempts := tx.Bucket(bucketAttempts)
		if attempts.Get(key) != nil {
			return fmt.Errorf("%w: it is known", ErrState)
		}
		if c.Attempts >= int64(most) { // with those that are committed together
			return tooMany(*c)
		}
		c.Attempts++
		if work == nil {
			return put(attempts, key, s)
		}
		c.Work++
		return errors.Join(put(attempts, key, s), put(tx.Bucket(bucketWork), key, *work))
	}, known: func() { j.feed.put(s) }})
	if err != nil {
		return wire.Attempt{}, err
	}
	return s.Attempt, nil
}

func tooMany(c counts) error { return fmt.Errorf("%w: it remembers %d attempts", ErrFull, c.Attempts) }

// change writes a change of an attempt that is in the state expected.
func (j *Journal) change(name string, key Key, from wire.State, envelope *wire.Envelope, edit func(*wire.Attempt, time.Time)) (wire.Attempt, error) {
	var s stored
	err := j.update(&write{name: name, key: key, allow: func() error {
		var found bool
		if s, found = j.feed.get(key); !found || s.Attempt.State != from {
			return fmt.Errorf("%w: expected %s", ErrState, from)
		}
		edit(&s.Attempt, j.now())
		return nil
	}, change: func(tx *bbolt.Tx, c *counts) error { return putChange(tx, c, s, envelope) }, known: func() { j.feed.put(s) }})
	if err != nil {
		return wire.Attempt{}, err
	}
	return s.Attempt, nil
}

// putChange writes an attempt, its envelope when it has one, and drops its goal once it ended.
func putChange(tx *bbolt.Tx, c *counts, s stored, envelope *wire.Envelope) error {
	key := s.key().bytes()
	if envelope != nil {
		c.Envelopes++
		if err := put(tx.Bucket(bucketEnvelopes), key, *envelope); err != nil {
			return err
		}
	}
	if work := tx.Bucket(bucketWork); s.Attempt.State.Ended() && work.Get(key) != nil {
		c.Work--
		if err := work.Delete(key); err != nil {
			return fmt.Errorf("drop a goal: %w", err)
		}
	}
	return put(tx.Bucket(bucketAttempts), key, s)
}

func (j *Journal) now() time.Time { return j.cfg.Now().UTC().Round(0) }
