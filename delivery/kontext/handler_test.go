package kontext

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The checks come in the order of SPEC.md, Endpoints: each case spoils one thing and everything that is checked after it.
func TestRefusalsComeInTheOrderOfTheContract(t *testing.T) {
	h := build(t)
	spoils := []struct {
		name  string
		code  wire.Code
		spoil func(*http.Request)
	}{
		{"place", wire.CodeNotFound, func(r *http.Request) { r.URL.Path = wire.RunsPath }},
		{"method", wire.CodeMethodNotAllowed, func(r *http.Request) { r.Method = http.MethodPut }},
		{"challenge", wire.CodeMalformed, func(r *http.Request) { r.Header.Del(HeaderChallenge) }},
		{"Host", wire.CodeMisdirected, func(r *http.Request) { r.Host = "run-reviewer-2" }},
		{"size", wire.CodeTooLarge, nil},
		{"media type", wire.CodeUnsupportedMedia, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		{"query", wire.CodeMalformed, func(r *http.Request) { r.URL.RawQuery = "wait=1" }},
		{"version", wire.CodeUnsupportedVersion, nil},
		{"decoding", wire.CodeMalformed, nil},
		{"target", wire.CodeMisdirected, nil},
	}
	// bodies that are wrong from a check on: too large, of another version, malformed, for another target
	wrong := map[string]string{
		"size":     `{"apiVersion":"v2"` + strings.Repeat(" ", wire.MaxBodyBytes),
		"version":  `{"apiVersion":"v2","extra":1}`,
		"decoding": strings.Replace(goodBody, `"goal"`, `"extra":1,"goal"`, 1),
		"target":   strings.Replace(goodBody, "run-reviewer-1", "run-reviewer-2", 1),
	}
	later := map[string]string{"place": "size", "method": "size", "challenge": "size", "Host": "size", "media type": "version", "query": "version"}
	for i, c := range spoils {
		t.Run(c.name, func(t *testing.T) {
			body := wrong[c.name]
			if body == "" {
				body = wrong[later[c.name]]
			}
			a := h.send(t.Context(), []byte(body), func(r *http.Request) {
				for _, later := range spoils[i:] {
					if later.spoil != nil {
						later.spoil(r)
					}
				}
			})
			assert.Equal(t, c.code, a.code(t))
			assert.Equal(t, c.code.Status(), a.status)
			signature := a.header.Get(HeaderSignature)
			if c.name == "target" {
				assert.Equal(t, Sign([]byte(token), "challenge-1", "run-uid", a.body), signature, "the run is known by then")
			} else {
				assert.Empty(t, signature)
			}
			assert.NotContains(t, string(a.body), "Review")
		})
	}
	assert.Zero(t, h.actor.starts())
	_, err := h.journal.Get(journal.Key{RunUID: "run-uid", Attempt: 1})
	require.ErrorIs(t, err, journal.ErrUnknown)
}

func TestHeadersAreReadStrictly(t *testing.T) {
	h := build(t)
	h.actor.set(wire.AgentDown) // what is not refused is hung up on
	for name, c := range map[string]struct {
		spoil func(*http.Request)
		code  wire.Code // "": nothing is wrong
	}{
		"as that controller sends it": {func(*http.Request) {}, ""},
		"Host with a port":            {func(r *http.Request) { r.Host = hostname + ":8080" }, ""},
		"no Host":                     {func(r *http.Request) { r.Host = "" }, wire.CodeMisdirected},
		"Host in another case":        {func(r *http.Request) { r.Host = strings.ToUpper(hostname) }, wire.CodeMisdirected},
		"Host of an address":          {func(r *http.Request) { r.Host = "10.0.0.7:8080" }, wire.CodeMisdirected},
		"two challenges":              {func(r *http.Request) { r.Header.Add(HeaderChallenge, "challenge-2") }, wire.CodeMalformed},
		"empty challenge":             {func(r *http.Request) { r.Header.Set(HeaderChallenge, "") }, wire.CodeMalformed},
		"longest challenge":           {func(r *http.Request) { r.Header.Set(HeaderChallenge, strings.Repeat("c", MaxChallengeBytes)) }, ""},
		"challenge too long":          {func(r *http.Request) { r.Header.Set(HeaderChallenge, strings.Repeat("c", MaxChallengeBytes+1)) }, wire.CodeMalformed},
		"space in the challenge":      {func(r *http.Request) { r.Header.Set(HeaderChallenge, "a b") }, wire.CodeMalformed},
		"media type with a charset":   {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, ""},
		"no media type":               {func(r *http.Request) { r.Header.Del("Content-Type") }, wire.CodeUnsupportedMedia},
		"compressed":                  {func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, wire.CodeUnsupportedMedia},
		"without Content-Length":      {func(r *http.Request) { r.ContentLength = -1 }, ""},
		"too large, without Content-Length": {func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", wire.MaxBodyBytes+1))), -1
		}, wire.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			a := h.send(t.Context(), []byte(goodBody), c.spoil)
			if c.code == "" {
				require.Error(t, a.again, "%d %s", a.status, a.body)
				return
			}
			assert.Equal(t, c.code, a.code(t))
		})
	}
}

