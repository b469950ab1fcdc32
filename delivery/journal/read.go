package journal

import (
	"bytes"
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// History is what the journal holds of a run, seen from one of its attempts.
type History struct {
	Same    *Entry // the attempt asked about; nil when never seen
	Highest int64  // highest attempt number seen; 0 when the run is unknown
	Active  int64  // the attempt that is accepted or running; 0 when none is
}

// History looks up an attempt and its run. Only what is synced is seen, given that no write of the run is under way: who
// decides by it holds a lock of his own over the look and the write that follows.
func (j *Journal) History(key Key) (History, error) {
	var h History
	err := j.view(func(tx *bbolt.Tx) error {
		prefix := key.prefix()
		c := tx.Bucket(bucketAttempts).Cursor()
		for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			h.Highest = int64(binary.BigEndian.Uint64(k[len(prefix):])) //nolint:gosec // was an int64
			s, found := j.feed.get(Key{RunUID: key.RunUID, Attempt: h.Highest})
			if found && !s.Attempt.State.Ended() {
				h.Active = h.Highest
			}
		}
		return nil
	})
	if err != nil || h.Highest == 0 {
		return h, err
	}
	same, err := j.find(key)
	if errors.Is(err, ErrUnknown) {
		return h, nil
	}
	h.Same = &same
	return h, err
}

// Get is one attempt, with its envelope when it is finished and was not dropped. ErrUnknown when it was never seen.
func (j *Journal) Get(key Key) (Entry, error) {
	e, err := j.find(key)
	if err != nil || e.State != wire.StateFinished || e.Forgotten {
		return e, err
	}
	var envelope wire.Envelope
	var found bool
	err = j.view(func(tx *bbolt.Tx) error {
		var err error
		found, err = get(tx.Bucket(bucketEnvelopes), key.bytes(), &envelope)
		return err
	})
	if found {
		e.Envelope = &envelope
	}
	e.Forgotten = !found // dropped since it was found
	return e, err
}

// Work is what running an attempt takes; ErrUnknown once it ended.
func (j *Journal) Work(key Key) (Work, error) {
	var w Work
	err := j.view(func(tx *bbolt.Tx) error {
		found, err := get(tx.Bucket(bucketWork), key.bytes(), &w)
		if err == nil && !found {
			return ErrUnknown
		}
		return err
	})
	return w, err
}

// find prefers memory, which changes only after a sync; the file is asked for recorded attempts alone. One that is in the
// file and neither recorded nor in memory is being written at this moment, and not known yet.
func (j *Journal) find(key Key) (Entry, error) {
	if s, found := j.feed.known(key); found {
		return s.entry(), nil
	}
	var e Entry
	err := j.view(func(tx *bbolt.Tx) error {
		var s stored
		found, err := get(tx.Bucket(bucketAttempts), key.bytes(), &s)
		if err == nil && (!found || !s.Attempt.Recorded) {
			return ErrUnknown
		}
		e = s.entry()
		e.Forgotten = s.Attempt.State == wire.StateFinished && tx.Bucket(bucketEnvelopes).Get(key.bytes()) == nil
		return err
	})
	return e, err
}
