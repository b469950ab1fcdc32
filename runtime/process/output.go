package process

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// output is the end of a pipe that is read. It is not in the poller of Go's runtime, which wakes a thread for each write at the other end,
// whether anybody reads or not: who lets more come before the next read would save nothing. Whoever reads has a thread for it.
type output struct {
	fd   int // does not block
	stop int // readable once it is closed

	mu      sync.Mutex
	readers int
	closed  bool
}

// newOutput makes a pipe; theirs is the end that is written to.
func newOutput() (ours *output, theirs *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		if err = unix.SetNonblock(ends[0], true); err != nil {
			_ = unix.Close(stop)
		}
	}
	if err != nil {
		_, _ = unix.Close(ends[0]), unix.Close(ends[1])
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return &output{fd: ends[0], stop: stop}, os.NewFile(uintptr(ends[1]), "|1"), nil //nolint:gosec // a descriptor is not negative
}

// Read waits until something can be read; Close ends that with os.ErrClosed.
func (o *output) Read(p []byte) (int, error) {
	if !o.enter() {
		return 0, os.ErrClosed
	}
	defer o.leave()
	for {
		n, err := unix.Read(o.fd, p)
		switch {
		case err == unix.EINTR: //nolint:errorlint // a number
		case err == unix.EAGAIN: //nolint:errorlint // a number
			if err := o.wait(); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (o *output) wait() error {
	for {
		fds := []unix.PollFd{{Fd: int32(o.fd), Events: unix.POLLIN}, {Fd: int32(o.stop), Events: unix.POLLIN}} //nolint:gosec // descriptors fit
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR: //nolint:errorlint // a number
		case err != nil:
			return fmt.Errorf("poll: %w", err)
		case fds[1].Revents != 0:
			return os.ErrClosed
		default:
			return nil
		}
	}
}

// enter tells whether it is still open.
func (o *output) enter() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.readers++
	}
	return !o.closed
}

func (o *output) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.readers--; o.closed && o.readers == 0 {
		o.release()
	}
}

// Close makes reading end, also what is under way. A second time it is os.ErrClosed.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return os.ErrClosed
	}
	o.closed = true
	if o.readers == 0 {
		o.release()
		return nil
	}
	if _, err := unix.Write(o.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// release gives the descriptors back; the lock is held, and nobody reads.
func (o *output) release() { _, _ = unix.Close(o.fd), unix.Close(o.stop) }
