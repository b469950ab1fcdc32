package journal

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func TestMain(m *testing.M) {
	if os.Getenv(cutEnv) != "" {
		os.Exit(runCutScript())
	}
	if os.Getenv(syncEnv) != "" {
		os.Exit(runWithoutSync())
	}
	if os.Getenv(countEnv) != "" {
		os.Exit(runCounted())
	}
	goleak.VerifyTestMain(m)
}

func TestAnAttemptIsKeptFromAcceptToRecorded(t *testing.T) {
	dir, c := t.TempDir(), newClock() // on a real disk; the others cut processes and bytes, for which memory will do
	j := mustOpen(t, dir, func(cfg *Config) { cfg.Now = c.Now })
	k := key("a", 1)
	_, err := j.Get(k)
	require.ErrorIs(t, err, ErrUnknown)

	a, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	assert.Equal(t, wire.StateAccepted, a.State)
	assert.Equal(t, wire.Digest("a", 1, "Review a."), a.Digest)
	w, err := j.Work(k)
	require.NoError(t, err)
	assert.Equal(t, "Review a.", w.Goal)
	assert.Equal(t, int64(60), *w.Limits.ActiveSeconds)

	c.advance(time.Second)
	a, err = j.Start(k, "session-1")
	require.NoError(t, err)
	assert.Equal(t, "session-1", a.Session)
	a, err = j.RequestCancel(k)
	require.NoError(t, err)
	assert.True(t, a.CancelRequested)
	c.advance(time.Second)
	_, err = j.Finish(k, done("all good"))
	require.NoError(t, err)

	for _, when := range []string{"before", "after"} {
		e, err := j.Get(k)
		require.NoError(t, err, when)
		assert.Equal(t, wire.StateFinished, e.State, when)
		assert.Equal(t, "all good", e.Envelope.Output.Value, when)
		assert.Equal(t, 2*time.Second, e.FinishedAt.Sub(*e.AcceptedAt), when)
		_, err = j.Work(k)
		require.ErrorIs(t, err, ErrUnknown, "the goal is dropped at the end")
		assert.Equal(t, when == "before", !e.Recorded)
		require.NoError(t, j.Recorded(k))
		require.NoError(t, j.Recorded(k), "idempotent")
	}
}

// SPEC.md, Attempt states: what a state does not allow is refused and changes nothing.
func TestOnlyTheTransitionsOfTheContractAreAllowed(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	accepted, running, finished, voided := key("accepted", 1), key("running", 1), key("finished", 1), key("voided", 1)
	for _, k := range []Key{accepted, running, finished, voided} {
		_, err := j.Accept(request(k.RunUID, 1))
		require.NoError(t, err)
	}
	for _, k := range []Key{running, finished} {
		_, err := j.Start(k, "s")
		require.NoError(t, err)
	}
	_, err := j.Finish(finished, done("x"))
	require.NoError(t, err)
	_, err = j.Void(voided)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		call    func(Key) error
		allowed Key
	}{
		"start":    {func(k Key) error { _, err := j.Start(k, "s"); return err }, accepted},
		"void":     {func(k Key) error { _, err := j.Void(k); return err }, accepted},
		"finish":   {func(k Key) error { _, err := j.Finish(k, done("y")); return err }, running},
		"cancel":   {func(k Key) error { _, err := j.RequestCancel(k); return err }, running},
		"accept":   {func(k Key) error { _, err := j.Accept(request(k.RunUID, 1)); return err }, Key{}},
		"unseen":   {func(k Key) error { _, err := j.VoidUnseen(k); return err }, Key{}},
		"recorded": {func(k Key) error { return j.Recorded(k) }, finished},
	} {
		for _, k := range []Key{accepted, running, finished, voided} {
			if k == c.allowed || name == "recorded" && k == voided {
				continue
			}
			before, err := j.Get(k)
			require.NoError(t, err)
			require.ErrorIs(t, c.call(k), ErrState, "%s of %s", name, k.RunUID)
			after, err := j.Get(k)
			require.NoError(t, err)
			assert.Equal(t, before, after, "%s of %s", name, k.RunUID)
		}
	}
	require.ErrorIs(t, j.Recorded(key("nobody", 1)), ErrUnknown)
	_, err = j.Start(key("nobody", 1), "s")
	require.ErrorIs(t, err, ErrState)
}

