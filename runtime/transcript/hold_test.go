package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counted is a file that counts how often it is written to.
type counted struct {
	file
	writes *int
}

func (f counted) WriteAt(p []byte, at int64) (int, error) {
	*f.writes++
	return f.file.WriteAt(p, at)
}

func counting(s *Store) *int {
	writes, create := new(int), s.create
	s.create = func(name string) (file, error) {
		f, err := create(name)
		return counted{f, writes}, err
	}
	return writes
}

// Entries that are held are written at once: by Flush, with the next that is not held, before anybody reads, syncs or closes, and when
// there is a good deal of them.
func TestHeldEntriesAreWrittenAtOnce(t *testing.T) {
	cfg := config(t.TempDir())
	s := open(t, cfg)
	writes := counting(s)
	b := begin(t, s)
	hold := func(n int) {
		for range n {
			b.Hold(FromAgent, []byte(`"held"`))
		}
		*writes = 0
	}
	b.Append(FromAgent, []byte(`1`))
	for name, write := range map[string]func(){
		"Flush":  b.Flush,
		"Append": func() { b.Append(ToAgent, []byte(`2`)) },
		"Sync":   func() { require.NoError(t, b.Sync()) },
		"Read":   func() { read(t, b, 1, 1) },
	} {
		hold(5)
		onDisk, err := os.ReadFile(filepath.Join(cfg.Dir, onlyPart))
		require.NoError(t, err)
		write()
		assert.Equal(t, 1, *writes, name)
		write()
		assert.LessOrEqual(t, *writes, 2, name)
		content, err := os.ReadFile(filepath.Join(cfg.Dir, onlyPart))
		require.NoError(t, err)
		assert.Greater(t, len(content), len(onDisk), name)
	}
	all := read(t, b, 1, b.Last())
	for i, e := range all {
		assert.Equal(t, uint64(i)+1, e.Seq)
		assert.NotEqual(t, Note, e.Direction)
	}
	hold(0)
	for range 200 {
		b.Hold(FromAgent, frame(1, 1000))
	}
	assert.Equal(t, 200*1000/keptLine, *writes, "no more waits than may")
	hold(3)
	require.NoError(t, b.Close())
	assert.Len(t, read(t, b, 1, 9999), len(all)+203)
	assert.Zero(t, b.Lost())
}

// What is held when a part is full goes to that part, and numbers and files are those of entries that do not wait.
func TestHeldEntriesLieWhereOthersWould(t *testing.T) {
	var parts [2][]string
	for i, hold := range []bool{false, true} {
		cfg := config(t.TempDir())
		cfg.PartBytes = 1000
		b := begin(t, open(t, cfg))
		for n := range 50 {
			if f := frame(n, n*n%300); hold {
				b.Hold(FromAgent, f)
			} else {
				b.Append(FromAgent, f)
			}
		}
		b.Flush()
		for _, name := range files(t, cfg.Dir) {
			content, err := os.ReadFile(filepath.Join(cfg.Dir, name))
			require.NoError(t, err)
			parts[i] = append(parts[i], name+string(content))
		}
	}
	assert.Greater(t, len(parts[0]), 5)
	assert.Equal(t, parts[0], parts[1])
}

// A full disk loses what is held as a whole, whoever has it written, and a Note tells of all of it.
func TestHeldEntriesOfAFullDiskAreNoted(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		for name, write := range map[string]func(*Book){
			"flush": (*Book).Flush, "append": func(b *Book) { b.Append(FromAgent, []byte(`"lost"`)) },
			"part": func(b *Book) { b.Append(FromAgent, frame(0, 900)) },
			"sync": func(b *Book) { assert.NoError(t, b.Sync()) },
		} {
			t.Run(fmt.Sprint(name, ", half of it stays ", stuck), func(t *testing.T) {
				cfg, d := config(t.TempDir()), &disk{}
				cfg.PartBytes = 1000
				b := begin(t, d.under(open(t, cfg)))
				b.Append(FromAgent, []byte(`"kept"`))
				d.full, d.stuck = true, stuck
				for range 3 {
					b.Hold(FromAgent, []byte(`"lost"`))
				}
				assert.Zero(t, b.Lost())
				write(b)
				last := b.Last()
				assert.Equal(t, last-1, b.Lost())
				lost := fmt.Sprintf(`%d {"note":"lost","entries":%d}`, last, last-1)
				assert.Equal(t, []string{`1 "kept"`, lost}, told(read(t, b, 1, 99)))
				d.full, d.stuck = false, false
				b.Hold(FromAgent, []byte(`"again"`))
				want := []string{`1 "kept"`, lost, fmt.Sprintf(`%d "again"`, last+1)}
				assert.Equal(t, want, told(read(t, b, 1, 99)))
				require.NoError(t, b.Close())
				assert.Equal(t, want, told(read(t, open(t, cfg).List()[0], 1, 99)), "after a new start")
			})
		}
	}
}

// Places in a part that were remembered for what was held, and then lost, are none: who reads from the middle finds what came after.
func TestLostEntriesLeaveNoPlaceBehind(t *testing.T) {
	d := &disk{}
	b := begin(t, d.under(open(t, config(t.TempDir()))))
	b.Append(FromAgent, []byte(`"kept"`))
	d.full = true
	for range 40 {
		b.Hold(FromAgent, frame(0, 1000))
	}
	b.Flush()
	require.Equal(t, uint64(40), b.Lost())
	d.full = false
	for n := b.Last() + 1; n < 60; n++ {
		b.Append(FromAgent, frame(int(n), 100))                                                        //nolint:gosec // small
		assert.Equal(t, []string{fmt.Sprintf("%d %s", n, frame(int(n), 100))}, told(read(t, b, n, n))) //nolint:gosec // small
	}
}
