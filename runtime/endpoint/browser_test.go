package endpoint

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a client of streamable HTTP, of one version of HTTP.
type browser struct {
	t          *testing.T
	url, key   string
	transport  *http.Transport
	connection string
}

func newBrowser(t *testing.T, e *Endpoint, key string, second bool) *browser {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!second)
	protocols.SetUnencryptedHTTP2(second)
	b := &browser{t: t, url: "http://" + e.Addr() + PathACP, key: key, transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(b.transport.CloseIdleConnections)
	return b
}

// do sends a request with the connection's id, unless the headers say otherwise.
func (b *browser) do(method, body string, headers ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url, strings.NewReader(body))
	require.NoError(b.t, err)
	r.Header.Set(HeaderKey, b.key)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	if b.connection != "" {
		r.Header.Set(HeaderConnection, b.connection)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.transport.RoundTrip(r)
	require.NoError(b.t, err)
	return response
}

func (b *browser) status(method, body string, headers ...string) int {
	b.t.Helper()
	response := b.do(method, body, headers...)
	text, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	if response.StatusCode >= http.StatusBadRequest {
		assert.Equal(b.t, "application/problem+json", response.Header.Get("Content-Type"))
		assert.NotContains(b.t, string(text), b.key)
	}
	return response.StatusCode
}

// initialize begins a connection, and lets the visitor answer.
func (b *browser) initialize(h *house) *visitor {
	b.t.Helper()
	const question, answer = `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":"a","result":{"x": 1}}`
	coming := make(chan *visitor, 1)
	go func() {
		v := <-h.in
		v.say("", answer)
		coming <- v
	}()
	response := b.do(http.MethodPost, question)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, response.StatusCode, string(body))
	assert.Equal(b.t, answer, string(body))
	assert.Equal(b.t, "application/json", response.Header.Get("Content-Type"))
	b.connection = response.Header.Get(HeaderConnection)
	require.NotEmpty(b.t, b.connection)
	v := <-coming
	assert.Equal(b.t, question, v.heard(b.t))
	return v
}

// reading is an open stream.
type reading struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Reader
}

func (b *browser) stream(session string) *reading {
	b.t.Helper()
	headers := []string{"Accept", "application/json, text/event-stream"}
	if session != "" {
		headers = append(headers, HeaderSession, session)
	}
	response := b.do(http.MethodGet, "", headers...)
	require.Equal(b.t, http.StatusOK, response.StatusCode)
	assert.Equal(b.t, "text/event-stream", response.Header.Get("Content-Type"))
	b.t.Cleanup(func() { _ = response.Body.Close() })
	return &reading{b.t, response.Body, bufio.NewReader(response.Body)}
}

// event is the next message; comments are passed over.
func (r *reading) event() string {
	r.t.Helper()
	for {
		line, err := r.lines.ReadString('\n')
		require.NoError(r.t, err, line)
		if data, is := strings.CutPrefix(line, "data: "); is {
			return strings.TrimSuffix(data, "\n")
		}
		require.True(r.t, line == "\n" || strings.HasPrefix(line, ":"), line)
	}
}

// rest is all that comes until the stream ends.
func (r *reading) rest() string {
	r.t.Helper()
	text, err := io.ReadAll(r.lines)
	require.NoError(r.t, err)
	return string(text)
}

func versions(t *testing.T, test func(t *testing.T, second bool)) {
	t.Helper()
	for name, second := range map[string]bool{"HTTP 1.1": false, "HTTP 2": true} {
		t.Run(name, func(t *testing.T) { test(t, second) })
	}
}
