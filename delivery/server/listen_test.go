package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// listen serves a house on loopback and returns its address.
func (h *house) listen() string {
	h.t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(h.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(ctx, l) }()
	h.t.Cleanup(func() {
		cancel()
		assert.NoError(h.t, <-served)
	})
	return l.Addr().String()
}

// dial connects as the scheme wants it.
func (h *house) dial(address string) net.Conn {
	h.t.Helper()
	conn, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", address)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	if h.config.Scheme == wire.SchemeHTTP {
		return conn
	}
	secure := tls.Client(conn, pinned.Client(h.keys))
	require.NoError(h.t, secure.HandshakeContext(h.t.Context()))
	return secure
}

// over sends a call through a real connection and verifies the answer.
func (h *house) over(address string, c call) answer {
	h.t.Helper()
	r, asked := h.request(c)
	out, err := http.NewRequestWithContext(h.t.Context(), c.method, "http://"+address+c.target, bytes.NewReader(c.body))
	require.NoError(h.t, err)
	out.Host, out.Header = r.Host, r.Header
	if c.chunked {
		out.ContentLength, out.Body = -1, io.NopCloser(bytes.NewReader(c.body))
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return h.dial(address), nil }}
	response, err := transport.RoundTrip(out)
	require.NoError(h.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	require.NoError(h.t, response.Body.Close())
	assert.True(h.t, h.keys.VerifyAnswer(asked, response.StatusCode, body, response.Header.Get(wire.HeaderAnswer)))
	return answer{status: response.StatusCode, header: response.Header, body: body}
}

// SPEC.md, Confidentiality: TLS is the default; somebody who speaks plain HTTP to it is told so and reads nothing of ours, and
// HTTP/2 is not offered. With the scheme HTTP, TLS is not spoken.
func TestTheSchemeIsKept(t *testing.T) {
	ask := func(h *house, conn net.Conn) (int, string) {
		r, _ := h.request(h.call(http.MethodGet, wire.RunsPath, nil))
		require.NoError(t, r.Write(conn))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, response.Header.Get(wire.HeaderAnswer)
	}
	secure := build(t)
	address := secure.listen()
	status, _ := ask(secure, secure.dial(address))
	assert.Equal(t, http.StatusOK, status)
	plain, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = plain.Close() }()
	status, answer := ask(secure, plain)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Empty(t, answer)
	two := pinned.Client(secure.keys)
	two.NextProtos = []string{"h2"}
	_, err = (&tls.Dialer{Config: two}).DialContext(t.Context(), "tcp", address)
	require.Error(t, err)

	open := build(t, func(c *Config) { c.Scheme = wire.SchemeHTTP })
	address = open.listen()
	status, _ = ask(open, open.dial(address))
	assert.Equal(t, http.StatusOK, status)
	_, err = (&tls.Dialer{Config: pinned.Client(open.keys)}).DialContext(t.Context(), "tcp", address)
	require.Error(t, err)

	_, err = New(Config{Identity: testIdentity, Keys: open.keys, Scheme: "ftp", Concurrency: 1, Journal: open.journal, Runner: open.actor, Now: time.Now})
	require.ErrorContains(t, err, "scheme: expected HTTPS or HTTP")
}

// SPEC.md, Strictness: the limit holds with a declared length and without, and one byte less is read.
func TestABodyOverTheLimitIsRefusedHoweverItIsSent(t *testing.T) {
	h := build(t)
	address := h.listen()
	for name, chunked := range map[string]bool{"declared": false, "chunked": true} {
		c := h.call(http.MethodPost, wire.RunsPath, nil)
		c.media, c.chunked = jsonMediaType, chunked
		c.body = bytes.Repeat([]byte(" "), wire.MaxBodyBytes+1)
		assert.Equal(t, wire.CodeTooLarge, h.over(address, c).problem(t).Code, name)
		c.body = c.body[:wire.MaxBodyBytes]
		assert.Equal(t, wire.CodeMalformed, h.over(address, c).problem(t).Code, name)
	}
	held := h.call(http.MethodGet, wire.RunsPath, nil)
	held.header.Set("Prefer", "wait=1")
	assert.Equal(t, http.StatusOK, h.over(address, held).status)
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	h := build(t)
	address := h.listen()
	conn := h.dial(address)
	_, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 2*MaxHeaderBytes))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode)
}

// A body that ends early cannot be authenticated; the answer to it is still signed and nothing was done.
func TestAnUnfinishedBodyIsNotAuthenticated(t *testing.T) {
	h := build(t)
	address := h.listen()
	r, asked := h.request(h.call(http.MethodPost, wire.RunsPath, h.delivery("run", 1)))
	conn := h.dial(address)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n%s: %s\r\n%s: %s\r\n\r\n{", wire.RunsPath, testIdentity.PodName,
		wire.HeaderChallenge, r.Header.Get(wire.HeaderChallenge), wire.HeaderProof, r.Header.Get(wire.HeaderProof))
	require.NoError(t, err)
	require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
	asked.Boot = ""
	assert.True(t, h.keys.VerifyAnswer(asked, response.StatusCode, body, response.Header.Get(wire.HeaderAnswer)))
	assert.Empty(t, h.state("run", 1))
}

// Row 27: the answer of a Pod with other keys does not verify, whatever its status.
func TestAnotherPodsAnswerDoesNotVerify(t *testing.T) {
	h := build(t)
	stranger, err := challenge.Derive([]byte(strings.Repeat("k", challenge.Length)), "former-pod-uid")
	require.NoError(t, err)
	c := h.call(http.MethodPost, wire.ChallengePath, wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID}})
	r, asked := h.request(c)
	a := serve(h, r)
	assert.Equal(t, http.StatusOK, a.status)
	assert.False(t, stranger.VerifyAnswer(asked, a.status, a.body, a.header.Get(wire.HeaderAnswer)))
}
