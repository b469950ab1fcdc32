package journal

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// SPEC.md, Attempt states: a journal that is written, crashed and opened again in any order says what a plain map says.
func TestTheJournalBehavesLikeAMapThatNeverForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := memoryDir(t)
		defer func() { _ = os.RemoveAll(dir) }()
		open := func() *Journal {
			j, err := Open(Config{Dir: dir, Now: newClock().Now, Keep: 2, ReserveBytes: 4096})
			require.NoError(t, err)
			return j
		}
		j := open()
		id := j.ID()
		model := map[Key]wire.State{}
		recorded := map[Key]bool{}
		pick := func(t *rapid.T) Key {
			return key(rapid.SampledFrom([]string{"a", "ab", "b"}).Draw(t, "run"), rapid.Int64Range(1, 3).Draw(t, "attempt"))
		}
		step := func(from, to wire.State, call func(Key) error) func(*rapid.T) {
			return func(t *rapid.T) {
				k := pick(t)
				err := call(k)
				if model[k] == from {
					require.NoError(t, err)
					model[k] = to
					return
				}
				require.ErrorIs(t, err, ErrState)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"accept":      step("", wire.StateAccepted, func(k Key) error { _, err := j.Accept(request(k.RunUID, k.Attempt)); return err }),
			"void unseen": step("", wire.StateVoided, func(k Key) error { _, err := j.VoidUnseen(k); return err }),
			"void":        step(wire.StateAccepted, wire.StateVoided, func(k Key) error { _, err := j.Void(k); return err }),
			"start":       step(wire.StateAccepted, wire.StateRunning, func(k Key) error { _, err := j.Start(k, "s"); return err }),
			"cancel":      step(wire.StateRunning, wire.StateRunning, func(k Key) error { _, err := j.RequestCancel(k); return err }),
			"finish":      step(wire.StateRunning, wire.StateFinished, func(k Key) error { _, err := j.Finish(k, done("x")); return err }),
			"recorded": func(t *rapid.T) {
				k := pick(t)
				err := j.Recorded(k)
				switch {
				case model[k] == "":
					require.ErrorIs(t, err, ErrUnknown)
				case !model[k].Ended():
					require.ErrorIs(t, err, ErrState)
				default:
					require.NoError(t, err)
					recorded[k] = true
				}
			},
			"crash": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "kill") { // what would not have reached the disk
					for _, m := range j.feed.marks() {
						delete(recorded, m.key())
					}
					j.feed.unmark(j.feed.marks())
				}
				require.NoError(t, j.Close())
				j = open()
				assert.Equal(t, id, j.ID())
				for k, s := range model {
					if s == wire.StateRunning {
						model[k] = wire.StateFinished
					}
				}
			},
			"": func(t *rapid.T) { compare(t, j, model, recorded) },
		})
		require.NoError(t, j.Close())
	})
}

func compare(t *rapid.T, j *Journal, model map[Key]wire.State, recorded map[Key]bool) {
	kept, unrecorded := 0, 0
	for _, run := range []string{"a", "ab", "b"} {
		for n := int64(1); n <= 3; n++ {
			k := key(run, n)
			e, err := j.Get(k)
			if model[k] == "" {
				require.ErrorIs(t, err, ErrUnknown)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, model[k], e.State)
			assert.Equal(t, recorded[k], e.Recorded)
			if e.State == wire.StateFinished {
				assert.True(t, e.Envelope != nil || recorded[k], "a result nobody has is kept")
				if e.Envelope != nil && recorded[k] {
					kept++
				}
			}
			if !recorded[k] {
				unrecorded++
			}
			_, err = j.Work(k)
			assert.Equal(t, !e.State.Ended(), !errors.Is(err, ErrUnknown), "the goal is there until the end")
		}
	}
	assert.LessOrEqual(t, kept-len(j.feed.marks()), 2)
	p, err := j.Changes(0, 1<<20)
	require.NoError(t, err)
	assert.Len(t, p.Runs, unrecorded)
}
