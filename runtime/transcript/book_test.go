package transcript

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R51: what was said is there again byte by byte, in order, numbered from 1, also after the harness was started again.
func TestWhatWasSaidCanBeReadAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "transcripts")
	s := open(t, config(dir))
	b := begin(t, s)
	said := []string{`{"a" : 1.0, "a":2}`, `{"half":"\ud83d"}`, `[]`, `"é"`}
	for i, f := range said {
		e := b.Append(FromAgent, []byte(f))
		assert.Equal(t, uint64(i+1), e.Seq)
		assert.Equal(t, f, string(e.Frame))
	}
	b.Append(ToAgent, []byte(`{"id":1}`))
	check := func(b *Book) {
		t.Helper()
		assert.Equal(t, uint64(5), b.Last())
		all := read(t, b, 0, 99)
		assert.Equal(t, []string{"1 " + said[0], "2 " + said[1], "3 []", `4 "é"`, `5 {"id":1}`}, told(all))
		assert.Equal(t, FromAgent, all[3].Direction)
		assert.Equal(t, ToAgent, all[4].Direction)
		assert.Equal(t, noon, all[0].Time)
		assert.Equal(t, []string{"3 []"}, told(read(t, b, 3, 3)))
		assert.Empty(t, read(t, b, 4, 3))
		assert.Empty(t, read(t, b, 6, 9))
	}
	check(b)
	require.NoError(t, b.Sync())
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "a second time")
	check(b)
	assert.Zero(t, b.Append(FromAgent, []byte(`1`)).Seq, "a closed book keeps nothing")
	check(b)

	again := open(t, config(dir))
	found, ok := again.Find("r-uid")
	require.True(t, ok)
	want := header("r", 1)
	want.Begun = noon
	assert.Equal(t, want, found.Header())
	check(found)
	assert.NotEqual(t, b.number, begin(t, again).number, "a new one is another file")

	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dir, files(t, dir)[0]))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAReaderIsStoppedByItsOwnError(t *testing.T) {
	b := begin(t, open(t, config(t.TempDir())))
	b.Append(FromAgent, []byte(`1`))
	b.Append(FromAgent, []byte(`2`))
	enough := errors.New("enough")
	count := 0
	assert.ErrorIs(t, b.Read(1, 2, func(Entry) error { count++; return enough }), enough)
	assert.Equal(t, 1, count)
}

func TestTheNewestAttemptOfARunIsFound(t *testing.T) {
	s := open(t, config(t.TempDir()))
	var books []*Book
	for _, h := range []Header{header("a", 1), header("a", 2), header("b", 7), header("a", 2), {Session: "guest"}} {
		b, err := s.Begin(h)
		require.NoError(t, err)
		books = append(books, b)
	}
	found, ok := s.Find("a-uid")
	assert.True(t, ok)
	assert.Same(t, books[3], found)
	_, ok = s.Find("c-uid")
	assert.False(t, ok)
	_, ok = s.Find("")
	assert.False(t, ok, "a client's own session is no run's")
	assert.Equal(t, books, s.List())
	_, err := s.Begin(Header{Session: strings.Repeat("x", maxHeaderBytes)})
	assert.ErrorContains(t, err, "65536 bytes")
}

// The oldest entries make room for newer ones, and whoever reads is told how many are gone, where they were.
func TestPartsAreDroppedWithANoteInTheirPlace(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes, cfg.Parts = 1000, 3
	s := open(t, cfg)
	b := begin(t, s)
	for i := range 30 {
		b.Append(FromAgent, frame(i+1, 300)) // two a part
	}
	assert.Len(t, files(t, cfg.Dir), 3)
	all := read(t, b, 1, 30)
	gone := all[0].Seq
	assert.Equal(t, Note, all[0].Direction)
	assert.Equal(t, gone, all[0].Stands())
	assert.Equal(t, []string{`24 {"note":"dropped","entries":24}`}, told(all[:1]))
	for i, e := range all[1:] {
		assert.Equal(t, gone+1+uint64(i), e.Seq)
		assert.Equal(t, string(frame(int(e.Seq), 300)), string(e.Frame))
	}
	assert.Equal(t, []string{`9 {"note":"dropped","entries":5}`}, told(read(t, b, 5, 9)))

	require.NoError(t, b.Close())
	found, ok := open(t, cfg).Find("r-uid")
	require.True(t, ok)
	assert.Equal(t, told(all), told(read(t, found, 1, 30)), "the same after a new start")
}

