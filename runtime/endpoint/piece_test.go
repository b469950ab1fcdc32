package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/attach"
)

// cable is a connection that writes down each write.
type cable struct {
	net.Conn
	writes []string
	err    error
}

func (w *cable) SetWriteDeadline(time.Time) error { return nil }

func (w *cable) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.writes = append(w.writes, string(p))
	return len(p), nil
}

func (w *cable) take() []string {
	all := w.writes
	w.writes = nil
	return all
}

// What is held is written in pieces, in order, and nothing of it is kept back by its release.
func TestALineHoldsAPieceAtMost(t *testing.T) {
	w := &cable{}
	l := &line{Conn: w, now: time.Now}
	put := func(text string) {
		n, err := l.Write([]byte(text))
		require.NoError(t, err)
		assert.Len(t, text, n)
	}
	put("at once")
	assert.Equal(t, []string{"at once"}, w.take())
	require.NoError(t, l.release())
	for range 2 {
		l.hold(math.MaxInt)
		put("a")
		l.hold(math.MaxInt)
		put("b")
		assert.Empty(t, w.take())
		require.NoError(t, l.release())
		assert.Equal(t, []string{"ab"}, w.take())
	}
	put("at once")
	assert.Equal(t, []string{"at once"}, w.take(), "nothing is held any more")

	l.hold(math.MaxInt)
	rest := strings.Repeat("x", pieceBytes-1)
	put("a")
	put(rest)
	assert.Empty(t, w.take())
	put("b")
	assert.Equal(t, []string{"a" + rest}, w.take())
	long := strings.Repeat("y", pieceBytes+1)
	put(long)
	assert.Equal(t, "b"+long, strings.Join(w.take(), ""))
	require.NoError(t, l.release())
	assert.Empty(t, w.take())

	for range 2 {
		l.hold(math.MaxInt)
		put("a")
		l.hold(3)
		put("bc")
		assert.Empty(t, w.take())
		put("de")
		assert.Equal(t, []string{"abcde"}, w.take(), "what is left was written")
		put("at once")
		assert.Equal(t, []string{"at once"}, w.take(), "nothing is held any more")
	}
	l.hold(math.MaxInt)
	put("a")
	l.hold(len(long))
	put(long)
	assert.Equal(t, "a"+long, strings.Join(w.take(), ""))
	put("at once")
	assert.Equal(t, []string{"at once"}, w.take(), "nothing is held any more")

	w.err = errors.New("gone")
	l.hold(math.MaxInt)
	put("a")
	l.hold(1)
	_, err := l.Write([]byte("b"))
	require.ErrorIs(t, err, w.err, "who writes what is held has the error")
	l.hold(math.MaxInt)
	put("a")
	require.ErrorIs(t, l.release(), w.err)
	l.hold(math.MaxInt)
	put(rest)
	_, err = l.Write([]byte("bc"))
	require.ErrorIs(t, err, w.err)
	w.err = nil
	require.NoError(t, l.release())
	assert.Empty(t, w.take(), "what could not be written is not repeated")
}

// taken is a ResponseWriter whose connection is one end of a pipe.
type taken struct {
	http.ResponseWriter
	header http.Header
	conn   net.Conn
}

func (w *taken) Header() http.Header { return w.header }

func (w *taken) WriteHeader(status int) {
	_, _ = fmt.Fprintf(w.conn, "HTTP/1.1 %d \r\n\r\n", status)
}

func (w *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

// upgrade is the request with which a WebSocket begins.
func upgrade(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/acp", nil)
	require.NoError(t, err)
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="} {
		r.Header.Set(name, value)
	}
	return r
}

