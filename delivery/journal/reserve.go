package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const reserveName = "journal.reserve"

// keepReserve makes sure that the reserve is there: space taken beforehand, given back to the disk when a result or a void
// finds it full. Without it nothing more is accepted, so that what was accepted can always be ended (row 19).
func (j *Journal) keepReserve() error {
	path := filepath.Join(j.cfg.Dir, reserveName)
	if info, err := os.Stat(path); err == nil && info.Size() == j.cfg.ReserveBytes {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the data directory is configuration
	if err != nil {
		return full(fmt.Errorf("journal reserve: %w", err))
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, j.cfg.ReserveBytes) //nolint:gosec // a descriptor fits
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, j.cfg.ReserveBytes))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(full(fmt.Errorf("journal reserve of %d bytes: %w", j.cfg.ReserveBytes, err)), os.Remove(path))
	}
	return nil
}

// spendReserve gives the reserve back to the disk; false when there was none.
func (j *Journal) spendReserve() bool {
	if os.Remove(filepath.Join(j.cfg.Dir, reserveName)) != nil {
		return false
	}
	j.cfg.Log.Warn("the disk is full: the journal's reserve is spent, nothing more is accepted until there is room for a new one")
	return true
}
