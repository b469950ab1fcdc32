package journal

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const countEnv = "JOURNAL_TEST_COUNT" // the directory of the child whose system calls are counted

// runCounted is the child: it tells how many syncs it took to open a journal, new and again, how many syncs and page writes each step of
// a run, and then what eight at once took.
func runCounted() int {
	syncs, writes, err := countSyncs()
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var j *Journal
	for _, what := range []string{"new", "again"} {
		if j, err = Open(Config{Dir: os.Getenv(countEnv), Now: newClock().Now}); err != nil {
			fmt.Println(err)
			return 2
		}
		fmt.Println(what, syncs.Swap(0), "syncs")
		if what == "new" {
			_ = j.Close()
		}
	}
	for i := range 20 { // the file has the size then that it keeps for a while; to grow is a sync more, now and then
		if err := whole(j, fmt.Sprint("before-", i), func(string) {}); err != nil {
			fmt.Println(err)
			return 2
		}
	}
	syncs.Store(0)
	writes.Store(0)
	if err := whole(j, "counted", func(step string) { fmt.Println(step, syncs.Swap(0), "syncs") }); err != nil {
		fmt.Println(err)
		return 2
	}
	fmt.Println("written", writes.Load() > 0)
	j.write.Lock() // until all have come
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { _, _ = j.Accept(request(fmt.Sprint("crowd-", i), 1)) })
	}
	for queued(j) < 8 {
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	j.write.Unlock()
	all.Wait()
	fmt.Println("eight at once", syncs.Load(), "syncs")
	return 0
}

// whole is the life of a run.
func whole(j *Journal, run string, did func(step string)) error {
	k := key(run, 1)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"accept", func() error { _, err := j.Accept(request(run, 1)); return err }},
		{"start", func() error { _, err := j.Start(k, "s"); return err }},
		{"finish", func() error { _, err := j.Finish(k, done("x")); return err }},
		{"recorded", func() error { return j.Recorded(k) }},
	} {
		if err := step.do(); err != nil {
			return err
		}
		did(step.name)
	}
	return nil
}

// countSyncs counts the fsync, fdatasync and pwrite calls of this process (seccomp_unotify(2)) and lets each go on.
func countSyncs() (syncs, writes *atomic.Int64, err error) {
	const userNotif, tsync, newListener, tsyncESRCH = 0x7fc00000, 1, 1 << 3, 1 << 4
	listener, err := filterSyncs(userNotif, tsync|newListener|tsyncESRCH, unix.SYS_PWRITE64)
	if err != nil {
		return nil, nil, err
	}
	syncs, writes = new(atomic.Int64), new(atomic.Int64)
	go func() {
		const receive, send, goOn = 0xc0502100, 0xc0182101, 1
		type note struct {
			id         uint64
			pid, flags uint32
			nr         int32
			arch       uint32
			ip         uint64
			args       [6]uint64
		}
		for {
			n := note{}
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, listener, receive, uintptr(unsafe.Pointer(&n))); errno == unix.EINTR { //nolint:gosec // a system call
				continue
			} else if errno != 0 {
				return
			}
			if n.nr == unix.SYS_PWRITE64 {
				writes.Add(1)
			} else {
				syncs.Add(1)
			}
			answer := struct {
				id         uint64
				val        int64
				err, flags int32
			}{id: n.id, flags: goOn}
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener, send, uintptr(unsafe.Pointer(&answer))) //nolint:gosec // a system call
		}
	}()
	return syncs, writes, nil
}

// SPEC.md, Attempt states: a run costs three commits of two syncs (data, then the page that says that it counts), and so does each of
// them that many runs share. A new journal is synced when it is whole, and so is its name; one that was there, before it is told of.
func TestARunCostsSixSyncsAndACrowdNoMoreThanOne(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), countEnv+"="+memoryTempDir(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "new 3 syncs\nagain 1 syncs\naccept 2 syncs\nstart 2 syncs\nfinish 2 syncs\nrecorded 0 syncs\nwritten true\neight at once 2 syncs\n", string(out))
}
