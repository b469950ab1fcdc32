package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// endless is a pace by which no stranger's time is ever over: who has to go has to be thrown out.
var endless = pace{header: time.Hour, read: time.Hour}

// enter opens a connection, sends one request on it and leaves it open.
func (h *house) enter(address string, write func(net.Conn) error) net.Conn {
	h.t.Helper()
	conn, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", address)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(h.t, write(conn))
	return conn
}

// Row 40: strangers that ask and stay, and strangers that never finish to ask, or never shake hands, keep no caller out; a
// caller inside is not thrown out for them.
func TestStrangersKeepNobodyOut(t *testing.T) {
	for _, scheme := range []wire.Scheme{wire.SchemeHTTPS, wire.SchemeHTTP} {
		t.Run(string(scheme), func(t *testing.T) { strangersKeepNobodyOut(t, scheme) })
	}
}

func strangersKeepNobodyOut(t *testing.T, scheme wire.Scheme) {
	h := build(t, func(c *Config) { c.Scheme = scheme })
	h.server.pace = endless
	address := h.listen()
	mine := h.dial(address)
	first, _ := h.request(h.call(http.MethodGet, wire.RunsPath, nil))
	require.NoError(t, first.Write(mine))
	answers := bufio.NewReader(mine)
	status := func() int {
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, status())
	for n := range 2 * MaxConnections {
		h.enter(address, func(conn net.Conn) error {
			if scheme == wire.SchemeHTTPS {
				_, err := conn.Write([]byte{0x16, 3, 1}) // the beginning of a TLS record
				return err
			}
			_, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n")
			if n%2 == 0 && err == nil {
				_, err = fmt.Fprint(conn, "\r\n")
			}
			return err
		})
	}
	answered := make(chan int, 1)
	go func() { answered <- h.over(address, h.call(http.MethodGet, wire.RunsPath, nil)).status }()
	select {
	case got := <-answered:
		assert.Equal(t, http.StatusOK, got)
	case <-time.After(patience):
		require.Fail(t, "strangers keep a caller out")
	}
	r, _ := h.request(h.call(http.MethodGet, wire.RunsPath, nil))
	require.NoError(t, r.Write(mine))
	assert.Equal(t, http.StatusOK, status(), "who has proven something stays")
}

// Row 40: what strangers send is in memory for a few of them at a time; who holds the most makes room, and a caller with a body of
// any size gets through.
func TestStrangersBodiesAreBoundedTogether(t *testing.T) {
	h := build(t, func(c *Config) { c.Scheme = wire.SchemeHTTP })
	h.server.pace = endless
	address := h.listen()
	const strangers = 4 * MaxStrangersBytes / wire.MaxBodyBytes
	thrownOut := make(chan struct{}, strangers)
	body := []byte(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", wire.RunsPath, testIdentity.PodName,
		wire.HeaderChallenge, strings.Repeat("A", challenge.Length), wire.MaxBodyBytes, strings.Repeat("x", wire.MaxBodyBytes-1)))
	for range strangers {
		conn := h.dial(address)
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
	large := h.call(http.MethodPost, wire.RunsPath, h.delivery("run", 1))
	large.body = append(large.body, bytes.Repeat([]byte(" "), wire.MaxBodyBytes-len(large.body))...)
	assert.Equal(t, http.StatusAccepted, h.over(address, large).status)
}
