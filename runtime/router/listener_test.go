package router

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scripted is an agent's output: each read takes a time and brings so many bytes.
type scripted struct {
	clock time.Time
	after time.Duration
	bytes int
	slept []time.Duration
}

func (s *scripted) Read(p []byte) (int, error) {
	s.clock = s.clock.Add(s.after)
	return copy(p, make([]byte, s.bytes)), nil
}

func (s *scripted) Close() error { return nil }

// listen is a listener of it whose pauses are written down.
func (s *scripted) listen() *listener {
	s.clock = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	return &listener{c: &Conn{cfg: Config{In: s, Now: func() time.Time { return s.clock }, pause: func(d time.Duration) {
		s.slept = append(s.slept, d)
		s.clock = s.clock.Add(d)
	}}}}
}

func (s *scripted) read(t *testing.T, l *listener, times int) []time.Duration {
	t.Helper()
	s.slept = nil
	for range times {
		_, err := l.Read(make([]byte, 64<<10))
		require.NoError(t, err)
	}
	return s.slept
}

// A short exchange waits for nothing; who says much in quick succession is read once in gatherFor, and no less often.
func TestAnAgentThatSaysMuchIsReadNowAndThen(t *testing.T) {
	s := &scripted{after: 100 * time.Microsecond, bytes: 1 << 10}
	l := s.listen()
	assert.Empty(t, s.read(t, l, gatherAfter))
	assert.Equal(t, slices.Repeat([]time.Duration{gatherFor}, 5), s.read(t, l, 5))
	s.clock = s.clock.Add(gatherFor / 4) // what was read took so long
	assert.Equal(t, []time.Duration{gatherFor * 3 / 4}, s.read(t, l, 1))
	s.clock = s.clock.Add(gatherFor)
	assert.Empty(t, s.read(t, l, 1), "there was enough to do meanwhile")
	s.clock = s.clock.Add(-time.Hour)
	assert.Equal(t, []time.Duration{gatherFor}, s.read(t, l, 1), "the clock was set back")

	s.bytes = gatherBytes + 1
	s.read(t, l, 1)
	assert.Empty(t, s.read(t, l, 50), "there is enough at once")
	s.bytes = 1
	s.read(t, l, 1)
	assert.NotEmpty(t, s.read(t, l, 1))

	s.after = 2*gatherFor + 1
	s.read(t, l, 1)
	s.after = 0
	assert.Empty(t, s.read(t, l, gatherAfter-1), "it had been silent")
	assert.NotEmpty(t, s.read(t, l, 1))
}

// The watcher is told when it has heard all that has come, and in a long rush now and then.
func TestAWatcherIsToldWhenItHasHeardAll(t *testing.T) {
	fromR, fromW := io.Pipe()
	e := &ears{ticks: true}
	_, toW := io.Pipe()
	conn := Open(Config{In: fromR, Out: toW, Cause: func() error { return errGone }, Now: time.Now, Watcher: e, MaxLine: 2 << 10})
	say := update("s", "x") + "\n"
	for _, text := range []string{
		say, say + say, say + "\n", say + strings.Repeat("x", 3<<10) + "\n", strings.Repeat(say, toldAtOnce+1), say + say[:20], say[20:] + say[:len(say)-1],
	} {
		_, err := io.WriteString(fromW, text)
		require.NoError(t, err)
	}
	require.NoError(t, fromW.Close())
	<-conn.Done()
	heard := strings.ReplaceAll(strings.Join(e.heard, ""), "<session/update s", "x")
	assert.Equal(t, "x."+"xx."+"x."+"x."+strings.Repeat("x", toldAtOnce)+".x."+"x."+"x."+"x.", heard)
}
