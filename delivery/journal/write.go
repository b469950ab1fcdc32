package journal

import (
	"encoding/binary"
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
	j.write.Lock()
	defer j.write.Unlock()
	if err := j.room(); err != nil {
		return wire.Attempt{}, err
	}
	now := j.now()
	s := stored{Contract: r.APIVersion, Attempt: wire.Attempt{
		Run: r.Run, Attempt: r.Attempt, Digest: wire.Digest(r.Run.UID, r.Attempt, r.Goal), State: wire.StateAccepted, AcceptedAt: &now,
	}}
	work := Work{Goal: r.Goal, Session: r.Session, Trace: trace}
	if r.Limits != nil {
		work.Limits = *r.Limits
	}
	return j.add(writeAccept, s, &work)
}

// VoidUnseen journals a tombstone for an attempt that never arrived: it will not run if it does. Only its run's UID is known.
func (j *Journal) VoidUnseen(key Key) (wire.Attempt, error) {
	j.write.Lock()
	defer j.write.Unlock()
	if j.counts.Attempts >= int64(j.cfg.MaxAttempts+voidReserve) {
		return wire.Attempt{}, fmt.Errorf("%w: it remembers %d attempts", ErrFull, j.counts.Attempts)
	}
	now := j.now()
	return j.add("void", stored{Contract: wire.APIVersion, Attempt: wire.Attempt{
		Run: wire.RunRef{UID: key.RunUID}, Attempt: key.Attempt, State: wire.StateVoided, FinishedAt: &now,
	}}, nil)
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

// add writes an attempt that the journal does not know yet.
func (j *Journal) add(name string, s stored, work *Work) (wire.Attempt, error) {
	s.Order = j.feed.nextOrder()
	key := s.key().bytes()
	err := j.update(name, func(tx *bbolt.Tx, c *counts) error {
		attempts := tx.Bucket(bucketAttempts)
		if attempts.Get(key) != nil {
			return fmt.Errorf("%w: it is known", ErrState)
		}
		c.Attempts++
		if work == nil {
			return put(attempts, key, s)
		}
		c.Work++
		return errors.Join(put(attempts, key, s), put(tx.Bucket(bucketWork), key, *work))
	}, func() { j.feed.put(s) })
	if err != nil {
		return wire.Attempt{}, err
	}
	return s.Attempt, nil
}

// change writes a change of an attempt that is in the state expected.
func (j *Journal) change(name string, key Key, from wire.State, envelope *wire.Envelope, edit func(*wire.Attempt, time.Time)) (wire.Attempt, error) {
	j.write.Lock()
	defer j.write.Unlock()
	s, found := j.feed.get(key)
	if !found || s.Attempt.State != from {
		return wire.Attempt{}, fmt.Errorf("journal %s: %w: expected %s", name, ErrState, from)
	}
	edit(&s.Attempt, j.now())
	err := j.update(name, func(tx *bbolt.Tx, c *counts) error { return putChange(tx, c, s, envelope) }, func() { j.feed.put(s) })
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

// Recorded marks an ended attempt as recorded: it leaves the feed, its tombstone stays, and its envelope stays until newer
// ones or time displace it. ErrUnknown for an attempt never seen, ErrState for one that is not over. Idempotent.
func (j *Journal) Recorded(key Key) error {
	j.write.Lock()
	defer j.write.Unlock()
	s, found := j.feed.get(key)
	if !found {
		_, err := j.find(key) // recorded already, or unknown
		return err
	}
	if !s.Attempt.State.Ended() {
		return fmt.Errorf("journal recorded: %w: it is %s", ErrState, s.Attempt.State)
	}
	s.Attempt.Recorded = true
	now := j.now()
	return j.update("recorded", func(tx *bbolt.Tx, c *counts) error {
		if err := put(tx.Bucket(bucketAttempts), key.bytes(), s); err != nil {
			return err
		}
		if s.Attempt.State == wire.StateFinished {
			recorded := tx.Bucket(bucketRecorded)
			order, err := recorded.NextSequence()
			if err != nil {
				return fmt.Errorf("order of recording: %w", err)
			}
			c.Recorded++
			next := dropNext{Key: key.bytes(), RecordedAt: now.Unix()}
			if err := put(recorded, binary.BigEndian.AppendUint64(nil, order), next); err != nil {
				return err
			}
		}
		return dropOld(tx, c, int64(j.cfg.Keep), now.Add(-KeepFor))
	}, func() { j.feed.drop(key) })
}

// dropOld drops recorded envelopes, oldest record first, until few enough are left and none is too old.
func dropOld(tx *bbolt.Tx, c *counts, keep int64, before time.Time) error {
	recorded, envelopes := tx.Bucket(bucketRecorded), tx.Bucket(bucketEnvelopes)
	for order, sealed := recorded.Cursor().First(); order != nil; order, sealed = recorded.Cursor().First() {
		var next dropNext
		if err := open(order, sealed, &next); err != nil {
			return err
		}
		if c.Recorded <= keep && next.RecordedAt >= before.Unix() {
			return nil
		}
		c.Recorded--
		c.Envelopes--
		if err := errors.Join(envelopes.Delete(next.Key), recorded.Delete(order)); err != nil {
			return fmt.Errorf("drop a recorded result: %w", err)
		}
	}
	return nil
}

// room refuses an accept while its end might not fit.
func (j *Journal) room() error {
	if j.counts.Attempts >= int64(j.cfg.MaxAttempts) {
		return fmt.Errorf("%w: it remembers %d attempts", ErrFull, j.counts.Attempts)
	}
	return j.keepReserve()
}

func (j *Journal) now() time.Time { return j.cfg.Now().UTC().Round(0) }
