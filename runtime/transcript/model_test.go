package transcript

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// account checks that entries account for all numbers from one to another, that frames are those that were appended, and returns how
// many are missing for a reason.
func account(t assert.TestingT, entries []Entry, from, to uint64, appended []string) map[Missing]uint64 {
	missing := map[Missing]uint64{}
	next := from
	for _, e := range entries {
		if e.Direction != Note {
			assert.Equal(t, next, e.Seq)
			assert.Equal(t, appended[e.Seq-1], string(e.Frame))
			next = e.Seq + 1
			continue
		}
		for _, why := range []Missing{Dropped, Lost, Torn} {
			if string(e.Frame) == string(remark(why, e.Seq-e.Stands()+1, e.Seq, noon).Frame) {
				missing[why] += e.Stands()
			}
		}
		assert.Equal(t, e.Seq-e.Stands()+1, next, "it stands for what was asked for, and no more")
		next = e.Seq + 1
	}
	assert.Equal(t, to+1, next)
	return missing
}

// Any order of appends, full disks, syncs and new starts: what is read is what was appended, or a Note that says why not.
func TestWhateverHappensIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(tempDir(t))
		cfg.PartBytes, cfg.Parts = 600, rapid.IntRange(1, 4).Draw(t, "parts")
		d := &disk{}
		s, err := Open(cfg)
		require.NoError(t, err)
		b, err := d.under(s).Begin(header("r", 1))
		require.NoError(t, err)
		var appended []string
		lost := uint64(0)
		check := func() {
			from := rapid.Uint64Range(1, b.Last()+1).Draw(t, "from")
			to := rapid.Uint64Range(from-1, b.Last()).Draw(t, "to")
			missing := account(t, read(t, b, from, to), from, to, appended)
			if cfg.Parts > 1 && to == b.Last() && lost == 0 && from <= to {
				assert.Less(t, missing[Dropped], to-from+1, "the newest is there")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				f := string(frame(len(appended), rapid.IntRange(0, 900).Draw(t, "size")))
				appended = append(appended, f)
				if e := b.Append(FromAgent, []byte(f)); e.Seq != uint64(len(appended)) {
					t.Fatalf("number %d after %d", e.Seq, len(appended))
				}
				if lost = b.Lost(); d.full {
					assert.NotZero(t, lost)
				}
			},
			"hold": func(t *rapid.T) {
				f := string(frame(len(appended), rapid.IntRange(0, 300).Draw(t, "size")))
				appended = append(appended, f)
				if e := b.Hold(FromAgent, []byte(f)); e.Seq != uint64(len(appended)) {
					t.Fatalf("number %d after %d", e.Seq, len(appended))
				}
				lost = b.Lost()
			},
			"disk": func(t *rapid.T) {
				d.full, d.stuck = rapid.Bool().Draw(t, "full"), rapid.Bool().Draw(t, "stuck")
			},
			"sync": func(t *rapid.T) { assert.NoError(t, b.Sync()) },
			"read": func(*rapid.T) { check() },
			"": func(t *rapid.T) {
				assert.LessOrEqual(t, len(b.parts), cfg.Parts)
				if len(b.parts) > 1 {
					assert.LessOrEqual(t, b.size(), cfg.PartBytes*int64(cfg.Parts))
				}
			},
		})
		d.full, d.stuck = false, false
		assert.NoError(t, b.Sync()) // what is lost is noted now, for which older parts may be dropped
		before, last := told(read(t, b, 1, b.Last())), b.Last()
		require.NoError(t, s.Close())
		again, err := Open(cfg)
		require.NoError(t, err)
		if found, ok := again.Find("r-uid"); ok {
			assert.Equal(t, last, found.Last())
			assert.Equal(t, before, told(read(t, found, 1, last)))
		} else {
			assert.Zero(t, last)
		}
		require.NoError(t, again.Close())
	})
}

func tempDir(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "transcript")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Appending, reading, syncing, dropping and pruning at the same time, with seeds that a failure prints.
func TestManyAppendAndReadAtTheSameTime(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes, cfg.Parts, cfg.MaxBooks, cfg.MaxBytes = 20_000, 3, 4, 300_000
	s := open(t, cfg)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for round := range 5 {
				b, err := s.Begin(header(fmt.Sprintf("r%d-%d", w, round), 1))
				assert.NoError(t, err)
				var mu sync.Mutex
				var appended []string
				var inner sync.WaitGroup
				inner.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(w), uint64(round))) //nolint:gosec // small
					for i := range 400 {
						f := string(frame(i, rnd.IntN(500)))
						mu.Lock()
						appended = append(appended, f)
						b.Append(FromAgent, []byte(f))
						mu.Unlock()
					}
					assert.NoError(t, b.Close())
				})
				inner.Go(func() { // a tail
					for seen := uint64(0); seen < 400; {
						last := b.Last()
						entries := read(t, b, seen+1, last)
						mu.Lock()
						account(t, entries, seen+1, last, appended)
						mu.Unlock()
						seen = last
					}
				})
				inner.Go(func() { assert.NoError(t, b.Sync()) })
				inner.Go(func() { s.Find("r0-0-uid") })
				inner.Wait()
				assert.Zero(t, b.Lost())
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, len(s.List()), cfg.MaxBooks)
}
