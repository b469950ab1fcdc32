package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	cutEnv    = "JOURNAL_TEST_CUT" // at which boundary the child kills itself
	cutDirEnv = "JOURNAL_TEST_DIR"
)

// script is a life of a journal, a durable write per step but for the mark, which goes to the disk with the next one.
var script = []struct {
	name string
	do   func(*Journal) error
}{
	{"accept a", func(j *Journal) error { _, err := j.Accept(request("a", 1)); return err }},
	{"start a", func(j *Journal) error { _, err := j.Start(key("a", 1), "s"); return err }},
	{"accept b", func(j *Journal) error { _, err := j.Accept(request("b", 1)); return err }},
	{"finish a", func(j *Journal) error { _, err := j.Finish(key("a", 1), done("a's output")); return err }},
	{"void b", func(j *Journal) error { _, err := j.Void(key("b", 1)); return err }},
	{"accept b again", func(j *Journal) error { _, err := j.Accept(request("b", 2)); return err }},
	{markStep, func(j *Journal) error { return j.Recorded(key("a", 1)) }},
	{"void unseen c", func(j *Journal) error { _, err := j.VoidUnseen(key("c", 5)); return err }},
	{"start b again", func(j *Journal) error { _, err := j.Start(key("b", 2), "s"); return err }},
	{"cancel b again", func(j *Journal) error { _, err := j.RequestCancel(key("b", 2)); return err }},
	{"finish b again", func(j *Journal) error { _, err := j.Finish(key("b", 2), done("b's output")); return err }},
	{"accept d", func(j *Journal) error { _, err := j.Accept(request("d", 1)); return err }},
}

// markStep alone need not survive a crash that comes before the next write.
const markStep = "recorded a"

// runCutScript is the child: it runs the script, says after each step that it returned, and kills itself at a boundary.
func runCutScript() int {
	cut, err := strconv.Atoi(os.Getenv(cutEnv))
	if err != nil {
		return 2
	}
	boundary := 0
	at := func() {
		if boundary++; boundary == cut {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal takes effect before anything else happens
		}
	}
	j, err := Open(Config{
		Dir: os.Getenv(cutDirEnv), Now: newClock().Now,
		BeforeWrite: func(string) error { at(); return nil }, AfterWrite: func(string) { at() },
	})
	if err != nil {
		return 2
	}
	for _, step := range script {
		if err := step.do(j); err != nil {
			return 2
		}
		fmt.Println("did " + step.name)
	}
	return 0
}

// Rows 14 to 17: the harness is killed before and after each durable write. What was said to be done is there, what was not
// said may or may not be, and nothing else.
func TestTheJournalCutAtEveryWriteKeepsWhatItPromised(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	for cut := 1; ; cut++ {
		dir := memoryTempDir(t)
		leaveRunning(t, dir)
		cmd := exec.CommandContext(t.Context(), executable)
		cmd.Env = append(os.Environ(), cutEnv+"="+strconv.Itoa(cut), cutDirEnv+"="+dir)
		out, err := cmd.Output()
		did := strings.Count(string(out), "did ")
		checkCut(t, dir, did, fmt.Sprintf("cut at boundary %d, after %d steps", cut, did))
		if err == nil {
			assert.Equal(t, 2*(len(script)+1)+1, cut, "each step and the settling of a boot have two boundaries")
			return
		}
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit) && !exit.Exited(), "the child ended by itself: %v", err)
	}
}

// checkCut compares a journal after a crash with one that ran the same steps, or one more, and was then opened again.
func checkCut(t *testing.T, dir string, did int, what string) {
	t.Helper()
	got := states(t, mustOpen(t, dir))
	var allowed []string
	from := did
	if did > 0 && script[did-1].name == markStep { // a mark may be lost, and nothing else
		from--
	}
	for steps := from; steps <= min(did+1, len(script)); steps++ {
		model := memoryTempDir(t)
		leaveRunning(t, model)
		j := mustOpen(t, model)
		for _, step := range script[:steps] {
			require.NoError(t, step.do(j))
		}
		require.NoError(t, j.Close())
		allowed = append(allowed, states(t, mustOpen(t, model)))
	}
	assert.Contains(t, allowed, got, what)
}

