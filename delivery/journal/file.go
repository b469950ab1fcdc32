package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// lockDir takes the directory's lock, or says at once who is in the way. The lock is a file of its own, so that it also
// covers moving the journal aside.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600) //nolint:gosec // the data directory is configuration
	if err != nil {
		return nil, fmt.Errorf("journal lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:gosec // a descriptor fits
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%w: %s is held by another harness", ErrLocked, path), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// openFile opens the file and reads all of it. A file that is not there is made. errDamaged when it cannot be trusted.
func (j *Journal) openFile(path string) (contents, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := create(path); err != nil {
			return contents{}, err
		}
	}
	db, c, err := openChecked(path)
	if err != nil {
		return contents{}, err
	}
	j.file.Lock()
	defer j.file.Unlock()
	j.db = db
	return c, nil
}

// create makes a journal under another name and renames it, so that a file of the journal's name is always complete: an
// empty one, or one without an ID, can only be a damaged one. It is synced before it has its name: by bbolt when it is empty, and here
// when it is whole. Its name is synced by settle.
func create(path string) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove an unfinished journal: %w", err)
	}
	db, err := bbolt.Open(fresh, 0o600, &bbolt.Options{Timeout: lockTimeout, NoSync: true, NoGrowSync: true})
	if err != nil {
		return full(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketAttempts, bucketWork, bucketEnvelopes, bucketRecorded} {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("bucket: %w", err)
			}
		}
		meta := tx.Bucket(bucketMeta)
		return errors.Join(put(meta, keyID, rand.Text()), put(meta, keyCounts, counts{}))
	})
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return full(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("name a new journal: %w", err)
	}
	return nil
}

// lockTimeout: bbolt's own lock is only ever in the way when a person looks at the file with a tool.
const lockTimeout = 100 * time.Millisecond

// openChecked opens a file and reads everything in it. A torn file makes reads through the memory map fault: that becomes a
// panic here, and the panic the finding that the file is damaged.
func openChecked(path string) (db *bbolt.DB, c contents, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var file *os.File
	defer func() {
		if r := recover(); r != nil {
			if db == nil && file != nil {
				// bbolt panicked while opening, so nobody else will close the file; its memory map outlives that, and would keep the lock.
				_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) //nolint:gosec // a descriptor fits
				_ = file.Close()
			}
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
		if err != nil && db != nil {
			err = errors.Join(err, db.Close())
			db = nil
		}
	}()
	if err := checkMeta(path); err != nil {
		return nil, contents{}, err
	}
	var errno syscall.Errno
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag&^os.O_CREATE, mode) //nolint:gosec // the data directory is configuration
		file = f
		return f, err //nolint:wrapcheck // bbolt's own contract
	}})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, contents{}, fmt.Errorf("%w: %s is held open by another program", ErrLocked, path)
	case errors.As(err, &errno): // the system's trouble says nothing about the file
		return nil, contents{}, fmt.Errorf("journal: %w", err)
	case err != nil:
		return nil, contents{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	c, err = read(db)
	return db, c, err
}

// moveAside renames a damaged file and keeps the newest few of them.
func moveAside(path string, now time.Time) (string, error) {
	aside := path + ".damaged-" + now.UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("move the damaged journal aside: %w", err)
	}
	old, err := filepath.Glob(path + ".damaged-*")
	if err != nil {
		return "", fmt.Errorf("damaged journals: %w", err)
	}
	slices.Sort(old)
	for _, name := range old[:max(0, len(old)-maxAside)] {
		if err := os.Remove(name); err != nil {
			return "", fmt.Errorf("remove an old damaged journal: %w", err)
		}
	}
	return aside, syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the data directory is configuration
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// full marks the errors that mean a full disk.
func full(err error) error {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, bbolterrors.ErrMaxSizeReached} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	return err
}
