package journal

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SPEC.md, Harness: who locked a directory has it until they give it back, whatever becomes of the journal: the agent that was started in
// it may outlive that.
func TestADirectoryIsLockedUntilItIsGivenBack(t *testing.T) {
	for name, broken := range map[string]bool{"the journal was closed": false, "the journal cannot be read": true} {
		t.Run(name, func(t *testing.T) {
			dir := memoryTempDir(t)
			if broken {
				require.NoError(t, os.Mkdir(journalFile(dir), 0o700))
			}
			cfg := Config{Dir: dir, Now: newClock().Now}
			l, err := Lock(cfg)
			require.NoError(t, err)
			j, err := l.Open()
			if broken {
				require.Error(t, err)
				require.NoError(t, os.Remove(journalFile(dir)))
			} else {
				require.NoError(t, err)
				require.NoError(t, j.Close())
			}
			_, err = Lock(cfg)
			require.ErrorIs(t, err, ErrLocked)
			require.NoError(t, l.Close())
			require.NoError(t, l.Close(), "once is enough")
			_, err = l.Open()
			require.ErrorIs(t, err, ErrClosed)
			mustOpen(t, dir)
		})
	}
}

// Open has nothing to end but the journal: with an error it leaves no lock behind.
func TestAnOpenThatFailedLeavesNoLock(t *testing.T) {
	dir := memoryTempDir(t)
	require.NoError(t, os.Mkdir(journalFile(dir), 0o700))
	_, err := Open(Config{Dir: dir, Now: newClock().Now})
	require.Error(t, err)
	require.NoError(t, os.Remove(journalFile(dir)))
	assert.NotEmpty(t, mustOpen(t, dir).ID())
}

// A process that is being started has copies of all descriptors of the one that starts it until its exec: whoever gave the directory back has
// given it back nonetheless.
func TestACopyOfTheLocksDescriptorHoldsNothing(t *testing.T) {
	cfg := Config{Dir: memoryTempDir(t), Now: newClock().Now}
	l, err := Lock(cfg)
	require.NoError(t, err)
	child, err := unix.Dup(int(l.lock.Fd())) //nolint:gosec // a descriptor fits
	require.NoError(t, err)
	defer func() { _ = unix.Close(child) }()
	require.NoError(t, l.Close())
	again, err := Lock(cfg)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