// Rows 15, 16, 17, 54: what a restart makes of each state.
func TestARestartSettlesWhatTheLastBootLeft(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	id := j.ID()
	finish(t, j, key("finished", 1), "kept")
	finish(t, j, key("recorded", 1), "kept too")
	require.NoError(t, j.Recorded(key("recorded", 1)))
	for _, run := range []string{"running", "second", "first", "voided"} {
		_, err := j.Accept(request(run, 1))
		require.NoError(t, err)
	}
	_, err := j.Start(key("running", 1), "s")
	require.NoError(t, err)
	_, err = j.Void(key("voided", 1))
	require.NoError(t, err)
	_, err = j.VoidUnseen(key("unseen", 7))
	require.NoError(t, err)
	require.NoError(t, j.Close())

	j = mustOpen(t, dir)
	assert.Equal(t, id, j.ID(), "the same journal")
	e, err := j.Get(key("running", 1))
	require.NoError(t, err)
	assert.Equal(t, wire.StateFinished, e.State)
	assert.Equal(t, wire.OutcomeInterrupted, e.Envelope.Outcome)
	assert.Equal(t, wire.ReasonInterrupted, e.Envelope.Reason)
	e, err = j.Get(key("finished", 1))
	require.NoError(t, err)
	assert.Equal(t, "kept", e.Envelope.Output.Value)
	var order []string
	for _, a := range j.Accepted() {
		order = append(order, a.Run.UID)
		w, err := j.Work(key(a.Run.UID, 1))
		require.NoError(t, err)
		assert.Equal(t, "Review "+a.Run.UID+".", w.Goal)
	}
	assert.Equal(t, []string{"second", "first"}, order, "in the order they came")
	for _, k := range []Key{key("recorded", 1), key("voided", 1), key("unseen", 7)} {
		_, err := j.Start(k, "s")
		require.ErrorIs(t, err, ErrState, "a tombstone never runs again")
		h, err := j.History(k)
		require.NoError(t, err)
		require.NotNil(t, h.Same)
		assert.True(t, h.Same.State.Ended())
	}
}

func TestARunsHistoryIsSeenAcrossItsAttempts(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	finish(t, j, key("a", 1), "x")
	require.NoError(t, j.Recorded(key("a", 1)))
	_, err := j.Accept(request("a", 3))
	require.NoError(t, err)
	_, err = j.Accept(request("ab", 9)) // a UID that another's is a prefix of
	require.NoError(t, err)
	_, err = j.VoidUnseen(key("a", 4))
	require.NoError(t, err)

	h, err := j.History(key("a", 2))
	require.NoError(t, err)
	assert.Equal(t, History{Highest: 4, Active: 3}, h)
	h, err = j.History(key("a", 1))
	require.NoError(t, err)
	require.NotNil(t, h.Same)
	assert.True(t, h.Same.Recorded)
	h, err = j.History(key("nobody", 1))
	require.NoError(t, err)
	assert.Equal(t, History{}, h)
}

// Point 5: a second harness on the same directory is refused at once, by name.
func TestASecondJournalOnTheSameDirectoryIsRefused(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	_, err := Open(Config{Dir: dir, Now: newClock().Now})
	require.ErrorIs(t, err, ErrLocked)
	assert.Contains(t, err.Error(), dir)
	assert.Contains(t, err.Error(), "another harness")
	require.NoError(t, j.Close())
	mustOpen(t, dir)
}

// SPEC.md, Journal: recorded results are kept up to a number and an age, others always; tombstones always.
func TestRecordedResultsAreDroppedAndTombstonesStay(t *testing.T) {
	dir, c := memoryTempDir(t), newClock()
	j := mustOpen(t, dir, func(cfg *Config) { cfg.Now, cfg.Keep = c.Now, 2 })
	runs := []string{"a", "b", "c", "d", "unrecorded"}
	for _, r := range runs {
		finish(t, j, key(r, 1), r)
	}
	for _, r := range runs[:3] {
		require.NoError(t, j.Recorded(key(r, 1)))
	}
	forgotten := func(r string) bool {
		writeMarks(j)
		e, err := j.Get(key(r, 1))
		require.NoError(t, err)
		assert.Equal(t, wire.StateFinished, e.State)
		assert.Equal(t, e.Forgotten, e.Envelope == nil, r)
		return e.Forgotten
	}
	assert.True(t, forgotten("a"), "two are kept, the oldest goes")
	assert.False(t, forgotten("b"))
	c.advance(KeepFor + time.Second)
	require.NoError(t, j.Recorded(key("d", 1)))
	assert.True(t, forgotten("b"), "too old")
	assert.True(t, forgotten("c"), "too old")
	assert.False(t, forgotten("d"))
	assert.False(t, forgotten("unrecorded"), "nobody has it yet")
	require.NoError(t, j.Close())
	c.advance(KeepFor + time.Second)
	j = mustOpen(t, dir, func(cfg *Config) { cfg.Now = c.Now })
	assert.True(t, forgotten("d"), "age counts across boots")
}

