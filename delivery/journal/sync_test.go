package journal

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const syncEnv = "JOURNAL_TEST_SYNC" // the directory of the child that cannot sync

// runWithoutSync is the child: from some moment on its disk takes writes and fails to sync them. It says which write was promised all
// the same. Where there is a journal already, it opens that one after the moment.
func runWithoutSync() int {
	if _, err := os.Stat(journalFile(os.Getenv(syncEnv))); err == nil {
		if err := failSyncs(); err != nil {
			fmt.Println(err)
			return 2
		}
		if _, err := Open(Config{Dir: os.Getenv(syncEnv), Now: newClock().Now}); err == nil {
			fmt.Println("what the last boot left was told")
			return 1
		}
		return 0
	}
	j, err := Open(Config{Dir: os.Getenv(syncEnv), Now: newClock().Now})
	if err != nil {
		fmt.Println(err)
		return 2
	}
	if err := failSyncs(); err != nil {
		fmt.Println(err)
		return 2
	}
	if _, err := j.Accept(request("a", 1)); err == nil {
		fmt.Println("an accept was promised")
		return 1
	}
	return 0
}

// failSyncs has fsync and fdatasync of this process answer EIO (seccomp(2)).
func failSyncs() error {
	const retErrno, tsync = 0x00050000, 1
	_, err := filterSyncs(retErrno|uint32(unix.EIO), tsync, unix.SYS_FSYNC)
	return err
}

// filterSyncs has the kernel treat fsync, fdatasync and one other call of this process as told.
func filterSyncs(action uint32, flags uintptr, other uint32) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const setFilter = 1
	jump := func(nr uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: skip}
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // seccomp_data.nr
		jump(unix.SYS_FSYNC, 3), jump(unix.SYS_FDATASYNC, 2), jump(other, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}, // allow
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("no new privileges: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, setFilter, flags, uintptr(unsafe.Pointer(&program))) //nolint:gosec // a system call
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return fd, nil
}

// R28, rows 14, 17 and 18: what a power failure would take away is not promised. A killed process cannot show it, because the kernel
// keeps what was written.
func TestNothingIsPromisedThatCannotBeSynced(t *testing.T) {
	runUnsynced(t, t.TempDir())
}

// SPEC.md, Attempt states: a boot may find what the last one wrote and was killed before it was synced. It has nothing to settle then, and
// what it read is durable all the same before anybody is told.
func TestNothingIsToldOfTheLastBootThatCannotBeSynced(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	finish(t, j, key("a", 1), "x")
	require.NoError(t, j.Close())
	runUnsynced(t, dir)
}

func runUnsynced(t *testing.T, dir string) {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), syncEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, string(out))
}
