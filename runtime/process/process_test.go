package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// patience is for what comes when it comes.
const patience = time.Minute

// TestMain also plays the parts of the processes that the tests start: the first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "play-") {
		play(os.Args[1], os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

func play(part string, args []string) {
	switch part {
	case "play-sleep":
		time.Sleep(time.Hour)
	case "play-init":
		playInit()
	case "play-leave": // leaves a process in a session of its own, without the environment if asked, says its number, and stays or goes
		self, _ := os.Executable()
		c := &exec.Cmd{Path: self, Args: []string{self, "play-sleep"}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
		if args[0] == "hidden" {
			c.Env = []string{"A=1"}
		}
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Println(c.Process.Pid)
		if args[1] == "stay" {
			time.Sleep(time.Hour)
		}
	}
}

func self(t *testing.T, args ...string) Spec {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return Spec{Command: append([]string{exe}, args...), Env: os.Environ(), Marker: filepath.Base(t.TempDir()) + t.Name()}
}

func shell(t *testing.T, script string) Spec {
	t.Helper()
	return Spec{Command: []string{"sh", "-c", script}, Env: os.Environ(), Marker: t.Name() + strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// start starts a process and the reaper, and sees to it that both are gone at the end of the test.
func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background()) //nolint:usetesting // must outlive the cleanup that ends the process
	stopped := make(chan error, 1)
	go func() { stopped <- Reap(ctx) }()
	p, err := Start(spec)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.End(context.Background(), 0)) //nolint:usetesting // t.Context is over in a cleanup
		_ = p.Stdout.Close()
		stop()
		assert.NoError(t, <-stopped)
	})
	return p
}

func line(t *testing.T, p *Process) string {
	t.Helper()
	s, err := bufio.NewReader(p.Stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(s)
}

func pidLine(t *testing.T, p *Process) int {
	t.Helper()
	pid, err := strconv.Atoi(line(t, p))
	require.NoError(t, err)
	return pid
}

// gone tells whether no such process is left, not even as a zombie.
func gone(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return os.IsNotExist(err)
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return gone(pid) }, patience, 5*time.Millisecond, "process %d is left", pid)
}

func TestExitCarriesStatusAndTheEndOfStderr(t *testing.T) {
	for _, c := range []struct{ name, script, words string }{
		{"status", "echo first >&2; echo last words >&2; exit 3", "agent process exited with status 3; stderr ends: first\nlast words"},
		{"signal", "kill -9 $$", "agent process was killed by SIGKILL; stderr is empty"},
		{"bytes that are not UTF-8", `printf 'a\377b\000c' >&2; exit 1`, "agent process exited with status 1; stderr ends: a\uFFFDb\uFFFDc"},
		{"nothing", "exit 0", "agent process exited with status 0; stderr is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, shell(t, c.script))
			<-p.Done()
			var exit *ExitError
			require.ErrorAs(t, p.Err(), &exit)
			assert.Equal(t, c.words, p.Err().Error())
		})
	}
}

func TestErrIsNilWhileTheProcessLives(t *testing.T) {
	p := start(t, shell(t, "echo up; exec sleep 1000"))
	line(t, p)
	assert.NoError(t, p.Err())
}

func TestTheEndOfStderrIsBoundedAndBeginsAtARune(t *testing.T) {
	p := start(t, shell(t, `i=0; while [ $i -lt 3000 ]; do printf 'ééééé'; i=$((i+1)); done >&2; printf 'x%s' end >&2`))
	<-p.Done()
	var exit *ExitError
	require.ErrorAs(t, p.Err(), &exit)
	assert.LessOrEqual(t, len(exit.Exit.Stderr), TailBytes)
	assert.Greater(t, len(exit.Exit.Stderr), TailBytes-8)
	assert.True(t, strings.HasPrefix(exit.Exit.Stderr, "é"))
	assert.True(t, strings.HasSuffix(exit.Exit.Stderr, "xend"))
}

func TestThePipesCarryBothWays(t *testing.T) {
	p := start(t, shell(t, "read x; echo got $x"))
	_, err := io.WriteString(p.Stdin, "hello\n")
	require.NoError(t, err)
	assert.Equal(t, "got hello", line(t, p))
}

func TestOnlyTheGivenEnvironmentAndTheMarkerReachTheAgent(t *testing.T) {
	t.Setenv("HEARTH_TEST_SECRET", "s3cret")
	p := start(t, Spec{Command: []string{"/usr/bin/env"}, Env: []string{"A=b"}, Marker: "m1"})
	all, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	assert.Equal(t, "A=b\nHEARTH_SLOT=m1\n", string(all))
}

