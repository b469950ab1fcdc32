package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"
)

const (
	pollInterval = 50 * time.Millisecond
	endTimeout   = 20 * time.Second
)

// kill ends p and nobody who came to its PID since. The handle is taken before the comparison, so that the signal
// goes to the process that was compared.
func kill(p process) error {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return nil // gone
	}
	defer func() { _ = handle.Release() }()
	now, ok := readProcess("/proc", p.pid)
	if !ok || now.start != p.start {
		return nil
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %d (%s): %w", p.pid, p.exe, err)
	}
	return nil
}

// killAll ends everything find finds, again and again until it finds nothing: the first victims may have children
// on the way. It returns when all are gone.
func killAll(ctx context.Context, what string, find func() ([]process, error)) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	victims := map[int]process{}
	for {
		found, err := find()
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := kill(p); err != nil {
				return err
			}
			victims[p.pid] = p
		}
		// What no longer shows its program may still have threads that hold its sockets.
		maps.DeleteFunc(victims, func(_ int, p process) bool { return gone("/proc", p) })
		if len(found) == 0 && len(victims) == 0 {
			return nil
		}
		if err := pause(ctx); err != nil {
			for _, p := range victims {
				return fmt.Errorf("%s: process %d (%s) did not end within %s of SIGKILL", what, p.pid, p.exe, endTimeout)
			}
			return fmt.Errorf("%s: new processes appear as fast as they are ended: %w", what, err)
		}
	}
}

// pause waits for one interval of polling.
func pause(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
