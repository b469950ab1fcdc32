package journal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	countEnv = "JOURNAL_TEST_COUNT" // the directory of the child whose system calls are counted
	dieEnv   = "JOURNAL_TEST_DIE"   // before which of its syncs the child is killed; never if it is not set
)

// runCounted is the child: it tells how many syncs and page writes it took to open a journal, new and again, how many syncs each step of
// a run, and then what eight at once took.
func runCounted() int {
	die, _ := strconv.ParseInt(os.Getenv(dieEnv), 10, 64)
	syncs, writes, err := countSyncs(die)
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
			writes.Store(0)
		}
	}
	fmt.Println("again", writes.Load(), "writes")
	if die > 0 {
		return 0
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

// countSyncs counts the fsync, fdatasync and pwrite calls of this process (seccomp_unotify(2)) and lets each go on; but before the sync
// that is to be the last the process is killed.
func countSyncs(last int64) (syncs, writes *atomic.Int64, err error) {
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
			} else if syncs.Add(1) == last {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
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
// them that many runs share. To open a journal costs two: its name, and the page that says what counts, which is written anew, because a
// sync of it that failed is told of once. A new one is synced twice before it has its name: by bbolt when it is empty, and when it is whole.
func TestARunCostsSixSyncsAndACrowdNoMoreThanOne(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), countEnv+"="+memoryTempDir(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "new 4 syncs\nagain 2 syncs\nagain 1 writes\naccept 2 syncs\nstart 2 syncs\nfinish 2 syncs\nrecorded 0 syncs\nwritten true\neight at once 2 syncs\n", string(out))
}

// Row 18: the first boot is killed before each of the syncs that make a journal. What is left is no damaged journal, and one that has its
// name is kept.
func TestAJournalWhoseMakingWasCutIsWholeOrNotThere(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	const syncs = 4
	for die := 1; die <= syncs; die++ {
		dir := memoryTempDir(t)
		cmd := exec.CommandContext(t.Context(), executable)
		cmd.Env = append(os.Environ(), countEnv+"="+dir, dieEnv+"="+strconv.Itoa(die))
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "before sync %d it was killed: %s", die, out)
		require.Empty(t, string(out), die)
		_, err = os.Stat(journalFile(dir))
		named := err == nil
		assert.Equal(t, die > 2, named, "the name comes after two syncs: %d", die)
		want := ""
		if named {
			want, err = dump(journalFile(dir))
			require.NoError(t, err)
		}
		j := mustOpen(t, dir)
		if named {
			assert.Contains(t, want, j.ID()+"\n")
		}
		requireOneJournal(t, dir)
	}
}

// Row 18: what is left of a journal that was being made is never taken for one, however whole it looks.
func TestALeftOverIsNeverTakenForAJournal(t *testing.T) {
	other := memoryTempDir(t)
	j := mustOpen(t, other)
	finish(t, j, key("a", 1), "x")
	require.NoError(t, j.Close())
	whole := readFile(t, journalFile(other))
	for name, left := range map[string][]byte{"whole": whole, "torn": whole[:len(whole)/2], "empty": {}} {
		t.Run(name, func(t *testing.T) {
			dir := memoryTempDir(t)
			writeFile(t, journalFile(dir)+".new", left)
			first := mustOpen(t, dir)
			id := first.ID()
			assert.NotEqual(t, j.ID(), id)
			_, err := first.Get(key("a", 1))
			require.ErrorIs(t, err, ErrUnknown)
			requireOneJournal(t, dir)
			require.NoError(t, first.Close())
			writeFile(t, journalFile(dir)+".new", left)
			assert.Equal(t, id, mustOpen(t, dir).ID(), "beside a journal nobody looks at it")
		})
	}
}

// requireOneJournal: nothing unfinished lies beside it, and nothing was moved aside.
func requireOneJournal(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(journalFile(dir) + "*")
	require.NoError(t, err)
	require.Equal(t, []string{journalFile(dir)}, found)
}
