package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// crowd opens a journal whose first write waits until n others have arrived, so that those are committed together.
func crowd(t *testing.T, n int, edit ...func(*Config)) (*Journal, func(calls ...func() error) []error) {
	t.Helper()
	var gate chan struct{}
	reached := make(chan struct{}, 1)
	j := mustOpen(t, memoryTempDir(t), append(edit, func(c *Config) {
		before := c.BeforeWrite
		c.BeforeWrite = func(name string) error {
			if gate != nil && name == "void" {
				reached <- struct{}{}
				<-gate
			}
			if before != nil {
				return before(name)
			}
			return nil
		}
	})...)
	return j, func(calls ...func() error) []error {
		require.Len(t, calls, n)
		gate = make(chan struct{})
		var work sync.WaitGroup
		work.Go(func() { _, err := j.VoidUnseen(key("first", 1)); assert.NoError(t, err) })
		<-reached
		errs := make([]error, n)
		for i, call := range calls {
			work.Go(func() { errs[i] = call() })
			require.Eventually(t, func() bool { return queued(j) == i+1 }, waitFor, tick)
		}
		close(gate)
		work.Wait()
		return errs
	}
}

func queued(j *Journal) int {
	j.waiting.mu.Lock()
	defer j.waiting.mu.Unlock()
	return len(j.waiting.writes)
}

func accept(j *Journal, k Key) func() error {
	return func() error { _, err := j.Accept(request(k.RunUID, k.Attempt)); return err }
}

// P2: what arrives during a sync shares the next one, and each is told of and kept in the order it came.
func TestWritesThatArriveTogetherShareOneCommit(t *testing.T) {
	const n = 50
	j, together := crowd(t, n)
	before := j.counts.Writes
	calls := make([]func() error, n)
	for i := range calls {
		calls[i] = accept(j, key("r"+strconv.Itoa(i), 1))
	}
	for _, err := range together(calls...) {
		require.NoError(t, err)
	}
	assert.Equal(t, int64(2), j.counts.Writes-before, "the first, and all others")
	dir := j.cfg.Dir
	require.NoError(t, j.Close())
	j = mustOpen(t, dir)
	require.Len(t, j.Accepted(), n)
	for i, e := range j.Accepted() {
		assert.Equal(t, "r"+strconv.Itoa(i), e.Run.UID)
	}
}

// Nobody fails for another's write: one that is refused, or finds no room, leaves the others of its commit as they are.
func TestAWriteThatFailsSpoilsNoOtherOfItsCommit(t *testing.T) {
	full := func(c *Config) { c.MaxAttempts = 5 } // the first and what is accepted here
	j, together := crowd(t, 7, full)
	require.NoError(t, accept(j, key("known", 1))())
	require.NoError(t, j.Recorded(mustVoid(t, j, key("known", 1)))) // known to the file alone
	errs := together(accept(j, key("a", 1)), accept(j, key("known", 1)), func() error { _, err := j.Start(key("nobody", 1), "s"); return err },
		accept(j, key("b", 1)), accept(j, key("c", 1)), accept(j, key("d", 1)), accept(j, key("e", 1)))
	accepted := 0
	for i, err := range errs {
		switch i {
		case 1, 2:
			require.ErrorIs(t, err, ErrState)
		default:
			if err == nil {
				accepted++
				continue
			}
			require.ErrorIs(t, err, ErrFull)
		}
	}
	assert.Equal(t, 3, accepted, "five in all")
	assert.Len(t, j.Accepted(), 3)
}

func mustVoid(t *testing.T, j *Journal, k Key) Key {
	t.Helper()
	_, err := j.Void(k)
	require.NoError(t, err)
	return k
}

// fullBesideReserve is a disk that, once full, has as much room as the reserve gives back.
func fullBesideReserve(full *atomic.Bool) func(*Config) {
	return func(c *Config) {
		reserve := filepath.Join(c.Dir, reserveName)
		c.BeforeWrite = func(write string) error {
			if _, err := os.Stat(reserve); err == nil && full.Load() && write != writeRecorded {
				return syscall.ENOSPC
			}
			return nil
		}
	}
}

// Row 19: an accept that waited together with an end is not journalled in the room that the reserve made for that end.
func TestNothingIsAcceptedInTheRoomOfAnEnd(t *testing.T) {
	var full atomic.Bool
	j := mustOpen(t, memoryTempDir(t), fullBesideReserve(&full))
	require.NoError(t, accept(j, key("a", 1))())
	_, err := j.Start(key("a", 1), "s")
	require.NoError(t, err)
	full.Store(true)
	var finished, accepted error
	var work sync.WaitGroup
	j.write.Lock()
	work.Go(func() { _, finished = j.Finish(key("a", 1), done("x")) })
	require.Eventually(t, func() bool { return queued(j) == 1 }, waitFor, tick)
	work.Go(func() { accepted = accept(j, key("b", 1))() })
	require.Eventually(t, func() bool { return queued(j) == 2 }, waitFor, tick)
	j.write.Unlock()
	work.Wait()
	require.NoError(t, finished)
	require.ErrorIs(t, accepted, ErrFull)
	assert.Empty(t, j.Accepted())
}

