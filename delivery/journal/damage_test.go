package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// Row 18: a damaged journal is never read as empty under its old ID. It is moved aside, loudly, and another ID begins.
func TestADamagedFileIsMovedAsideAndAnotherJournalBegins(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"empty":    func(t *testing.T, path string) { writeFile(t, path, nil) },
		"garbage":  func(t *testing.T, path string) { writeFile(t, path, []byte("not a journal")) },
		"zeroes":   func(t *testing.T, path string) { writeFile(t, path, make([]byte, 65536)) },
		"torn":     func(t *testing.T, path string) { b := readFile(t, path); writeFile(t, path, b[:len(b)/4]) },
		"one page": func(t *testing.T, path string) { writeFile(t, path, readFile(t, path)[:4096]) },
		"no ID": func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyID) })
		},
		"an attempt missing": func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(bucketAttempts).Delete(key("a", 1).bytes()) })
		},
		"an attempt changed": func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(bucketAttempts).Put(key("a", 1).bytes(), []byte("0000{}")) })
		},
		"an empty database": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			edit(t, path, func(*bbolt.Tx) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryTempDir(t)
			j := mustOpen(t, dir)
			id := j.ID()
			finish(t, j, key("a", 1), "x")
			require.NoError(t, j.Close())
			damage(t, journalFile(dir))

			log, lines := logged(t)
			j = mustOpen(t, dir, func(cfg *Config) { cfg.Log = log })
			assert.NotEqual(t, id, j.ID())
			_, err := j.Get(key("a", 1))
			require.ErrorIs(t, err, ErrUnknown)
			assert.Contains(t, lines.String(), "level=ERROR")
			aside, err := filepath.Glob(journalFile(dir) + ".damaged-*")
			require.NoError(t, err)
			assert.Len(t, aside, 1)
			finish(t, j, key("a", 2), "the new one works")
		})
	}
}

func edit(t *testing.T, path string, change func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(change))
	require.NoError(t, db.Close())
}

// Row 18: a data directory that was emptied is another journal too.
func TestALostFileIsAnotherJournal(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	id := j.ID()
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(journalFile(dir)))
	assert.NotEqual(t, id, mustOpen(t, dir).ID())
}

func TestOnlyTheNewestDamagedFilesAreKept(t *testing.T) {
	dir, c := memoryTempDir(t), newClock()
	for range maxAside + 2 {
		j := mustOpen(t, dir, func(cfg *Config) { cfg.Now = c.Now })
		require.NoError(t, j.Close())
		writeFile(t, journalFile(dir), nil)
		c.advance(time.Second)
	}
	aside, err := filepath.Glob(journalFile(dir) + ".damaged-*")
	require.NoError(t, err)
	assert.Len(t, aside, maxAside)
}

// A trouble of the system is not a damaged file: nothing is moved.
func TestAnUnreadableFileIsNotTakenForDamaged(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	require.NoError(t, j.Close())
	require.NoError(t, os.Rename(journalFile(dir), journalFile(dir)+".real"))
	require.NoError(t, os.Mkdir(journalFile(dir), 0o700))
	_, err := Open(Config{Dir: dir, Now: newClock().Now})
	require.Error(t, err)
	require.NotErrorIs(t, err, errDamaged)
	assert.DirExists(t, journalFile(dir))
}

// Row 18: a file cut anywhere, or with a bit turned anywhere, is either noticed or holds exactly what it held.
func TestNoCutAndNoTurnedBitIsReadAsSomethingElse(t *testing.T) {
	dir := memoryTempDir(t)
	j := mustOpen(t, dir)
	for i := range 6 {
		finish(t, j, key(fmt.Sprintf("run-%d", i), 1), "some output")
	}
	require.NoError(t, j.Recorded(key("run-0", 1)))
	_, err := j.Accept(request("waiting", 1))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	whole := readFile(t, journalFile(dir))
	want, err := dump(journalFile(dir))
	require.NoError(t, err)

	path := filepath.Join(memoryTempDir(t), "copy.db")
	check := func(what string, b []byte) bool {
		writeFile(t, path, b)
		got, err := dump(path)
		if err != nil {
			assert.ErrorIs(t, err, errDamaged, what)
			return false
		}
		same := want == got // not assert.Equal: the difference is long, and the place says enough
		return assert.True(t, same, what)
	}
	noticed := 0
	for at := 0; at < len(whole); at += 509 {
		if !check(fmt.Sprintf("cut at %d", at), whole[:at]) {
			noticed++
		}
	}
	for at := 0; at < len(whole); at += 97 {
		turned := append([]byte{}, whole...)
		turned[at] ^= 1 << (at % 8)
		if !check(fmt.Sprintf("bit turned at %d", at), turned) {
			noticed++
		}
	}
	assert.Positive(t, noticed)
}