// SPEC.md, Harness: SIGTERM first, so that an agent can put its things in order.
func TestEndLetsTheGroupTerminate(t *testing.T) {
	p := start(t, shell(t, `trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.01; done`))
	r := bufio.NewReader(p.Stdout)
	_, err := r.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, p.End(t.Context(), patience))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "bye\n", string(rest))
	assert.Contains(t, p.Err().Error(), "exited with status 4")
}

// The grace is for the whole group, not only for its leader.
func TestEndGivesChildrenTheGraceToo(t *testing.T) {
	p := start(t, shell(t, `sh -c 'trap "sleep 0.2; echo child done; exit" TERM; echo up; while :; do sleep 0.01; done' & wait`))
	r := bufio.NewReader(p.Stdout)
	_, err := r.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, p.End(t.Context(), patience))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "child done\n", string(rest))
}

// Fault row 21: an agent that ignores SIGTERM is killed with its whole group.
func TestEndKillsAGroupThatIgnoresSIGTERM(t *testing.T) {
	p := start(t, shell(t, `trap '' TERM; sleep 1000 & echo $!; wait; while :; do sleep 1; done`))
	child := pidLine(t, p)
	require.NoError(t, p.End(t.Context(), time.Millisecond))
	assert.Contains(t, p.Err().Error(), "was killed by SIGKILL")
	requireGone(t, child)
	requireGone(t, p.PID())
}

// SPEC.md, Harness: no descendant lives, one that called setsid included, whether or not its parents and environment are left.
func TestEndFindsWhatLeftTheGroup(t *testing.T) {
	for _, c := range []struct{ name, how, parent string }{
		{"by its parent", "hidden", "stay"},
		{"by its environment", "plain", "stay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, self(t, "play-leave", c.how, c.parent))
			stray := pidLine(t, p)
			require.Len(t, p.Descendants(), 1)
			require.NoError(t, p.End(t.Context(), patience))
			requireGone(t, stray)
		})
	}
}

// The orphan's parent is gone before anybody looked; only the environment tells whose it is.
func TestACrashTakesOrphansInOtherSessionsAlong(t *testing.T) {
	p := start(t, self(t, "play-leave", "plain", "go"))
	stray := pidLine(t, p)
	<-p.Done()
	requireGone(t, stray)
}

// An orphan without environment whose parents are gone is still known when it was seen before.
func TestWhatWasSeenOnceStaysKnown(t *testing.T) {
	p := start(t, shell(t, `(setsid env -i sleep 1000 & echo $!; read x); exit 0`))
	stray := pidLine(t, p)
	require.Eventually(t, func() bool {
		for _, id := range p.Descendants() {
			if id.PID == stray {
				return true
			}
		}
		return false
	}, patience, time.Millisecond)
	_, err := io.WriteString(p.Stdin, "go\n")
	require.NoError(t, err)
	<-p.Done()
	requireGone(t, stray)
}

// Fault row 52: ending one agent by force never hurts another one of the same harness.
func TestEndLeavesOtherAgentsAndTheirStraysAlone(t *testing.T) {
	one := start(t, self(t, "play-leave", "plain", "stay"))
	strayOfOne := pidLine(t, one)
	two := start(t, self(t, "play-leave", "plain", "stay"))
	strayOfTwo := pidLine(t, two)
	require.NoError(t, one.End(t.Context(), 0))
	requireGone(t, strayOfOne)
	assert.NoError(t, two.Err())
	assert.False(t, gone(strayOfTwo))
	assert.Len(t, two.Descendants(), 1)
}

func TestEndOfADeadProcessDoesNothing(t *testing.T) {
	p := start(t, shell(t, "exit 0"))
	<-p.Done()
	require.NoError(t, p.End(t.Context(), time.Hour))
	require.NoError(t, p.End(t.Context(), time.Hour))
	assert.Empty(t, p.Descendants())
}

func TestAContextCutsTheGraceShort(t *testing.T) {
	p := start(t, shell(t, `trap '' TERM; echo up; while :; do sleep 1; done`))
	line(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.End(ctx, time.Hour))
	assert.Contains(t, p.Err().Error(), "SIGKILL")
}

// The harness adopts and reaps orphans without stealing the exit status of commands that others wait for.
func TestReapingStealsNobodysWait(t *testing.T) {
	p := start(t, shell(t, `i=0; while [ $i -lt 50 ]; do (sh -c 'exit 0' &) ; i=$((i+1)); done; echo done; exec sleep 1000`))
	for i := range 50 {
		var setpgid syscall.SysProcAttr
		setpgid.Setpgid = i%2 == 0
		c := exec.CommandContext(t.Context(), "sh", "-c", "exit "+strconv.Itoa(i%7))
		c.SysProcAttr = &setpgid
		err := c.Run()
		if i%7 == 0 {
			require.NoError(t, err)
			continue
		}
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, i%7, exit.ExitCode())
	}
	assert.Equal(t, "done", line(t, p))
	require.Eventually(t, func() bool { return zombies(t) == 0 }, patience, 5*time.Millisecond, "orphans are left as zombies")
}