// A ping that falls into a stall waits for its turn and no longer than it may; the client, who has longer, stays. The library closes a
// connection on which a ping has begun to be written and could not be.
func TestAPingThatFallsIntoAStallEndsNothing(t *testing.T) {
	h := newHouse()
	e := New(Config{Clients: h, Log: slog.New(slog.DiscardHandler), Now: time.Now, pace: usual})
	ours, theirs := net.Pipe()
	r := upgrade(t)
	in, err := e.guests.enter(r, attach.View, byWebSocket)
	require.NoError(t, err)
	v := h.await(t)
	s := &socket{guest: in, pace: usual, line: &line{now: time.Now, stall: usual.stall}, written: make(chan struct{})}
	chunk := make([]byte, 1<<20)
	accepted := make(chan error)
	go func() {
		var err error
		s.conn, err = websocket.Accept(&takeover{&taken{header: http.Header{}, conn: theirs}, s.line}, r, nil)
		accepted <- err
	}()
	_, err = ours.Read(chunk)
	require.NoError(t, err)
	require.NoError(t, <-accepted)
	go s.write()
	for _, text := range []string{"1", strings.Repeat("x", pieceBytes/2), strings.Repeat("x", 2*pieceBytes)} {
		v.say("", text)
		_, err = ours.Read(chunk[:1]) // so the rest is being written
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, s.conn.Ping(ctx), context.DeadlineExceeded)
		cancel()
		for rest := len(text); rest > 0; {
			n, err := ours.Read(chunk)
			require.NoError(t, err, "%d bytes were not read before", rest)
			rest -= n
		}
	}
	in.end(errLeft)
	<-s.written
	require.NoError(t, ours.Close())
	_ = s.conn.CloseNow()
	e.guests.leave(in)
}

// A ping that waits behind a long message is written when there is little time left for its pong. That it is late says nothing.
func TestAPingThatWaitedBehindAMessageIsNoSignOfDeath(t *testing.T) {
	t.Parallel()
	h := newHouse()
	p := rapid()
	p.ping, p.pong = 10*time.Millisecond, 2*time.Second
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	tight(t, e)
	conn := raw(t, e.Addr(), viewKey)
	v := h.await(t)
	const size = 16 << 20 // more than any buffer on the way
	v.say("s", strings.Repeat("x", size))
	time.Sleep(p.pong * 3 / 2) // one ping was waited for in vain, and half of the time for the next one is over
	_, err := io.CopyN(io.Discard, conn, size)
	require.NoError(t, err)
	time.Sleep(p.pong * 3 / 4) // and now all of it
	_, err = io.WriteString(conn, frame(fin|textual, "still here"))
	require.NoError(t, err)
	assert.Equal(t, "still here", v.heard(t))
}

// Messages that wait for a client are written in one piece, the next one by itself, and so is what waits when the connection ends.
func TestMessagesThatWaitAreWrittenAtOnce(t *testing.T) {
	h := newHouse()
	e := New(Config{Clients: h, Log: slog.New(slog.DiscardHandler), Now: time.Now, pace: rapid()})
	ours, theirs := net.Pipe()
	r := upgrade(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		e.socket(&taken{header: http.Header{}, conn: theirs}, r, attach.View)
	}()
	v := h.await(t)
	var want bytes.Buffer
	for i := range 10 {
		text := fmt.Sprintf(`{"n":%d}`, i)
		v.say("", text)
		want.WriteString("\x81" + string(rune(len(text))) + text) // a text frame
	}
	chunk := make([]byte, 1<<20)
	next := func() string { // a write of the other side, of which there is no part that is not read
		n, err := ours.Read(chunk)
		require.NoError(t, err)
		return string(chunk[:n])
	}
	assert.Contains(t, next(), "101")
	assert.Equal(t, want.String(), next())
	v.say("", "alone")
	assert.Equal(t, "\x81\x05alone", next())
	require.NoError(t, ours.Close())
	<-over
}

// slow is a connection whose peer sees it read a little at a time.
type slow struct{ *net.TCPConn }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(40 * time.Millisecond)
	return s.TCPConn.Read(p[:min(len(p), pieceBytes)])
}

// A slow client takes a long message in pieces: no piece for long, the message, of 128 of them, for longer than any limit, and answers no
// ping meanwhile.
func TestAClientThatReadsSlowlyStays(t *testing.T) {
	t.Parallel()
	h := newHouse()
	p := rapid()
	p.ping, p.pong, p.stall = 10*time.Millisecond, 2*time.Second, 3*time.Second
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	tight(t, e)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s := slow{conn.(*net.TCPConn)}
		return s, s.SetReadBuffer(2 * pieceBytes)
	}}
	conn, _, err := websocket.Dial(t.Context(), "ws://"+e.Addr()+PathACP+"?token="+viewKey, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}}) //nolint:bodyclose // websocket.Dial says that it needs no closing
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	v := h.await(t)
	const size = 128 * pieceBytes
	v.say("s", strings.Repeat("x", size))
	v.say("s", "end")
	assert.Len(t, read(t, conn), size)
	assert.Equal(t, "end", read(t, conn))
}
