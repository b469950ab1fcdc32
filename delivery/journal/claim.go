package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Claim is the directory of a journal, locked and not read yet. It lets its holder begin what needs the directory for itself alone
// while the journal is opened.
type Claim struct {
	cfg  Config
	lock *os.File
}

// Take makes the directory if need be and locks it. A second Take fails at once with ErrLocked until Close, or until the journal that
// was opened is closed.
func Take(cfg Config) (*Claim, error) {
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
	return &Claim{cfg: cfg, lock: lock}, nil
}

// Open opens the journal, or makes one, and settles what the last boot left: an attempt that was running is finished with outcome
// Interrupted, one that was accepted stays accepted. A damaged file is moved aside and a journal with another ID begins: it is never
// read as empty under the old one. The lock is the journal's from then on; with an error it is given back.
func (c *Claim) Open() (*Journal, error) {
	if c.lock == nil {
		return nil, ErrClosed
	}
	j := &Journal{cfg: c.cfg, lock: c.lock}
	c.lock = nil
	j.feed.init()
	if err := j.load(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Close gives the directory back unless the journal was opened. It does nothing to a nil Claim.
func (c *Claim) Close() error {
	if c == nil || c.lock == nil {
		return nil
	}
	err := c.lock.Close()
	c.lock = nil
	if err != nil {
		return fmt.Errorf("journal lock: %w", err)
	}
	return nil
}
