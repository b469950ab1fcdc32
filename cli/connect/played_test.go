package connect

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute // for what comes when it comes

// played is an endpoint of which a test plays every message.
type played struct {
	t     *testing.T
	url   string
	conns chan *websocket.Conn
}

func newPlayed(t *testing.T) *played {
	t.Helper()
	f := &played{t: t, conns: make(chan *websocket.Conn)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Secret-Key") != "the-key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		conn.SetReadLimit(maxFrameSize)
		f.conns <- conn
	}))
	t.Cleanup(server.Close)
	f.url = "ws" + strings.TrimPrefix(server.URL, "http") + "/acp"
	return f
}

// life is one connection, from the endpoint's side.
type life struct {
	t    *testing.T
	conn *websocket.Conn
}

func (f *played) next() *life {
	f.t.Helper()
	select {
	case conn := <-f.conns:
		f.t.Cleanup(func() { _ = conn.CloseNow() })
		return &life{f.t, conn}
	case <-time.After(patience):
		require.Fail(f.t, "nobody dials")
		return nil
	}
}

func (l *life) read() string {
	l.t.Helper()
	kind, message, err := l.conn.Read(l.t.Context())
	require.NoError(l.t, err)
	require.Equal(l.t, websocket.MessageText, kind)
	return string(message)
}

func (l *life) write(messages ...string) {
	l.t.Helper()
	for _, m := range messages {
		require.NoError(l.t, l.conn.Write(l.t.Context(), websocket.MessageText, []byte(m)))
	}
}

func (l *life) drop(code websocket.StatusCode) { _ = l.conn.Close(code, "so the test says") }

// editor is a client that started hearth connect.
type editor struct {
	t      *testing.T
	stdin  *io.PipeWriter
	out    *bufio.Reader
	stdout *io.PipeReader
	ended  chan struct{}
	err    error

	mu   sync.Mutex
	said []string
}

func (f *played) bridge(retryFor time.Duration) *editor {
	f.t.Helper()
	return start(f.t, endpoint{url: f.url, key: func() (string, error) { return "the-key", nil }}, retryFor)
}

func start(t *testing.T, target Target, retryFor time.Duration) *editor {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	e := &editor{t: t, stdin: stdin, stdout: stdout, out: bufio.NewReader(stdout), ended: make(chan struct{})}
	b := &Bridge{Target: target, RetryFor: retryFor, Say: func(format string, args ...any) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.said = append(e.said, fmt.Sprintf(format, args...))
	}}
	go func() {
		defer close(e.ended)
		e.err = b.Run(t.Context(), in, out)
		_ = out.Close()
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = stdout.Close()
		<-e.ended
	})
	return e
}

func (e *editor) write(lines ...string) {
	e.t.Helper()
	for _, line := range lines {
		_, err := io.WriteString(e.stdin, line+"\n")
		require.NoError(e.t, err)
	}
}

func (e *editor) read() string {
	e.t.Helper()
	line, err := e.out.ReadString('\n')
	require.NoError(e.t, err)
	return strings.TrimSuffix(line, "\n")
}

func (e *editor) told() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.said, "\n")
}

func (e *editor) end() error {
	e.t.Helper()
	select {
	case <-e.ended:
		return e.err
	case <-time.After(patience):
		require.Fail(e.t, "it does not end")
		return nil
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"x":[1,2]}}}}`
	initialized = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`
)

// opened is a connection that said initialize and has session s1.
func (f *played) opened(e *editor) *life {
	f.t.Helper()
	l := f.next()
	e.write(initialize)
	require.Equal(f.t, initialize, l.read())
	l.write(initialized)
	require.Equal(f.t, initialized, e.read())
	e.write(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	l.read()
	l.write(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}`)
	e.read()
	return l
}

// again is the next connection, up to the answer to initialize.
func (f *played) again() *life {
	f.t.Helper()
	l := f.next()
	asked, err := scan([]byte(l.read()))
	require.NoError(f.t, err)
	require.Equal(f.t, "initialize", asked.method)
	assert.Equal(f.t, `{"protocolVersion":1,"clientCapabilities":{"_meta":{"x":[1,2]}}}`, string(asked.params), "the client's own params")
	l.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1}}`, asked.id))
	return l
}

// loading reads session/load and returns its id.
func (l *life) loading() string {
	l.t.Helper()
	asked, err := scan([]byte(l.read()))
	require.NoError(l.t, err)
	require.Equal(l.t, "session/load", asked.method)
	assert.Equal(l.t, `{"sessionId":"s1","cwd":"/w","mcpServers":[]}`, string(asked.params))
	return string(asked.id)
}

func chunk(text string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
}

func echoed(text string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"user_message_chunk","_meta":{"hearth":{}},"content":{"text":"` + text + `", "type":"text"}}}}`
}

func prompt(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"%s"}]}}`, id, text)
}
