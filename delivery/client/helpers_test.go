package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"github.com/hearthdev/hearth/challenge"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

const (
	secretGoal = "a confidential goal"
	patience   = time.Minute // for what comes when it comes
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// changes collects what a Link told.
type changes struct {
	mu  sync.Mutex
	all []Change
}

func (c *changes) add(x Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, x)
}

// states counts the changes of a Link's state.
func (c *changes) states() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, x := range c.all {
		if x.State {
			n++
		}
	}
	return n
}

func (c *changes) runs() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for _, x := range c.all {
		for _, r := range x.Runs {
			out[r.Name]++
		}
	}
	return out
}

func testConfig(t *testing.T, address string) Config {
	t.Helper()
	return Config{
		Target:  wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-1"},
		Address: address, Keys: harness.Keys(t, "pod-1"), Now: time.Now, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler), Changed: func(Change) {},
		Backoff:  func(int) time.Duration { return 20 * time.Millisecond },
		Timeouts: Timeouts{Dial: patience, Call: patience, Slack: patience}, // a busy machine must not make anything time out
	}
}

// plainConfig is for the scheme HTTP, where the proofs are the only protection and a stranger gets as far as it can.
func plainConfig(t *testing.T, address string) Config {
	t.Helper()
	cfg := testConfig(t, address)
	cfg.Scheme = wire.SchemeHTTP
	return cfg
}

func open(t *testing.T, cfg Config) *Link {
	t.Helper()
	l, err := New(cfg)
	require.NoError(t, err)
	l.Start()
	t.Cleanup(l.Close)
	return l
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, patience, 5*time.Millisecond, what)
}

func verifiedLink(t *testing.T, cfg Config) *Link {
	t.Helper()
	l := open(t, cfg)
	eventually(t, "verified", func() bool { s := l.Status(); return s.State == StateVerified && s.Listed })
	return l
}

func runRef(name string) wire.RunRef {
	return wire.RunRef{Namespace: "team", Name: name, UID: "uid-" + name}
}

func request(l *Link, name string, attempt int64, goal string) Delivery {
	return Delivery{DeliveryRequest: wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: runRef(name), Attempt: attempt, Target: l.target(), Journal: l.Status().Journal, Goal: goal,
	}}
}

func seen(l *Link, name string, attempt int64) (Attempt, wire.State) {
	a, ok := l.Snapshot(Key{RunUID: "uid-" + name, Attempt: attempt})
	if !ok || a.Seen == nil {
		return a, ""
	}
	return a, a.Seen.State
}

// idle waits until no call about an attempt is under way.
func idle(t *testing.T, l *Link, name string, attempt int64) Attempt {
	t.Helper()
	var a Attempt
	eventually(t, "call ended", func() bool {
		a, _ = l.Snapshot(Key{RunUID: "uid-" + name, Attempt: attempt})
		return !a.InFlight
	})
	return a
}

// stranger listens on a loopback address, keeps every byte it gets, and treats each connection as told.
type stranger struct {
	listener net.Listener
	group    sync.WaitGroup
	mu       sync.Mutex
	got      bytes.Buffer
	accepted int
	open     []net.Conn
}

// newStranger starts one; respond gets what it read so far on a connection and the connection.
func newStranger(t *testing.T, address string, respond func(request []byte, c net.Conn)) *stranger {
	t.Helper()
	return strangerWho(t, address, func(c net.Conn) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := c.Read(buffer)
			if n > 0 {
				respond(buffer[:n], c)
			}
			if err != nil {
				return
			}
		}
	})
}

// strangerWho starts one that serves each connection itself.
func strangerWho(t *testing.T, address string, serve func(net.Conn)) *stranger {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	s := &stranger{listener: listener}
	s.group.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.accepted++
			s.open = append(s.open, c)
			s.mu.Unlock()
			s.group.Go(func() {
				defer func() { _ = c.Close() }()
				serve(&heard{Conn: c, by: s})
			})
		}
	})
	t.Cleanup(s.close)
	return s
}

// heard is a connection whose every byte is kept.
type heard struct {
	net.Conn
	by *stranger
}

func (c *heard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.got.Write(p[:n])
	return n, err
}

func (s *stranger) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for _, c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.group.Wait()
}

func (s *stranger) bytes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

func (s *stranger) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// front passes connections on to a real harness until it lies: from then on each new one reaches a stranger that says 202.
type front struct {
	*stranger
	lie atomic.Bool
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	f := &front{}
	var mu sync.Mutex
	up := map[net.Conn]net.Conn{}
	f.stranger = newStranger(t, "127.0.0.1:0", func(request []byte, c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if up[c] == nil && f.lie.Load() {
			_, _ = io.WriteString(c, response(202, "", "{}"))
			return
		}
		if up[c] == nil {
			u, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				return
			}
			up[c] = u
			f.group.Go(func() { _, _ = io.Copy(c, u); _ = u.Close() })
		}
		_, _ = up[c].Write(request)
		f.mu.Lock()
		f.got.Reset() // what the harness itself got is no concern
		f.mu.Unlock()
	})
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, u := range up {
			_ = u.Close()
		}
	})
	return f
}

// relay is a stranger that passes a request to a real harness and gives back what transform makes of the response.
func relay(t *testing.T, to string, transform func(response []byte) []byte) *stranger {
	t.Helper()
	return newStranger(t, "127.0.0.1:0", func(request []byte, c net.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), patience) //nolint:usetesting // a connection may outlive the test's context
		defer cancel()
		up, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		_, _ = up.Write(request)
		_ = up.SetReadDeadline(time.Now().Add(patience))
		var whole bytes.Buffer
		if response, err := http.ReadResponse(bufio.NewReader(io.TeeReader(up, &whole)), nil); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if answer := transform(whole.Bytes()); len(answer) > 0 {
			_, _ = c.Write(answer)
			return
		}
		_ = c.Close() // or the caller would wait for one
	})
}

func newReader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

// signedRequest is what an answer to a request covers.
func signedRequest(r *http.Request) challenge.Request {
	return challenge.Request{
		Method: r.Method, Target: r.RequestURI, PodName: "reviewer-1", PodUID: "pod-1",
		Boot: r.Header.Get(wire.HeaderBoot), Challenge: r.Header.Get(wire.HeaderChallenge),
	}
}