// Row 19: marks can wait, so the reserve that is kept for ends is not spent for them.
func TestMarksLeaveTheReserveToTheEnds(t *testing.T) {
	var full atomic.Bool
	j := mustOpen(t, memoryTempDir(t), fullBesideReserve(&full))
	for i := range maxMarks {
		finish(t, j, key("r"+strconv.Itoa(i), 1), "x")
	}
	full.Store(true)
	for i := range maxMarks {
		require.NoError(t, j.Recorded(key("r"+strconv.Itoa(i), 1)))
	}
	assert.FileExists(t, filepath.Join(j.cfg.Dir, reserveName))
	assert.Len(t, j.feed.marks(), maxMarks)
}

// Row 42: a write whose caller panicked while he committed others' is not made later behind his back.
func TestAWriteWhoseCallerPanickedIsNotMadeLater(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	j.waiting.add(&write{name: "void", key: key("a", 1), change: func(*bbolt.Tx, *counts) error { panic("another's") }})
	assert.Panics(t, func() { _ = accept(j, key("a", 1))() })
	assert.Equal(t, 1, queued(j), "the other's alone")
}

// SPEC.md, Attempt states: of two changes of one attempt that come at the same moment the first counts, and the second sees what it left.
func TestTwoChangesOfOneAttemptAreNeverCommittedTogether(t *testing.T) {
	j, together := crowd(t, 3)
	require.NoError(t, accept(j, key("a", 1))())
	errs := together(
		func() error { _, err := j.Start(key("a", 1), "s"); return err },
		func() error { _, err := j.Void(key("a", 1)); return err },
		func() error { _, err := j.Finish(key("a", 1), done("x")); return err },
	)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], ErrState)
	require.NoError(t, errs[2])
	e, err := j.Get(key("a", 1))
	require.NoError(t, err)
	assert.Equal(t, wire.StateFinished, e.State)
}

// Row 42: a panic while many are committed together takes along nobody but the one that it came to.
func TestAPanicInACommitLeavesTheOthersTheirs(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			var once sync.Once
			panics := func(name string) {
				if name == "start" {
					once.Do(func() { panic(when) })
				}
			}
			j, together := crowd(t, 4, func(c *Config) {
				if when == "before" {
					c.BeforeWrite = func(name string) error { panics(name); return nil }
				} else {
					c.AfterWrite = panics
				}
			})
			require.NoError(t, accept(j, key("s", 1))())
			var calls []func() error
			for _, call := range []func() error{
				accept(j, key("a", 1)), func() error { _, err := j.Start(key("s", 1), "s"); return err }, accept(j, key("b", 1)), accept(j, key("c", 1)),
			} {
				calls = append(calls, func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = fmt.Errorf("panic: %v", p)
						}
					}()
					return call()
				})
			}
			failed := 0
			for _, err := range together(calls...) {
				if err != nil {
					assert.ErrorContains(t, err, "panic: "+when)
					failed++
				}
			}
			assert.Equal(t, 1, failed)
			dir := j.cfg.Dir
			seen := len(j.Accepted())
			require.NoError(t, j.Close())
			assert.GreaterOrEqual(t, seen, 2)
			assert.Len(t, mustOpen(t, dir).Accepted(), seen, "memory and file say the same")
		})
	}
}

// SPEC.md, Attempt states: a mark costs no write of its own, is seen at once, goes with the next write, and many make one.
func TestAMarkCostsNoWriteOfItsOwn(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	runs := maxMarks + 1
	for i := range runs {
		finish(t, j, key("r"+strconv.Itoa(i), 1), "x")
	}
	before := j.counts.Writes
	for i := range maxMarks - 1 {
		require.NoError(t, j.Recorded(key("r"+strconv.Itoa(i), 1)))
	}
	assert.Equal(t, before, j.counts.Writes)
	e, err := j.Get(key("r0", 1))
	require.NoError(t, err)
	assert.True(t, e.Recorded)
	assert.Equal(t, "x", e.Envelope.Output.Value)
	p, err := j.Changes(0, 1<<20)
	require.NoError(t, err)
	assert.Len(t, p.Runs, 2, "it left the feed")
	require.NoError(t, j.Recorded(key("r64", 1)))
	assert.Equal(t, before+1, j.counts.Writes, "enough of them are written")
	assert.Empty(t, j.feed.marks())
	require.NoError(t, j.Recorded(key("r63", 1)))
	require.NoError(t, accept(j, key("next", 1))())
	assert.Equal(t, before+2, j.counts.Writes)
	assert.Empty(t, j.feed.marks())
	require.NoError(t, j.Close())
	assert.Zero(t, mustOpen(t, dir).Unrecorded())
}
