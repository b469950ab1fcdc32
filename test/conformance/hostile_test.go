package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// stranger is a target that answers each connection with the same bytes.
func stranger(t *testing.T, answer func(net.Conn) error) Options {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, request.Body)
					_ = answer(conn)
				}
			}()
		}
	}()
	return Options{
		Target: &url.URL{Scheme: "http", Host: l.Addr().String()}, Root: harness.Root,
		Identity: wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-1"},
	}
}

// The table is read in a terminal: what a target says is told, and is no command, and its secrets are not told.
func TestATargetsWordsAreNoCommands(t *testing.T) {
	body := fmt.Sprintf(`{"status":400,"code":"\u001b[2Jcleared \u009b31m \r\n %s %s"}`, harness.Root, strings.Repeat("x", 8<<10))
	o := stranger(t, func(c net.Conn) error {
		_, err := fmt.Fprintf(c, "HTTP/1.1 400 \x1b[2J\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return err //nolint:wrapcheck // nobody looks at it
	})
	o.Select = sample(defect{fails: "W-2"}, 0)
	for _, c := range run(t, o).Results {
		if c.ID == "W-2" {
			assert.Contains(t, c.Why, "cleared")
		}
		assert.NotRegexp(t, "[[:cntrl:]\u0080-\u009f]", c.Why, c.ID)
		assert.NotContains(t, c.Why, harness.Root, c.ID)
		assert.LessOrEqual(t, len(c.Why), maxWhy+len("…"), c.ID)
	}
}

// The command that starts a runtime in the background returns before the runtime listens.
func TestARuntimeThatWasJustStartedIsWaitedFor(t *testing.T) {
	o := stranger(t, func(net.Conn) error { return nil })
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listener of the test
	require.NoError(t, err)
	o.Target.Host = l.Addr().String()
	require.NoError(t, l.Close())
	o.Select = regexp.MustCompile("^none$")
	ended := make(chan error, 1)
	go func() {
		kit, err := New(o)
		if err == nil {
			_, err = kit.Run(t.Context())
		}
		ended <- err
	}()
	require.Never(t, func() bool { return len(ended) > 0 }, 4*pollEvery, pollEvery, "the kit gave up")
	l, err = net.Listen("tcp", o.Target.Host) //nolint:noctx // as above
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, <-ended)
}

// Headers without end are cut off long before the time of a call is over.
func TestATargetWithoutEndIsCutOff(t *testing.T) {
	took := make(chan int, 1)
	o := stranger(t, func(c net.Conn) error {
		line := []byte("X: " + strings.Repeat("x", 8<<10) + "\r\n")
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		sent := 0
		for ; err == nil; sent += len(line) {
			_, err = c.Write(line)
		}
		took <- sent
		return err
	})
	kit, err := New(o)
	require.NoError(t, err)
	_, err = kit.exchange(t.Context(), call{method: http.MethodGet, target: "/"}, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.Error(t, err)
	assert.Less(t, <-took, 64<<20, "what the network has in between, too")
}

func TestATargetIsHostAndPortOnly(t *testing.T) {
	for _, target := range []string{"http://127.0.0.1", "http://127.0.0.1:1/path", "http://127.0.0.1:1?x=y", "http://user:word@127.0.0.1:1", "ftp://127.0.0.1:1", "127.0.0.1:1"} {
		u, err := url.Parse(target)
		if err != nil {
			continue
		}
		_, err = New(Options{Target: u, Root: harness.Root, Identity: wire.Identity{PodName: "reviewer-1", PodUID: "pod-1"}})
		assert.ErrorContains(t, err, "target: expected", target)
	}
	u, err := url.Parse("http://[::1]:4100/")
	require.NoError(t, err)
	_, err = New(Options{Target: u, Root: harness.Root, Identity: wire.Identity{PodName: "reviewer-1", PodUID: "pod-1"}})
	assert.NoError(t, err)
}
