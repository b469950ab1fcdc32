package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// try makes one commit of some writes, with the marks that wait for one. A commit that failed half way is looked at again, because
// bbolt may have written its meta page before the sync failed.
func (j *Journal) try(writes ...*write) error {
	if j.cfg.BeforeWrite != nil {
		for _, w := range writes {
			if err := j.cfg.BeforeWrite(w.name); err != nil {
				return full(err)
			}
		}
	}
	if err := j.reopen(); err != nil {
		return err
	}
	next := j.counts
	next.Writes++
	marks := j.feed.marks()
	wrote := j.stopwatch()
	err := j.db.Update(func(tx *bbolt.Tx) error {
		for _, w := range writes {
			if err := w.change(tx, &next); err != nil {
				return err
			}
		}
		if err := j.putMarks(tx, &next, marks); err != nil {
			return err
		}
		return put(tx.Bucket(bucketMeta), keyCounts, next)
	})
	if err != nil {
		if err := j.settleFailed(next, err); err != nil {
			return full(err)
		}
	}
	j.counts = next
	j.feed.unmark(marks)
	defer func() { // whoever panics now: an attempt that is in the file alone would be lost to this process (fault row 42)
		for _, w := range writes {
			w.known()
			w.done = true
		}
	}()
	for _, w := range writes {
		wrote(w.name)
	}
	if j.cfg.AfterWrite != nil {
		for _, w := range writes {
			j.cfg.AfterWrite(w.name)
		}
	}
	return nil
}

// stopwatch measures one write.
func (j *Journal) stopwatch() func(name string) {
	if j.cfg.Wrote == nil {
		return func(string) {}
	}
	began := j.cfg.Now()
	return func(name string) { j.cfg.Wrote(name, j.cfg.Now().Sub(began)) }
}

// writeAccept is the one write that takes on more.
const writeAccept = "accept"

// settleFailed finds out what a failed commit left: it opens the file again, and only if the write is there and can now be
// synced is it a success after all.
func (j *Journal) settleFailed(wanted counts, cause error) error {
	if err := errors.Join(j.closeFile(), j.reopen()); err != nil {
		return errors.Join(cause, err)
	}
	var found counts
	if err := j.db.View(func(tx *bbolt.Tx) error {
		_, err := get(tx.Bucket(bucketMeta), keyCounts, &found)
		return err
	}); err != nil {
		return errors.Join(cause, err)
	}
	if found == wanted {
		if err := j.syncAgain(); err == nil {
			return nil
		}
		return errors.Join(cause, fmt.Errorf("%w: a write was made that cannot be synced", ErrClosed), j.abandon())
	}
	return cause
}

// syncAgain makes the last commit durable, whose sync failed or may never have been. Only the pages that say which commit counts can be
// in doubt, since the rest was synced before. They are written anew: a sync that failed is told of once, and then they count as written
// (fsync(2)).
func (j *Journal) syncAgain() error {
	path := filepath.Join(j.cfg.Dir, fileName)
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the data directory is configuration
	if err != nil {
		return fmt.Errorf("sync again: %w", err)
	}
	meta := make([]byte, 2*j.db.Info().PageSize)
	if _, err = f.ReadAt(meta, 0); err == nil {
		_, err = f.WriteAt(meta, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// reopen opens the file again after a failed write closed it.
func (j *Journal) reopen() error {
	if j.db != nil {
		return nil
	}
	if j.closed {
		return ErrClosed
	}
	db, c, err := openChecked(filepath.Join(j.cfg.Dir, fileName))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if c.id != j.id {
		return errors.Join(fmt.Errorf("%w: the file was replaced", ErrClosed), db.Close())
	}
	j.file.Lock()
	defer j.file.Unlock()
	j.db = db
	return nil
}

func (j *Journal) closeFile() error {
	j.file.Lock()
	defer j.file.Unlock()
	if j.db == nil {
		return nil
	}
	err := j.db.Close()
	j.db = nil
	if err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// view reads the file. A read sees what is synced, and perhaps a write that is being synced at this moment.
func (j *Journal) view(look func(tx *bbolt.Tx) error) error {
	j.file.RLock()
	defer j.file.RUnlock()
	if j.db == nil {
		return ErrClosed
	}
	return j.db.View(look) //nolint:wrapcheck // wrapped where it was made
}

// abandon gives the journal up: what the file holds and what was promised can no longer be told apart. Every later write
// fails; the next boot reads what the disk really has. The directory stays locked, because its agent goes on.
func (j *Journal) abandon() error {
	j.closed = true
	return j.closeFile()
}
