package connect

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/cli/forward"
)

// The key is for the address that was given: an endpoint that sends its callers elsewhere does not send the key along.
func TestNoRedirectGetsTheKey(t *testing.T) {
	t.Setenv(EnvKey, "the-key")
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Header.Get(forward.HeaderKey))
	}))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL+"/acp", http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	target, err := atURL("ws"+strings.TrimPrefix(server.URL, "http"), "")
	require.NoError(t, err)
	_, err = target.Dial(t.Context())
	require.ErrorContains(t, err, "got the answer 307")
	require.ErrorAs(t, err, &Final{})
	assert.Empty(t, elsewhere)
}

// What an endpoint says before it is one is bounded, and nobody waits for its end.
func TestEndlessHeadersAreNoEndpoint(t *testing.T) {
	t.Setenv(EnvKey, "the-key")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	said := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Read(make([]byte, 1)); err != nil { // an answer before the request is another error
			return
		}
		all := 0
		n, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n"))
		for ; err == nil && all < 64<<20; n, err = conn.Write([]byte("X-Header: " + strings.Repeat("x", 1000) + "\r\n")) {
			all += n
		}
		said <- all
	}()
	target, err := atURL("ws://"+listener.Addr().String(), "")
	require.NoError(t, err)
	_, err = target.Dial(t.Context())
	require.ErrorContains(t, err, "headers exceeded")
	assert.Less(t, <-said, 8<<20, "beside what lies in buffers")
}
