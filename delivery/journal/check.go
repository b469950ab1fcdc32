package journal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// contents is what a journal file holds, as far as it is kept in memory: attempts that are not recorded yet.
type contents struct {
	id     string
	counts counts
	open   []stored // in the order they were first seen
}

// read reads every value of the file, compares checksums and counts, and lets bbolt check its pages.
func read(db *bbolt.DB) (contents, error) {
	var c contents
	err := db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return fmt.Errorf("%w: no meta bucket", errDamaged)
		}
		for key, into := range map[string]any{string(keyID): &c.id, string(keyCounts): &c.counts} {
			if found, err := get(meta, []byte(key), into); err != nil || !found {
				return errors.Join(fmt.Errorf("%w: no %s", errDamaged, key), err)
			}
		}
		if err := c.readBuckets(tx); err != nil {
			return err
		}
		var errs []error
		for err := range tx.Check() {
			errs = append(errs, fmt.Errorf("%w: %w", errDamaged, err))
		}
		return errors.Join(errs...)
	})
	slices.SortFunc(c.open, func(a, b stored) int { return cmp.Compare(a.Order, b.Order) })
	return c, err //nolint:wrapcheck // wrapped where it was made
}

func (c *contents) readBuckets(tx *bbolt.Tx) error {
	var found counts
	found.Writes = c.counts.Writes
	for _, b := range []struct {
		name  []byte
		count *int64
		value func(key, sealed []byte) error
	}{
		{bucketAttempts, &found.Attempts, c.readAttempt},
		{bucketWork, &found.Work, func(k, v []byte) error { return open(k, v, &Work{}) }},
		{bucketEnvelopes, &found.Envelopes, func(k, v []byte) error { return open(k, v, &wire.Envelope{}) }},
		{bucketRecorded, &found.Recorded, func(k, v []byte) error { return open(k, v, &dropNext{}) }},
	} {
		bucket := tx.Bucket(b.name)
		if bucket == nil {
			return fmt.Errorf("%w: no bucket %s", errDamaged, b.name)
		}
		if err := bucket.ForEach(func(k, v []byte) error {
			*b.count++
			return b.value(k, v)
		}); err != nil {
			return err //nolint:wrapcheck // wrapped where it was made
		}
	}
	if found != c.counts {
		return fmt.Errorf("%w: it holds %+v, expected %+v", errDamaged, found, c.counts)
	}
	return nil
}

func (c *contents) readAttempt(key, sealed []byte) error {
	var s stored
	if err := open(key, sealed, &s); err != nil {
		return err
	}
	if !slices.Equal(key, s.key().bytes()) {
		return fmt.Errorf("%w: an attempt lies under another's key", errDamaged)
	}
	if !s.Attempt.Recorded {
		c.open = append(c.open, s)
	}
	return nil
}