// counted counts what is opened and listed of /proc.
type counted struct {
	fs.FS
	n *atomic.Int32
}

func (c counted) Open(name string) (fs.File, error) {
	c.n.Add(1)
	return c.FS.Open(name)
}

// A host may have thousands of processes: a harness that has no dead child to reap does not look through them.
func TestTheProcessTableIsReadForADeadChildOnly(t *testing.T) {
	reads, whole := new(atomic.Int32), procfs
	procfs = counted{whole, reads}
	t.Cleanup(func() { procfs = whole })
	reap := func() map[ID]struct{} {
		children.mu.Lock()
		defer children.mu.Unlock()
		return children.reap(nil)
	}
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, child.Start())
	require.Eventually(t, func() bool { return zombies(t) == 0 }, patience, 5*time.Millisecond, "what other tests left")
	reads.Store(0)
	assert.Empty(t, reap(), "it lives")
	assert.Zero(t, reads.Load())

	require.NoError(t, child.Process.Kill())
	waitLeader(child.Process.Pid)
	assert.Len(t, reap(), 1, "it is left to who started it")
	assert.NotZero(t, reads.Load())
	var exit *exec.ExitError
	require.ErrorAs(t, child.Wait(), &exit)
}

func zombies(t *testing.T) int {
	t.Helper()
	all, err := table()
	require.NoError(t, err)
	n := 0
	for _, e := range all {
		if e.ppid == os.Getpid() && e.state == zombie {
			n++
		}
	}
	return n
}

// playInit is a harness that is the first process of its container.
func playInit() {
	// Private, so that the mount stays here. Making all of / private would not work in a chroot, where / is no mount.
	err := unix.Mount("", "/proc", "", unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	if err != nil {
		fmt.Println("mount:", err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	reaped := make(chan error, 1)
	go func() { reaped <- Reap(ctx) }()
	p, err := Start(Spec{Command: []string{"sh", "-c", "(setsid env -i sh -c '(exit 0) & exec sleep 1000' &); sleep 0.1; exit 0"}, Env: os.Environ(), Marker: "m"})
	if err != nil {
		fmt.Println(err)
		return
	}
	other := exec.Command("sh", "-c", "exit 3") //nolint:noctx // ends by itself
	_ = other.Start()
	<-p.Done()
	err = other.Wait() // long after it has exited
	fmt.Println(p.Err(), "|", err)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if all, err := table(); err == nil && len(all) == 1 {
			fmt.Println("nobody is left")
			break
		}
	}
	stop()
	<-reaped
}

// SPEC.md, Harness: as the first process of a container it reaps what others orphan, and ends what its agent has hidden.
func TestAsTheFirstProcessOfAContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a process namespace of its own needs root")
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "play-init")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("process namespaces are not allowed here")
	}
	require.NoError(t, err, string(out))
	assert.Equal(t, "agent process exited with status 0; stderr is empty | exit status 3\nnobody is left\n", string(out))
}

func TestStartNamesWhatItCannotFind(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	for _, c := range []struct {
		name    string
		command []string
		want    string
	}{
		{"no command", nil, "no command was given"},
		{"empty word", []string{""}, "no command was given"},
		{"not in PATH", []string{"no-such-agent", "acp"}, `"no-such-agent" is not in PATH (` + dir + ")"},
		{"no such file", []string{dir + "/nothing"}, "no such file or directory"},
		{"not executable", []string{plain}, "is not an executable file"},
		{"a directory", []string{dir}, "is not an executable file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Start(Spec{Command: c.command, Env: []string{"PATH=" + dir}})
			require.ErrorIs(t, err, ErrNotFound)
			assert.ErrorContains(t, err, c.want)
		})
	}
	require.NoError(t, os.WriteFile(plain, []byte("not a program"), 0o600))
	require.NoError(t, os.Chmod(plain, 0o700)) //nolint:gosec // has to be executable
	_, err := Start(Spec{Command: []string{plain}})
	assert.ErrorContains(t, err, "exec format error")
}

func TestParseStat(t *testing.T) {
	e, err := parseStat(7, "7 (a) (b c) S 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2\n")
	require.NoError(t, err)
	assert.Equal(t, entry{id: ID{PID: 7, Start: 4242}, ppid: 1, pgid: 2, sid: 3, state: 'S'}, e)
}

func FuzzParseStat(f *testing.F) {
	f.Add("7 (a) S 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2")
	f.Add(")")
	f.Add("")
	f.Fuzz(func(t *testing.T, stat string) {
		if e, err := parseStat(1, stat); err == nil {
			assert.Equal(t, 1, e.id.PID)
		}
	})
}
