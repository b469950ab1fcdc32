package dial

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving connects to a server whose side of the connection is played.
func serving(t *testing.T, every time.Duration, play func(ctx context.Context, c *websocket.Conn)) *stream {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "k", r.Header.Get("X-Secret-Key"))
		assert.Empty(t, r.URL.RawQuery, "a key in a URL would be in logs")
		c, err := websocket.Accept(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		c.SetReadLimit(-1)
		play(r.Context(), c)
	}))
	t.Cleanup(server.Close)
	e, err := ParseEndpoint(strings.Replace(server.URL, "http", "ws", 1))
	require.NoError(t, err)
	s, err := connect(t.Context(), e, "k", every)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// gone reads until the other side has left.
func gone(ctx context.Context, c *websocket.Conn) {
	for {
		if _, _, err := c.Read(ctx); err != nil {
			return
		}
	}
}

func TestMessagesAreLines(t *testing.T) {
	s := serving(t, pingEvery, func(ctx context.Context, c *websocket.Conn) {
		for _, m := range []string{"{\"a\":1}", "{\n \"b\":\r\n 2}", "", "x"} {
			assert.NoError(t, c.Write(ctx, websocket.MessageText, []byte(m)))
		}
		assert.NoError(t, c.Write(ctx, websocket.MessageBinary, []byte("no text\n")))
		assert.NoError(t, c.Write(ctx, websocket.MessageText, []byte("\xff\x00")))
		assert.NoError(t, c.Close(websocket.StatusServiceRestart, ""))
	})
	all, err := io.ReadAll(bufio.NewReaderSize(s, 16))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	assert.Equal(t, "{\"a\":1}\n{  \"b\":   2}\n\nx\n\xff\x00\n", string(all))
	assert.EqualError(t, s.why(), "the server closed it with status 1012")
}

func TestLinesAreMessages(t *testing.T) {
	big := strings.Repeat("y", 3*frameBytes+5)
	got := make(chan string, 10)
	s := serving(t, pingEvery, func(ctx context.Context, c *websocket.Conn) {
		for {
			kind, m, err := c.Read(ctx)
			if err != nil {
				close(got)
				return
			}
			assert.Equal(t, websocket.MessageText, kind)
			got <- string(m)
		}
	})
	for _, part := range []string{"one\n", "tw", "o\nthree\nfo", "ur\n", big + "\n"} {
		n, err := io.WriteString(s, part)
		require.NoError(t, err)
		assert.Equal(t, len(part), n)
	}
	for _, want := range []string{"one", "two", "three", "four", big} {
		assert.Equal(t, want, <-got)
	}
	require.NoError(t, s.Close())
	_, more := <-got
	assert.False(t, more)
	_, err := s.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = io.WriteString(s, "late\n")
	require.Error(t, err)
	assert.Equal(t, errClosed, s.why(), "the first reason counts")
	require.NoError(t, s.Close(), "twice is as good")
}

// A message of any size passes in parts: how long one may be is for the reader of lines to say.
func TestAMessageIsNotHeldInMemory(t *testing.T) {
	const size, part = 100 << 20, 1 << 20
	s := serving(t, pingEvery, func(ctx context.Context, c *websocket.Conn) {
		w, err := c.Writer(ctx, websocket.MessageText)
		assert.NoError(t, err)
		for range size / part {
			_, err := w.Write(make([]byte, part))
			assert.NoError(t, err)
		}
		assert.NoError(t, w.Close())
		gone(ctx, c)
	})
	n, buf := 0, make([]byte, 64<<10)
	for n < size+1 {
		k, err := s.Read(buf)
		require.NoError(t, err)
		n += k
	}
	assert.Equal(t, size+1, n)
}

// A server that does not answer pings is gone; one that does, or that sends, is not.
func TestPingsFindAServerThatIsGone(t *testing.T) {
	const every, long = 250 * time.Millisecond, 6 // a busy machine takes no three of them to go on
	t.Run("deaf", func(t *testing.T) {
		t.Parallel()
		over := make(chan struct{})
		s := serving(t, every, func(context.Context, *websocket.Conn) { <-over }) // never reads
		_, err := s.Read(make([]byte, 1))
		close(over)
		require.Error(t, err)
		assert.EqualError(t, s.why(), "the server answered no ping for 750ms")
	})
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		pings := atomic.Int32{}
		release := make(chan struct{})
		s := serving(t, every, func(ctx context.Context, c *websocket.Conn) {
			ctx = c.CloseRead(ctx) // answers pings
			<-release
			_ = c.Write(ctx, websocket.MessageText, []byte("still here"))
			<-ctx.Done()
		})
		time.AfterFunc(long*every, func() { pings.Add(1); close(release) })
		line, err := bufio.NewReader(s).ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "still here\n", line)
		assert.EqualValues(t, 1, pings.Load())
	})
	t.Run("sends", func(t *testing.T) {
		t.Parallel()
		s := serving(t, every, func(ctx context.Context, c *websocket.Conn) { // answers no ping, but has something to say
			for range 2 * long {
				if c.Write(ctx, websocket.MessageText, []byte("x")) != nil {
					return
				}
				time.Sleep(every / 2) // as an agent's pace
			}
			gone(ctx, c)
		})
		r := bufio.NewReader(s)
		for range 2 * long {
			_, err := r.ReadString('\n')
			require.NoError(t, err)
		}
	})
}

// The key goes to the configured address and nowhere else.
func TestARedirectIsNotFollowed(t *testing.T) {
	asked := atomic.Bool{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	t.Setenv("HTTP_PROXY", other.URL)
	e, err := ParseEndpoint(strings.Replace(server.URL, "http", "ws", 1))
	require.NoError(t, err)
	_, err = connect(t.Context(), e, "k", pingEvery)
	require.EqualError(t, err, "the server answered 307 Temporary Redirect instead of a WebSocket")
	assert.False(t, asked.Load())
}

func TestAServerThatDoesNotListenIsNamed(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	e, err := ParseEndpoint("ws://" + listener.Addr().String())
	require.NoError(t, err)
	_, err = connect(t.Context(), e, "", pingEvery)
	require.EqualError(t, err, "dial tcp "+listener.Addr().String()+": connect: connection refused")
}
