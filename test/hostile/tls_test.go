package hostile

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// handshakes are attacks on the delivery port's TLS.
var handshakes = []attack{
	{name: "144 leave the handshake half done", begin: func(a *assault) {
		a.crowd(a.alone(144), a.raw, func(conn net.Conn) {
			// The client never reads what the server says, so it never finishes.
			_ = tls.Client(deaf{conn}, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}).HandshakeContext(a.ctx) //nolint:gosec // a stranger
		})
	}},
	{name: "144 records of garbage", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.alone(144), a.raw, stay("\x16\x03\x01\xff\xff"+strings.Repeat("\xa5", 1<<16)))
	}},
	{name: "144 records longer than allowed, in pieces", lasts: tick / 2, begin: func(a *assault) {
		a.crowd(a.alone(144), a.raw, a.slowly("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03"))
	}},
	{name: "20 handshakes after handshakes", lasts: tick / 4, begin: func(a *assault) {
		for range 20 {
			a.work.Go(func() {
				for a.ctx.Err() == nil {
					if conn, err := a.dial(a.delivery); err == nil {
						_ = conn.Close()
					}
				}
			})
		}
	}},
	{name: "20 records after the handshake without end", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.alone(20), a.dial, func(conn net.Conn) {
			pump("", "\x17\x03\x03\x00\x10xxxxxxxxxxxxxxxx")(conn.(*tls.Conn).NetConn())
		})
	}},
}

// deaf hears nothing until it is closed.
type deaf struct{ net.Conn }

func (d deaf) Read(p []byte) (int, error) {
	if _, err := io.Copy(io.Discard, d.Conn); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// Who does not speak TLS 1.3 and HTTP/1.1 with the delivery port is not served there.
func (p *pod) strangers(t *testing.T) {
	p.t = t
	a := &assault{pod: p, ctx: t.Context()}
	for name, config := range map[string]*tls.Config{
		"TLS 1.2": {MaxVersion: tls.VersionTLS12}, "TLS 1.0": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"only HTTP/2": {NextProtos: []string{"h2"}}, "only HTTP/1.0": {NextProtos: []string{"http/1.0"}},
		"renegotiation": {MaxVersion: tls.VersionTLS12, Renegotiation: tls.RenegotiateFreelyAsClient},
	} {
		conn, err := a.raw(p.delivery)
		require.NoError(t, err)
		config.InsecureSkipVerify = true
		assert.ErrorContains(t, tls.Client(conn, config).HandshakeContext(t.Context()), "remote error", name)
		_ = conn.Close()
	}
	conn, err := a.raw(p.delivery)
	require.NoError(t, err)
	both := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}) //nolint:gosec // a stranger
	require.NoError(t, both.HandshakeContext(t.Context()))
	assert.Equal(t, "http/1.1", both.ConnectionState().NegotiatedProtocol)
	assert.False(t, both.ConnectionState().DidResume)
	_ = conn.Close()

	conn, err = a.raw(p.delivery)
	require.NoError(t, err)
	_, err = io.WriteString(conn, a.head("GET", "X: "+planted+"\r\n\r\n"))
	require.NoError(t, err)
	said, _ := io.ReadAll(conn)
	assert.Contains(t, string(said), "HTTP/1.0 400 ", "plain HTTP to the TLS port")
	assert.NotContains(t, string(said), planted)
	_ = conn.Close()
}

// Nobody unpacks a body, whoever sends it: who holds the secret is not trusted with memory either.
func (p *pod) bombs(t *testing.T) {
	p.t = t
	_, err := p.deliver(t.Context())
	require.NoError(t, err)
	before := p.measure()
	var mebibyte bytes.Buffer
	zip := gzip.NewWriter(&mebibyte)
	_, err = zip.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	packed := bytes.Repeat(mebibyte.Bytes(), 512) // members of one stream (RFC 1952, 2.2)
	require.Less(t, len(packed), wire.MaxBodyBytes)
	c := p.caller()
	defer c.transport.CloseIdleConnections()
	for encoding, status := range map[string]int{"gzip": http.StatusUnsupportedMediaType, "": http.StatusBadRequest} {
		r, asked, err := p.sign(t.Context(), http.MethodPost, wire.RunsPath, packed)
		require.NoError(t, err)
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		got, _, err := p.Ask(c.transport, r, asked)
		require.NoError(t, err)
		assert.Equal(t, status, got, encoding)
	}
	assert.Less(t, p.measure().memory-before.memory, int64(64<<20), "bytes")
}

// dump makes the harness write where all its goroutines are, which ends it, and counts them.
func (p *pod) dump(t *testing.T) {
	p.t = t
	p.settled(measure{files: -1})
	require.NoError(t, p.cmd.Process.Signal(quit))
	<-p.exit
	text := p.log.String()
	count := strings.Count(text, "\ngoroutine ")
	t.Log(fmt.Sprintf("%d goroutines at the end", count))
	assert.Positive(t, count)
	assert.LessOrEqual(t, count, maxGoroutines, text)
	assert.NotContains(t, text, "net/http.(*conn).serve(", "nobody is connected, so nobody is served")
}