// A reader in the middle of a part that is dropped meanwhile reads it to its end; what is dropped beyond that is a Note.
func TestAReaderSurvivesThatItsPartIsDropped(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes, cfg.Parts = 1000, 2
	b := begin(t, open(t, cfg))
	for i := range 4 {
		b.Append(FromAgent, frame(i+1, 300))
	}
	var got []Entry
	require.NoError(t, b.Read(1, 4, func(e Entry) error {
		if got = append(got, e); e.Seq == 1 {
			for i := range 20 {
				b.Append(FromAgent, frame(i+5, 300))
			}
		}
		return nil
	}))
	assert.Equal(t, []string{"1 " + string(frame(1, 300)), "2 " + string(frame(2, 300)), `4 {"note":"dropped","entries":2}`}, told(got))
}

func TestALongEntryHasAPartToItself(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes, cfg.Parts = 1000, 4
	b := begin(t, open(t, cfg))
	b.Append(FromAgent, frame(1, 10))
	b.Append(FromAgent, frame(2, 3500))
	b.Append(FromAgent, frame(3, 10))
	all := read(t, b, 1, 3)
	assert.Equal(t, []string{`1 {"note":"dropped","entries":1}`, "2 " + string(frame(2, 3500)), "3 " + string(frame(3, 10))}, told(all), "its bytes count")
}

// A part that was longer than others counts until it is dropped, also while the next one grows.
func TestAllPartsTogetherAreBounded(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes, cfg.Parts = 1000, 2
	b := begin(t, open(t, cfg))
	b.Append(FromAgent, frame(1, 1200))
	b.Append(FromAgent, frame(2, 20))
	assert.Len(t, read(t, b, 1, 2), 2)
	b.Append(FromAgent, frame(3, 300))
	assert.Equal(t, `1 {"note":"dropped","entries":1}`, told(read(t, b, 1, 3))[0])
	assert.LessOrEqual(t, b.size(), int64(2000))
}

// SPEC.md, Harness: messages of up to 64 MiB are kept whole.
func TestALongFrameIsKeptAndATooLongOneIsNoted(t *testing.T) {
	s := open(t, config(t.TempDir()))
	assert.Equal(t, 64<<20, s.longest)
	s.longest = 1 << 20
	b := begin(t, s)
	big := frame(1, s.longest-len(frame(1, 0)))
	b.Append(FromAgent, big)
	b.Append(FromAgent, append(slices.Clone(big), big...)[:len(big)+1])
	b.Append(FromAgent, []byte(`{}`))
	all := read(t, b, 1, 3)
	assert.Equal(t, []string{"1 " + string(big), `2 {"note":"too long","entries":1}`, "3 {}"}, told(all))
}

// A store is bounded: the oldest closed transcripts go first, then the oldest parts of open ones; an open one is never removed.
func TestTheStoreIsBounded(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes, cfg.Parts, cfg.MaxBytes, cfg.MaxBooks = 1000, 8, 10_000, 4
	s := open(t, cfg)
	first := begin(t, s)
	first.Append(FromAgent, []byte(`"first"`))
	var closed []*Book
	for range 6 {
		b := begin(t, s)
		b.Append(FromAgent, []byte(`"x"`))
		require.NoError(t, b.Close())
		closed = append(closed, b)
	}
	assert.Equal(t, []*Book{first, closed[3], closed[4], closed[5]}, s.List(), "by number")
	assert.Equal(t, []string{`1 {"note":"dropped","entries":1}`}, told(read(t, closed[0], 1, 1)))

	second := begin(t, s)
	for i := range 20 {
		first.Append(FromAgent, frame(i, 600))
		second.Append(FromAgent, frame(i, 600))
	}
	total := int64(0)
	for _, b := range s.List() {
		total += b.size()
	}
	assert.LessOrEqual(t, total, cfg.MaxBytes)
	assert.Equal(t, []*Book{first, second}, s.List(), "the closed ones went first")
	assert.Equal(t, string(frame(19, 600)), string(read(t, first, first.Last(), first.Last())[0].Frame))
}

// Whoever follows a transcript learns of each entry, and of its end.
func TestWaitingForMore(t *testing.T) {
	b := begin(t, open(t, config(t.TempDir())))
	b.Append(FromAgent, frame(1, 0))
	assert.True(t, b.Wait(t.Context(), 0), "it is there already")
	told := make(chan bool)
	for n := uint64(1); n < 100; n++ {
		go func() { told <- b.Wait(t.Context(), n) }()
		go func() { told <- b.Wait(t.Context(), n) }()
		b.Append(ToAgent, frame(2, 0))
		assert.True(t, <-told)
		assert.True(t, <-told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { told <- b.Wait(ctx, 100) }()
	cancel()
	assert.False(t, <-told, "nobody waits any more")
	go func() { told <- b.Wait(t.Context(), 100) }()
	require.NoError(t, b.Close())
	assert.False(t, <-told, "no more will come")
	assert.False(t, b.Wait(t.Context(), 100))
	assert.True(t, b.Wait(t.Context(), 99), "what is there can be read")
}