// Row 19: a full disk refuses the accept, and nothing was journalled.
func TestAFullDiskRefusesAnAcceptAndForgetsNothing(t *testing.T) {
	var fail error
	j := mustOpen(t, memoryTempDir(t), func(cfg *Config) { cfg.BeforeWrite = func(string) error { return fail } })
	// The hook stays full after the reserve is spent, as a disk may that others write to.
	_, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	_, err = j.Start(key("a", 1), "s")
	require.NoError(t, err)

	fail = syscall.ENOSPC
	_, err = j.Accept(request("b", 1))
	require.ErrorIs(t, err, ErrFull)
	_, err = j.Get(key("b", 1))
	require.ErrorIs(t, err, ErrUnknown, "nothing promised")
	_, err = j.Finish(key("a", 1), done("x"))
	require.ErrorIs(t, err, ErrFull)
	e, err := j.Get(key("a", 1))
	require.NoError(t, err)
	assert.Equal(t, wire.StateRunning, e.State, "a result that is not stored is not reported as stored")

	fail = nil
	_, err = j.Finish(key("a", 1), done("x"))
	require.NoError(t, err)
	_, err = j.Accept(request("b", 1))
	require.NoError(t, err)
}

func TestAFullBookRefusesAnAcceptButStillVoids(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t), func(cfg *Config) { cfg.MaxAttempts = 1 })
	_, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	_, err = j.Accept(request("b", 1))
	require.ErrorIs(t, err, ErrFull)
	_, err = j.VoidUnseen(key("b", 1))
	require.NoError(t, err)
}

func TestWithoutRoomForTheReserveNothingIsAccepted(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t), func(cfg *Config) { cfg.ReserveBytes = 1 << 50 })
	_, err := j.Accept(request("a", 1))
	require.ErrorIs(t, err, ErrFull)
}

// A commit may fail after it was made: only what the file holds decides.
func TestAFailedCommitIsSettledByWhatTheFileHolds(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	_, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	cause := errors.New("sync failed")
	file := journalFile(j.cfg.Dir)
	require.NoError(t, os.Chtimes(file, time.Time{}, newClock().Now()))
	j.write.Lock()
	assert.NoError(t, j.settleFailed(j.counts, cause), "it is there and could be synced after all")
	info, err := os.Stat(file)
	assert.NoError(t, err)
	assert.NotEqual(t, newClock().Now(), info.ModTime().UTC(), "a sync alone would prove nothing: what it failed to write counts as written then (fsync(2))")
	next := j.counts
	next.Writes++
	assert.ErrorIs(t, j.settleFailed(next, cause), cause, "it is not there")
	j.write.Unlock()
	_, err = j.Start(key("a", 1), "s")
	require.NoError(t, err, "the journal goes on")
}

// SPEC.md, Endpoints: nobody is told of a write before it is synced and known.
func TestAWriteUnderWayIsNotSeen(t *testing.T) {
	var j *Journal
	looked := 0
	look := func() {
		if j == nil {
			return
		}
		looked++
		_, err := j.Get(key("a", 1))
		assert.ErrorIs(t, err, ErrUnknown)
		h, err := j.History(key("a", 1))
		assert.NoError(t, err)
		assert.Nil(t, h.Same)
	}
	j = mustOpen(t, memoryTempDir(t), func(cfg *Config) { cfg.AfterWrite = func(string) { look() } })
	_, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	assert.Equal(t, 1, looked)
	_, err = j.Get(key("a", 1))
	require.NoError(t, err)
}

func TestAClosedJournalRefusesAndDoesNotPanic(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	require.NoError(t, j.Close())
	_, err := j.Accept(request("a", 1))
	require.ErrorIs(t, err, ErrClosed)
	_, err = j.History(key("a", 1))
	require.ErrorIs(t, err, ErrClosed)
}

func TestGoalsNeverReachTheLog(t *testing.T) {
	dir := memoryTempDir(t)
	log, lines := logged(t)
	j := mustOpen(t, dir, func(cfg *Config) { cfg.Log = log })
	_, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	_, err = j.Start(key("a", 1), "s")
	require.NoError(t, err)
	require.NoError(t, j.Close())
	mustOpen(t, dir, func(cfg *Config) { cfg.Log = log })
	assert.Contains(t, lines.String(), "Interrupted")
	assert.NotContains(t, lines.String(), "Review", "I8")
}
