// Package harness runs the harness's half of delivery in the test's own process: the real server and journal on a loopback
// address, with a scripted runner in place of an agent.
package harness

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Root is the root secret of every harness here; the Pod's UID makes the keys differ.
const Root = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

// Options of a Harness; the zero value is one run at a time and one more queued, on any free port of 127.0.0.1.
type Options struct {
	Identity           wire.Identity
	Root               string      // the Pod's root secret, Root unless set
	Scheme             wire.Scheme // HTTPS unless set
	Address            string      // host:port to listen on
	Concurrency, Queue int
	// Wrap stands between the listener and the server, to lose or delay what passes; Listen between the network and the listener.
	Wrap   func(http.Handler) http.Handler
	Listen func(net.Listener) net.Listener
}

// Harness is one Pod's harness.
type Harness struct {
	Options
	Runner *Runner
	dir    string
	t      testing.TB

	mu      sync.Mutex
	server  *server.Server
	journal *journal.Journal
	http    *http.Server
	served  chan struct{}
	cancel  context.CancelFunc // cancels what runs; set while the boot drains
}

// Start boots a harness; it is stopped at the end of the test.
func Start(t testing.TB, o Options) *Harness {
	t.Helper()
	if o.Identity == (wire.Identity{}) {
		o.Identity = wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-1"}
	}
	if o.Root == "" {
		o.Root = Root
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.Concurrency == 0 {
		o.Concurrency, o.Queue = 1, max(o.Queue, 1)
	}
	h := &Harness{Options: o, Runner: newRunner(), dir: t.TempDir(), t: t}
	h.Boot()
	t.Cleanup(h.Stop)
	return h
}

// Keys are those of a Pod with the root secret Root.
func Keys(t testing.TB, podUID string) challenge.Keys { return keys(t, Root, podUID) }

func keys(t testing.TB, root, podUID string) challenge.Keys {
	t.Helper()
	keys, err := challenge.Derive([]byte(root), podUID)
	require.NoError(t, err)
	return keys
}

// Boot starts the harness after a Stop, on the same address and with the same journal.
func (h *Harness) Boot() {
	h.t.Helper()
	var err error
	h.mu.Lock()
	defer h.mu.Unlock()
	h.journal, err = journal.Open(journal.Config{Dir: h.dir, Now: time.Now})
	require.NoError(h.t, err)
	h.server, err = server.New(server.Config{
		Identity: h.Identity, Keys: keys(h.t, h.Root, h.Identity.PodUID), Scheme: h.Scheme, Journal: h.journal, Runner: h.Runner,
		Concurrency: h.Concurrency, Queue: h.Queue, Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(h.t, err)
	h.Runner.changed(h.server.AgentChanged)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", h.Address) //nolint:usetesting // outlives one test step
	require.NoError(h.t, err)
	h.Address = listener.Addr().String()
	listener = h.server.Listener(listener)
	handler := h.server.Handler()
	if h.Wrap != nil {
		handler = h.Wrap(handler)
	}
	h.http = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	h.served, h.cancel = make(chan struct{}), nil
	if h.Listen != nil {
		listener = h.Listen(listener)
	}
	go func(s *http.Server, served chan struct{}) {
		defer close(served)
		_ = s.Serve(listener) // ends with Close
	}(h.http, h.served)
}

// LoseJournal makes the next Boot begin with an empty journal of another ID.
func (h *Harness) LoseJournal() { h.dir = h.t.TempDir() }

// Stop ends the harness as a kill would: connections break and what ran is not stored as ended.
func (h *Harness) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop()
}

// stop is Stop with the lock held.
func (h *Harness) stop() {
	if h.http == nil {
		return
	}
	_ = h.http.Close()
	<-h.served
	_ = h.journal.Close()
	h.server.Close()
	h.http = nil
}

// Drain drains the server.
func (h *Harness) Drain(ctx context.Context, limit time.Duration) {
	h.mu.Lock()
	s := h.server
	h.mu.Unlock()
	s.Drain(ctx, limit)
}

// Terminate is SIGTERM: the boot drains within a limit and then ends as its process would. A second one cancels what runs. It does not
// wait for any of that.
func (h *Harness) Terminate(limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancel != nil {
		h.cancel()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func(s *server.Server) {
		defer cancel()
		s.Drain(ctx, limit)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.server == s {
			h.stop()
		}
	}(h.server)
}
