package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// disk is one that can be full: a write then leaves half of what it was given, and what it left may stay.
type disk struct {
	full, stuck bool
}

type fullFile struct {
	file
	disk *disk
}

func (f fullFile) WriteAt(p []byte, at int64) (int, error) {
	if f.disk.full {
		n, _ := f.file.WriteAt(p[:len(p)/2], at)
		return n, syscall.ENOSPC
	}
	return f.file.WriteAt(p, at)
}

func (f fullFile) Truncate(size int64) error {
	if f.disk.stuck {
		return syscall.EIO
	}
	return f.file.Truncate(size)
}

func (d *disk) under(s *Store) *Store {
	s.create = func(name string) (file, error) {
		f, err := s.createFile(name)
		if err != nil {
			return nil, err
		}
		return fullFile{f, d}, nil
	}
	return s
}

// Disk full is nobody's failure: numbers go on, a Note says what is lost, at once for who reads and on the disk once there is room.
func TestAFullDiskFailsNobodyAndIsNoted(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("half a line stays %v", stuck), func(t *testing.T) {
			cfg, d := config(t.TempDir()), &disk{}
			b := begin(t, d.under(open(t, cfg)))
			b.Append(FromAgent, []byte(`"kept"`))
			d.full, d.stuck = true, stuck
			assert.Equal(t, uint64(2), b.Append(FromAgent, []byte(`"a long one that is lost"`)).Seq)
			assert.Equal(t, uint64(3), b.Append(FromAgent, []byte(`"lost"`)).Seq)
			assert.Equal(t, []string{`1 "kept"`, `3 {"note":"lost","entries":2}`}, told(read(t, b, 1, 9)))
			assert.Equal(t, uint64(2), b.Lost())
			assert.Equal(t, uint64(3), b.Last())
			d.full = false
			if stuck {
				b.Append(FromAgent, []byte(`"lost, too: half a line is in the way"`))
				assert.Equal(t, []string{`1 "kept"`, `4 {"note":"lost","entries":3}`}, told(read(t, b, 1, 9)))
			}
			d.stuck = false
			last := b.Append(FromAgent, []byte(`1`)).Seq
			want := []string{`1 "kept"`, fmt.Sprintf(`%d {"note":"lost","entries":%d}`, last-1, last-2), fmt.Sprintf("%d 1", last)}
			assert.Equal(t, want, told(read(t, b, 1, 9)))
			assert.Equal(t, []string{fmt.Sprintf(`%d {"note":"lost","entries":1}`, last-1), want[2]}, told(read(t, b, last-1, last)), "of the Note what was asked for")
			require.NoError(t, b.Close())
			assert.Equal(t, want, told(read(t, open(t, cfg).List()[0], 1, 9)), "after a new start")
			content, err := os.ReadFile(filepath.Join(cfg.Dir, onlyPart))
			require.NoError(t, err)
			_, err = readAll(string(content))
			assert.NoError(t, err, "nothing of the lost ones is left")
		})
	}
}

// A transcript may begin while the disk is full, and end so.
func TestATranscriptMayBeginOnAFullDisk(t *testing.T) {
	cfg, d := config(t.TempDir()), &disk{full: true}
	b := begin(t, d.under(open(t, cfg)))
	b.Append(FromAgent, []byte(`1`))
	assert.Empty(t, files(t, cfg.Dir))
	assert.Equal(t, []string{`1 {"note":"lost","entries":1}`}, told(read(t, b, 1, 1)))
	d.full = false
	require.NoError(t, b.Sync())
	assert.Len(t, files(t, cfg.Dir), 1, "the Note")
	d.full = true
	b.Append(FromAgent, []byte(`2`))
	require.NoError(t, b.Close())
	assert.Equal(t, []string{`1 {"note":"lost","entries":1}`, `2 {"note":"lost","entries":1}`}, told(read(t, b, 1, 2)))
}

// The same on a file system that is really full.
func TestARealFullDiskIsSurvived(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small file system takes root: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	s, err := Open(config(filepath.Join(dir, "transcripts")))
	require.NoError(t, err)
	b := begin(t, s)
	write(t, filepath.Join(dir, "ballast"), strings.Repeat("x", 300<<10))
	for i := range 100 {
		require.Equal(t, uint64(i)+1, b.Append(FromAgent, frame(i+1, 10_000)).Seq)
	}
	lost := b.Lost()
	require.NotZero(t, lost)
	require.NoError(t, os.Remove(filepath.Join(dir, "ballast")))
	b.Append(FromAgent, []byte(`"again"`))
	appended := []string{}
	for i := range 100 {
		appended = append(appended, string(frame(i+1, 10_000)))
	}
	all := read(t, b, 1, 999)
	assert.Equal(t, lost, account(t, all, 1, 101, append(appended, `"again"`))[Lost])
	assert.Equal(t, `"again"`, string(all[len(all)-1].Frame))
	require.NoError(t, s.Close())
}
