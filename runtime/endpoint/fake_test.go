package endpoint

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/attach"
)

const (
	viewKey  = "the-view-key-the-view-key-the-view-key"
	steerKey = "the-steer-key-the-steer-key-the-steer-key"
	patience = time.Minute // for what comes when it comes
)

var keys = Keys{View: viewKey, Steer: steerKey}

// house is Clients of a test.
type house struct {
	full error
	news string        // what everybody is told who comes
	in   chan *visitor // those who connected
}

func newHouse() *house { return &house{in: make(chan *visitor, 1000)} }

// visitor is one client as the house sees it.
type visitor struct {
	access   attach.Access
	received chan []byte
	outbox   chan attach.Message
	gone     chan struct{} // closed when the transport says that the client is gone

	mu  sync.Mutex
	err error
	out chan struct{} // closed with err
}

func (h *house) Connect(access attach.Access) (Client, error) {
	if h.full != nil {
		return nil, h.full
	}
	v := &visitor{access: access, received: make(chan []byte, 1000), outbox: make(chan attach.Message, 1000), gone: make(chan struct{}), out: make(chan struct{})}
	if h.news != "" {
		v.say("", h.news)
	}
	h.in <- v
	return v, nil
}

func (h *house) await(t *testing.T) *visitor {
	t.Helper()
	select {
	case v := <-h.in:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nobody connected")
		return nil
	}
}

func (v *visitor) Receive(message []byte) { v.received <- message }

func (v *visitor) Next(ctx context.Context) (attach.Message, error) {
	select { // what waits comes first, as from a hub
	case m := <-v.outbox:
		return m, nil
	default:
	}
	select {
	case m := <-v.outbox:
		return m, nil
	case <-v.out:
		return attach.Message{}, v.err
	case <-ctx.Done():
		return attach.Message{}, ctx.Err()
	}
}

func (v *visitor) More() bool { return len(v.outbox) > 0 }

func (v *visitor) Close() { close(v.gone) }

// expel makes Next fail.
func (v *visitor) expel(why string) {
	v.err = errors.New(why)
	close(v.out)
}

func (v *visitor) say(session, text string) {
	v.outbox <- attach.Message{Session: session, Data: []byte(text)}
}

func (v *visitor) heard(t *testing.T) string {
	t.Helper()
	select {
	case m := <-v.received:
		return string(m)
	case <-time.After(patience):
		require.FailNow(t, "no message came")
		return ""
	}
}

func (v *visitor) left(t *testing.T) {
	t.Helper()
	select {
	case <-v.gone:
	case <-time.After(patience):
		require.FailNow(t, "the client is still there")
	}
}

// dial attaches by WebSocket.
func dial(t *testing.T, e *Endpoint, key string) *websocket.Conn {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), "ws://"+e.Addr()+PathACP, &websocket.DialOptions{HTTPHeader: http.Header{HeaderKey: {key}}}) //nolint:bodyclose // websocket.Dial says that it needs no closing
	require.NoError(t, err)
	assert.NotEmpty(t, response.Header.Get(HeaderConnection))
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func read(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	kind, data, err := conn.Read(ctx)
	require.NoError(t, err)
	assert.Equal(t, websocket.MessageText, kind)
	return string(data)
}

func write(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
}

// closed waits for the close frame.
func closed(t *testing.T, conn *websocket.Conn) websocket.CloseError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, _, err := conn.Read(ctx)
		if err == nil {
			continue
		}
		var ce websocket.CloseError
		require.ErrorAs(t, err, &ce)
		return ce
	}
}

// raw upgrades by hand, for what no client library does.
func raw(t *testing.T, address, key string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET /acp HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nX-Secret-Key: "+key+"\r\n\r\n")
	require.NoError(t, err)
	var head []byte
	for one := make([]byte, 1); len(head) < 4 || string(head[len(head)-4:]) != "\r\n\r\n"; head = append(head, one[0]) {
		_, err := io.ReadFull(conn, one)
		require.NoError(t, err, string(head))
	}
	require.Contains(t, string(head), "HTTP/1.1 101 ")
	return conn
}

// tight has the kernel keep little of what is written to clients that connect from now on: it would take some MiB of a message at once.
func tight(t *testing.T, e *Endpoint) {
	t.Helper()
	raw, err := e.listener.(*net.TCPListener).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, pieceBytes)
	}))
	require.NoError(t, err)
}

// frame is a client's, masked with zeros (RFC 6455, section 5.2).
func frame(first byte, payload string) string {
	head := []byte{first}
	switch n := len(payload); {
	case n < 126:
		head = append(head, 0x80|byte(n))
	case n < 1<<16:
		head = append(head, 0x80|126, byte(n>>8), byte(n))
	default:
		head = append(head, 0x80|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return string(head) + "\x00\x00\x00\x00" + payload
}

const (
	fin      = 0x80
	textual  = 0x1
	binary   = 0x2
	more     = 0x0
	pingPong = 0x9
)

// rapid is a pace for tests in which nothing is to be waited for.
func rapid() pace {
	return pace{ping: time.Hour, pong: time.Hour, stall: time.Hour, hello: time.Hour, body: time.Hour, orphan: time.Hour}
}
