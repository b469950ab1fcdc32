package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Locked is the directory of a journal that nobody else can open. It lets its holder begin what needs the directory for itself alone
// while the journal is opened, and end it after the journal was closed.
type Locked struct {
	cfg  Config
	lock *os.File // nil: given back
}

// Lock makes the directory if need be and locks it. A second Lock fails at once with ErrLocked until Close.
func Lock(cfg Config) (*Locked, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Keep <= 0 {
		cfg.Keep = DefaultKeep
	}
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = MaxAttempts
	}
	if cfg.ReserveBytes <= 0 {
		cfg.ReserveBytes = ReserveBytes
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal directory: %w", err)
	}
	lock, err := lockDir(filepath.Join(cfg.Dir, lockName))
	if err != nil {
		return nil, err
	}
	return &Locked{cfg: cfg, lock: lock}, nil
}

// Open opens the journal, or makes one, and settles what the last boot left: an attempt that was running is finished with outcome
// Interrupted, one that was accepted stays accepted. A damaged file is moved aside and a journal with another ID begins: it is never
// read as empty under the old one. The directory stays locked until Close, whatever becomes of the journal. It is called once.
func (l *Locked) Open() (*Journal, error) {
	if l.lock == nil {
		return nil, ErrClosed
	}
	j := &Journal{cfg: l.cfg}
	j.feed.init()
	if err := j.load(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Close gives the directory back; the journal is closed before. It does nothing to a nil Locked, nor a second time.
func (l *Locked) Close() error {
	if l == nil || l.lock == nil {
		return nil
	}
	// Unlocked, not only closed: a program that this process starts just now holds a copy of the descriptor until its exec.
	err := errors.Join(unix.Flock(int(l.lock.Fd()), unix.LOCK_UN), l.lock.Close()) //nolint:gosec // a descriptor fits
	l.lock = nil
	if err != nil {
		return fmt.Errorf("journal lock: %w", err)
	}
	return nil
}