// leaveRunning makes a journal with an attempt that the next boot has to settle.
func leaveRunning(t *testing.T, dir string) {
	t.Helper()
	j := mustOpen(t, dir)
	_, err := j.Accept(request("left", 1))
	require.NoError(t, err)
	_, err = j.Start(key("left", 1), "s")
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// states is what a caller can see of the script's attempts.
func states(t *testing.T, j *Journal) string {
	t.Helper()
	var b strings.Builder
	for _, k := range []Key{key("left", 1), key("a", 1), key("b", 1), key("b", 2), key("c", 5), key("d", 1)} {
		e, err := j.Get(k)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		require.NoError(t, err)
		encoded, err := wire.Encode(e.Attempt)
		require.NoError(t, err)
		_, workErr := j.Work(k)
		fmt.Fprintf(&b, "%s forgotten=%t goal=%t\n", encoded, e.Forgotten, workErr == nil)
	}
	return b.String()
}

// SPEC.md, Journal: power is cut within a commit. bbolt writes data pages, syncs, writes a meta page, syncs; whatever part of
// that reached the disk, the file holds the state before the write or the one after it, or is found to be damaged (a meta page
// torn within its 80 bytes, which no disk does that writes whole sectors).
func TestACommitTornAnywhereIsBeforeOrAfter(t *testing.T) {
	const page = 4096
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	path := filepath.Join(memoryTempDir(t), "torn.db")
	before := readFile(t, journalFile(dir))
	wasBefore, err := dumpBytes(t, path, before)
	require.NoError(t, err)
	for _, step := range script {
		require.NoError(t, step.do(j))
		after := readFile(t, journalFile(dir))
		if step.name == markStep {
			require.Equal(t, before, after, "a mark goes with the next write")
			continue
		}
		isAfter, err := dumpBytes(t, path, after)
		require.NoError(t, err)
		torn := append(append([]byte{}, before...), make([]byte, len(after)-len(before))...)
		var data []int
		meta := -1
		for at := 0; at < len(after); at += page {
			if bytes.Equal(torn[at:at+page], after[at:at+page]) {
				continue
			}
			if at < 2*page {
				meta = at
			} else {
				data = append(data, at)
			}
		}
		require.GreaterOrEqual(t, meta, 0, step.name)
		for _, at := range data { // data pages in order, each torn in the middle first
			for _, n := range []int{page / 2, page} {
				copy(torn[at:at+n], after[at:at+n])
				got, err := dumpBytes(t, path, torn)
				require.NoError(t, err, "%s: data page at %d", step.name, at)
				require.Equal(t, wasBefore, got, "%s: data page at %d", step.name, at)
			}
		}
		for n := 8; n <= 96; n += 8 { // the meta page, torn within what it holds
			copy(torn[meta:meta+n], after[meta:meta+n])
			got, err := dumpBytes(t, path, torn)
			if err != nil { // it cannot be told from damage, so it is taken for that
				require.ErrorIs(t, err, errDamaged, "%s: meta page torn at %d", step.name, n)
				continue
			}
			require.Contains(t, []string{wasBefore, isAfter}, got, "%s: meta page torn at %d", step.name, n)
		}
		before, wasBefore = after, isAfter
	}
}

func dumpBytes(t *testing.T, path string, b []byte) (string, error) {
	t.Helper()
	writeFile(t, path, b)
	return dump(path)
}

// Row 19, on a disk that is really full: accepts are refused, and what was promised is kept and can be ended.
func TestARealFullDiskIsRefusedAndSurvived(t *testing.T) {
	dir := memoryTempDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("mounting a small file system takes root: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	cfg := Config{Dir: dir, Now: newClock().Now, ReserveBytes: 1 << 20}
	j, err := Open(cfg)
	require.NoError(t, err)
	id := j.ID()
	for _, run := range []string{"finishes", "interrupted"} {
		_, err = j.Accept(request(run, 1))
		require.NoError(t, err)
		_, err = j.Start(key(run, 1), "s")
		require.NoError(t, err)
	}
	n := int64(0)
	for ; err == nil; n++ {
		r := request("filler", n+1)
		r.Goal = strings.Repeat("g", 20_000)
		_, err = j.Accept(r)
	}
	require.ErrorIs(t, err, ErrFull)
	_, err = j.Get(key("filler", n))
	require.ErrorIs(t, err, ErrUnknown, "nothing promised")
	_, err = j.Finish(key("finishes", 1), done(strings.Repeat("o", 200_000)))
	require.NoError(t, err, "the reserve is for ends")
	_, err = j.Accept(request("more", 1))
	require.ErrorIs(t, err, ErrFull, "until there is a new reserve")
	require.NoError(t, j.Close())

	j, err = Open(cfg)
	require.NoError(t, err, "a boot settles on a full disk")
	assert.Equal(t, id, j.ID())
	assert.Len(t, j.Accepted(), int(n-1), "all that was promised, and no more")
	e, err := j.Get(key("interrupted", 1))
	require.NoError(t, err)
	assert.Equal(t, wire.OutcomeInterrupted, e.Envelope.Outcome)
	require.NoError(t, j.Close())
}