// A body of exactly the limit is read.
func TestABodyOfTheLimitIsRead(t *testing.T) {
	h := build(t)
	body := strings.Replace(goodBody, "Review the change.", "say:"+strings.Repeat("x", wire.MaxBodyBytes-len(goodBody)+len("Review the change.")-len("say:")), 1)
	require.Len(t, body, wire.MaxBodyBytes)
	answers := make(chan answer, 1)
	go func() { answers <- h.send(t.Context(), []byte(body)) }()
	h.begun("run-uid")
	h.actor.end <- said("read")
	assert.Equal(t, "read", (<-answers).text(t))
}

// Row 40: strangers who come and stay end no run, and keep no caller out.
func TestAFloodOfIdleConnectionsEndsNoRun(t *testing.T) {
	h := build(t)
	answers, _ := h.call("run", "Review it.")
	h.begun("run")
	for range 2 * MaxConnections {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	second, _ := h.call("run", "Review it.")
	h.callers("run", 1, 2)
	assert.Empty(t, h.actor.stop)
	h.actor.end <- said("undisturbed")
	assert.Equal(t, "undisturbed", (<-answers).text(t))
	assert.Equal(t, "undisturbed", (<-second).text(t))
}

// Row 40: what is being read is in memory for a few at a time, and a run that goes on is not disturbed by those who send it.
func TestBodiesInMemoryAreBoundedTogether(t *testing.T) {
	h := build(t)
	answers, _ := h.call("run", "Review it.")
	h.begun("run")
	const strangers = 4 * MaxStrangersBytes / wire.MaxBodyBytes
	thrownOut := make(chan struct{}, strangers)
	body := []byte("POST " + Path + " HTTP/1.1\r\nHost: " + hostname + "\r\n" + HeaderChallenge + ": c\r\nContent-Length: " +
		strconv.Itoa(wire.MaxBodyBytes) + "\r\n\r\n" + strings.Repeat("x", wire.MaxBodyBytes-1))
	for range strangers {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		go func() {
			_, err := conn.Write(body)
			if err == nil {
				_, err = io.Copy(io.Discard, conn)
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				thrownOut <- struct{}{}
			}
		}()
	}
	for range strangers - MaxStrangersBytes/wire.MaxBodyBytes {
		select {
		case <-thrownOut:
		case <-time.After(patience):
			require.Fail(t, "strangers fill the memory")
		}
	}
	assert.Empty(t, h.actor.stop)
	h.actor.end <- said("undisturbed")
	assert.Equal(t, "undisturbed", (<-answers).text(t))
}

// A caller that only closes its half of the connection has left, too.
func TestACallerThatHalfClosesHasLeft(t *testing.T) {
	h := build(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	var raw bytes.Buffer
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+hostname+Path, strings.NewReader(goodBody))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(HeaderChallenge, "c")
	require.NoError(t, r.Write(&raw))
	_, err = conn.Write(raw.Bytes())
	require.NoError(t, err)
	h.begun("run-uid")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	require.ErrorIs(t, <-h.actor.stop, server.ErrCancelled)
	_, err = bufio.NewReader(conn).ReadByte()
	require.ErrorIs(t, err, io.EOF, "hung up")
}

// A wait outlasts the read and write timeouts of the listener: their deadlines are lifted while the caller waits, and the
// answer's own is set.
func TestDeadlinesAreLiftedWhileACallerWaits(t *testing.T) {
	h := build(t)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(goodBody))
	r.Host = hostname
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(HeaderChallenge, "c")
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.server.Handler().ServeHTTP(w, r)
	}()
	h.begun("run-uid")
	h.actor.end <- said("late")
	<-done
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, []time.Time{{}}, w.read)
	require.Len(t, w.write, 2)
	assert.True(t, w.write[0].IsZero())
	assert.False(t, w.write[1].IsZero())
}

