package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// maxMarks is how many marks wait for another write before they are written by themselves.
const maxMarks = 64

// mark says that a result is recorded, and since when.
type mark struct {
	stored
	at time.Time
}

// Recorded marks an ended attempt as recorded: it leaves the feed, its tombstone stays, and its envelope stays until newer
// ones or time displace it. ErrUnknown for an attempt never seen, ErrState for one that is not over. Idempotent.
//
// A mark alone is not synced: it goes to the disk with the next write, or at Close. One that is lost with the process brings the
// attempt back into the feed, and whoever recorded it marks it again (SPEC.md, Attempt states).
func (j *Journal) Recorded(key Key) error {
	if s, found := j.feed.get(key); !found {
		_, err := j.find(key) // recorded already, or unknown
		return err
	} else if !s.Attempt.State.Ended() {
		return fmt.Errorf("journal recorded: %w: it is %s", ErrState, s.Attempt.State)
	}
	if j.cfg.BeforeWrite != nil {
		if err := j.cfg.BeforeWrite(writeRecorded); err != nil {
			return fmt.Errorf("journal recorded: %w", full(err))
		}
	}
	waiting := j.feed.mark(key, j.now())
	if j.cfg.AfterWrite != nil {
		j.cfg.AfterWrite(writeRecorded)
	}
	if waiting < maxMarks {
		return nil
	}
	if err := j.update(&write{name: writeMarked, change: func(*bbolt.Tx, *counts) error { return nil }, known: func() {}}); err != nil {
		j.cfg.Log.Warn("marks of recorded results could not be written; they go with the next write", "marks", waiting, "cause", err)
	}
	return nil
}

const (
	writeRecorded = "recorded" // what crash tests call the moment of a mark
	writeMarked   = "marks"    // those that wait, by themselves
)

// putMarks writes the marks that wait, and drops what they displace.
func (j *Journal) putMarks(tx *bbolt.Tx, c *counts, marks []mark) error {
	if len(marks) == 0 {
		return nil
	}
	for _, m := range marks {
		key := m.key().bytes()
		if err := put(tx.Bucket(bucketAttempts), key, m.stored); err != nil {
			return err
		}
		if m.Attempt.State != wire.StateFinished {
			continue
		}
		recorded := tx.Bucket(bucketRecorded)
		order, err := recorded.NextSequence()
		if err != nil {
			return fmt.Errorf("order of recording: %w", err)
		}
		c.Recorded++
		if err := put(recorded, binary.BigEndian.AppendUint64(nil, order), dropNext{Key: key, RecordedAt: m.at.Unix()}); err != nil {
			return err
		}
	}
	return dropOld(tx, c, int64(j.cfg.Keep), j.now().Add(-KeepFor))
}

// flush writes the marks that wait before the file is closed; j.write is held. Nothing is lost without them but a little work.
func (j *Journal) flush() {
	if j.closed || len(j.feed.marks()) == 0 {
		return
	}
	if err := j.try(); err != nil {
		j.cfg.Log.Warn("marks of recorded results could not be written; the next boot tells of those results again", "cause", err)
	}
}

// dropOld drops recorded envelopes, oldest record first, until few enough are left and none is too old.
func dropOld(tx *bbolt.Tx, c *counts, keep int64, before time.Time) error {
	recorded, envelopes := tx.Bucket(bucketRecorded), tx.Bucket(bucketEnvelopes)
	for {
		order, next, drop, err := oldest(tx, *c, keep, before)
		if err != nil || !drop {
			return err
		}
		c.Recorded--
		c.Envelopes--
		if err := errors.Join(envelopes.Delete(next.Key), recorded.Delete(order)); err != nil {
			return fmt.Errorf("drop a recorded result: %w", err)
		}
	}
}

// oldest is what was recorded first of all whose envelope is kept, and whether that is one too many or too old.
func oldest(tx *bbolt.Tx, c counts, keep int64, before time.Time) (order []byte, next dropNext, drop bool, err error) {
	order, sealed := tx.Bucket(bucketRecorded).Cursor().First()
	if order == nil {
		return nil, next, false, nil
	}
	if err := open(order, sealed, &next); err != nil {
		return nil, next, false, err
	}
	return order, next, c.Recorded > keep || next.RecordedAt < before.Unix(), nil
}
