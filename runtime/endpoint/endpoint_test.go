package endpoint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type log struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func open(t *testing.T, cfg Config) (*Endpoint, *log) {
	t.Helper()
	l := &log{}
	cfg.Log, cfg.Now = slog.New(slog.NewTextHandler(l, nil)), time.Now
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	e := New(cfg)
	require.NoError(t, e.Bind(t.Context()))
	t.Cleanup(func() { assert.NoError(t, e.End()) })
	return e, l
}

func TestPaths(t *testing.T) {
	e, _ := open(t, Config{})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{http.MethodGet, "/healthz", 200, ""},
		{http.MethodGet, "/acp", 401, "unauthenticated"},
		{http.MethodPost, "/acp?token=x", 401, "unauthenticated"},
		{http.MethodGet, "/", 404, "not_found"},
		{http.MethodGet, "/acp/x", 404, "not_found"},
		{http.MethodGet, "/healthz/x", 404, "not_found"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+e.Addr()+c.path, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, c.status, resp.StatusCode, c.path)
		if c.code == "" {
			continue
		}
		assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
		var problem struct {
			Status int    `json:"status"`
			Code   string `json:"code"`
			Detail string `json:"detail"`
		}
		require.NoError(t, json.Unmarshal(body, &problem))
		assert.Equal(t, c.status, problem.Status)
		assert.Equal(t, c.code, problem.Code)
		assert.NotEmpty(t, problem.Detail)
	}
}

// SPEC.md, Harness: one line in the log, with the address.
func TestBindingIsLoggedOnce(t *testing.T) {
	e, l := open(t, Config{})
	require.NoError(t, e.Bind(t.Context()))
	assert.Equal(t, 1, strings.Count(l.String(), `msg="acp: listening" addr=`+e.Addr()))
}

// R4, fault row 20: while no agent answers a connection is refused, and open ones are gone; then the same port is bound again.
func TestAClosedEndpointRefusesAndTheSamePortIsBoundAgain(t *testing.T) {
	first, _ := open(t, Config{})
	addr := first.Addr()
	require.NoError(t, first.Close())
	e, _ := open(t, Config{Addr: addr})
	for range 3 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 12))
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.NoError(t, e.Close(), "closing twice is fine")
		assert.Empty(t, e.Addr())
		_, err = io.Copy(io.Discard, conn)
		if err != nil {
			assert.ErrorContains(t, err, "reset")
		}
		require.NoError(t, conn.Close())
		_, err = new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		require.ErrorContains(t, err, "connection refused")
		require.NoError(t, e.Bind(t.Context()))
		assert.Equal(t, addr, e.Addr())
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	first, _ := open(t, Config{})
	second := New(Config{Addr: first.Addr(), Log: slog.New(slog.DiscardHandler)})
	require.EqualError(t, second.Bind(t.Context()), "acp: "+first.Addr()+" is in use by another process")
	require.NoError(t, first.Close())
	require.NoError(t, second.Bind(t.Context()), "and the next try works")
	require.NoError(t, second.End())
}

func TestAnAddressThatIsNoneIsNamed(t *testing.T) {
	e := New(Config{Addr: "nonsense", Log: slog.New(slog.DiscardHandler)})
	assert.ErrorContains(t, e.Bind(t.Context()), "acp: listen on nonsense")
}

// Fault row 40: the number of connections is bounded, and strangers who stay keep neither a probe nor the next client out. Who
// has presented a key stays.
func TestConnectionsAreBoundedAndTheNextOneGetsIn(t *testing.T) {
	e, _ := open(t, Config{MaxConnections: 3, Keys: Keys{View: "view-key"}})
	known, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = known.Close() })
	answers := bufio.NewReader(known)
	ask := func() {
		_, err := io.WriteString(known, "GET /acp HTTP/1.1\r\nHost: x\r\nX-Secret-Key: view-key\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusNotImplemented, response.StatusCode)
	}
	ask()
	defer ask()
	var conns []net.Conn
	for range 6 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
		require.NoError(t, err, "a probe connects")
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 12))
		require.NoError(t, err, "and is answered")
		conns = append(conns, c)
	}
	for _, c := range conns[:4] {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(idleTimeout/4)), "well before any timeout of the endpoint would do it")
		_, err := io.Copy(io.Discard, c)
		if err != nil {
			assert.ErrorContains(t, err, "reset")
		}
	}
	for _, c := range conns[4:] {
		_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, c)
		require.NoError(t, err, "the newest two are still served")
	}
}

// Row 40: a request whose body never comes is answered and gone at once; it does not stay, headers and all, until its time is over.
func TestABodyIsNotWaitedFor(t *testing.T) {
	e, _ := open(t, Config{})
	for name, head := range map[string]string{"declared": "Content-Length: 9", "chunked": "Transfer-Encoding: chunked"} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(readTimeout/2)))
		_, err = io.WriteString(c, "POST /acp HTTP/1.1\r\nHost: x\r\n"+head+"\r\n\r\n")
		require.NoError(t, err)
		said, err := io.ReadAll(c)
		require.NoError(t, err, name)
		assert.Contains(t, string(said), " 401 ", name)
		require.NoError(t, c.Close())
	}
}