// deadlines is a ResponseWriter that notes the deadlines set on it.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = append(d.read, t); return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = append(d.write, t); return nil }

// Row 42: a panic is an answer, and the process lives.
func TestAPanicIsAnAnswer(t *testing.T) {
	h := build(t)
	panics := true
	now := h.config.Now
	h.server.cfg.Now = func() time.Time {
		if panics {
			panics = false
			panic("Review it.")
		}
		return now()
	}
	a := h.send(t.Context(), []byte(`{}`))
	assert.Equal(t, wire.CodeInternal, a.code(t))
	assert.Equal(t, wire.CodeMalformed, h.send(t.Context(), []byte(`{}`)).code(t))
	assert.Contains(t, h.log.String(), "panic in a request")
}

func TestNewRefusesWhatItCannotWorkWith(t *testing.T) {
	good := Config{Hostname: "h", Token: []byte(token), Concurrency: 1, Now: time.Now, Runner: newActor()}
	for name, c := range map[string]struct {
		edit func(*Config)
		says string
	}{
		"no hostname":    {func(c *Config) { c.Hostname = "" }, "hostname"},
		"no token":       {func(c *Config) { c.Token = nil }, "at least 32 bytes, got 0"},
		"short token":    {func(c *Config) { c.Token = []byte("short") }, "at least 32 bytes, got 5"},
		"no journal":     {func(*Config) {}, "a journal"},
		"no concurrency": {func(c *Config) { c.Concurrency = 0 }, "concurrency"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.edit(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestABrokenListenerIsAnError(t *testing.T) {
	h := build(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.ErrorContains(t, h.server.Serve(t.Context(), listener), "older contract's listener")
}

// Who reads where a request ends otherwise than its sender meant does not go on reading, and not even OPTIONS * is answered as by
// a general server.
func TestOddRequestsGetOneRefusal(t *testing.T) {
	h := build(t)
	second := "GET / HTTP/1.1\r\nHost: " + hostname + "\r\n\r\n"
	for name, c := range map[string]struct {
		raw    string
		status []int
	}{
		"two lengths": {"POST " + Path + " HTTP/1.1\r\nHost: " + hostname + "\r\n" + HeaderChallenge + ": c\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
			[]int{http.StatusUnsupportedMediaType}},
		"OPTIONS *": {"OPTIONS * HTTP/1.1\r\nHost: " + hostname + "\r\n\r\n" + second, []int{http.StatusNotFound, http.StatusNotFound}},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address)
		require.NoError(t, err)
		_, err = io.WriteString(conn, c.raw)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		answers := bufio.NewReader(conn)
		for _, status := range c.status {
			response, err := http.ReadResponse(answers, nil)
			require.NoError(t, err, name)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err, name)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, status, response.StatusCode, name)
		}
		_, err = answers.ReadByte()
		require.ErrorIs(t, err, io.EOF, name)
		require.NoError(t, conn.Close())
	}
}
