package build

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock takes the exclusive lock of the file at path, which it creates, and returns what releases it. The kernel
// releases it too when the process dies. busy is called once when somebody else holds it.
func Lock(path string, busy func()) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // #nosec G304 -- the tool's own lock file
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		busy()
		err = flock(file, syscall.LOCK_EX)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how) // #nosec G115 -- a file descriptor fits an int
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
