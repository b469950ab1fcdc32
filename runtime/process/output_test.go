package process

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What is written is read, whoever is first, up to the end of all who write.
func TestAnOutputIsReadToItsEnd(t *testing.T) {
	o, w, err := newOutput()
	require.NoError(t, err)
	text := strings.Repeat("0123456789", 50_000) // more than a pipe holds
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.WriteString(w, text)
		assert.NoError(t, err)
		assert.NoError(t, w.Close())
	}()
	all, err := io.ReadAll(o)
	require.NoError(t, err)
	assert.Equal(t, text, string(all))
	<-done
	n, err := o.Read(nil)
	assert.Zero(t, n)
	require.NoError(t, err)
	require.NoError(t, o.Close())
	require.ErrorIs(t, o.Close(), os.ErrClosed)
	_, err = o.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrClosed)
	o.isReleased(t)
}

func (o *output) isReleased(t *testing.T) {
	t.Helper()
	for _, fd := range []int{o.fd, o.stop} {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0) //nolint:gosec // a descriptor is not negative
		require.ErrorIs(t, err, unix.EBADF)
	}
}

// Who waits for an agent that says nothing is let go when the output is closed, and only then are its descriptors given back: their
// numbers may be another file's at once.
func TestAnOutputIsClosedUnderItsReader(t *testing.T) {
	o, w, err := newOutput()
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := o.Read(make([]byte, 1))
		ended <- err
	}()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.readers == 1
	}, patience, time.Millisecond)
	require.NoError(t, o.Close())
	require.ErrorIs(t, <-ended, os.ErrClosed)
	o.isReleased(t)
	_, err = w.Write([]byte("x"))
	require.ErrorIs(t, err, unix.EPIPE)
	require.NoError(t, w.Close())
}
