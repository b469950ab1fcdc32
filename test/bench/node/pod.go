package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	"github.com/hearthdev/hearth/internal/gate"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// terms are what a Pod's container says of its harness.
type terms struct {
	identity           wire.Identity
	root               []byte
	scheme             wire.Scheme
	port               int
	concurrency, queue int
}

// pod is one Pod's harness: the real server and journal, at an address of its own.
type pod struct {
	terms
	name     string // namespace/name
	agentOf  string // the Agent's name
	dir      string
	book     *book
	released *gates
	lists    *lists
	requests requests
	boots    atomic.Int64
	// connections are those that are open.
	connections atomic.Int64

	mu      sync.Mutex
	address string // host:port; kept from one boot to the next
	boot    *boot
	ready   bool // and counted
	gone    bool
}

// boot is one life of a harness.
type boot struct {
	journal *journal.Journal
	server  *server.Server
	http    *http.Server
	served  chan struct{}
}

// start boots the harness: at its address if it has one, else at one that listen gives.
func (p *pod) start(ctx context.Context, listen func(ctx context.Context, port int) (net.Listener, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boot != nil || p.gone {
		return nil
	}
	keys, err := challenge.Derive(p.root, p.identity.PodUID)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	j, err := journal.Open(journal.Config{Dir: p.dir, Now: time.Now})
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	s, err := server.New(server.Config{
		Identity: p.identity, Keys: keys, Scheme: p.scheme, Journal: j, Runner: &agent{pod: p, book: p.book, released: p.released},
		Concurrency: p.concurrency, Queue: p.queue, Version: "bench", Now: time.Now,
		Answered: func(call string, _ int) { p.count(call) },
	})
	if err != nil {
		return errors.Join(fmt.Errorf("server: %w", err), j.Close())
	}
	var plain net.Listener
	if p.address == "" {
		plain, err = listen(ctx, p.port)
	} else {
		plain, err = (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	}
	if err != nil {
		s.Close()
		return errors.Join(fmt.Errorf("listen: %w", err), j.Close())
	}
	p.address = plain.Addr().String()
	p.boots.Add(1)
	b := &boot{journal: j, server: s, served: make(chan struct{})}
	b.http = &http.Server{Handler: p.timed(p.lists.before(s.Handler())), ConnContext: gate.With, MaxHeaderBytes: server.MaxHeaderBytes, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), ConnState: p.connected}
	go func() {
		defer close(b.served)
		_ = b.http.Serve(s.Listener(plain)) // ends with Close
	}()
	p.boot = b
	return nil
}

// told: the API server knows that it is ready.
func (p *pod) told() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		p.ready = true
		p.book.edit(func(c *Counts) { c.Pods++ })
	}
}

// leave ends the harness for good.
func (p *pod) leave() {
	p.mu.Lock()
	p.gone = true
	if p.ready {
		p.ready = false
		p.book.edit(func(c *Counts) { c.Pods-- })
	}
	p.mu.Unlock()
	p.stop()
}

// stop ends the harness as a kill does: connections break, and what runs is not stored as ended.
func (p *pod) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boot == nil {
		return
	}
	_ = p.boot.http.Close()
	<-p.boot.served
	_ = p.boot.journal.Close()
	p.boot.server.Close()
	p.boot = nil
}

// ip is the address without the port.
func (p *pod) ip() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return gate.HostOf(p.address)
}

// connected counts the open connections. One is closed when what came over it has been answered, or broken off.
func (p *pod) connected(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		p.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		p.connections.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

func (p *pod) count(call string) {
	p.requests.add(call)
	p.book.edit(func(c *Counts) { c.Requests[call]++ })
}

// timed notes when goals come, when they are accepted, and when records of them are written.
func (p *pod) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := time.Now()
		next.ServeHTTP(w, r)
		if r.Method != http.MethodPost {
			return
		}
		// Only a 202 has a Location, which names the attempt.
		if key, ok := named(w.Header().Get("Location")); ok {
			p.book.accepted(key, p.name, came, time.Now())
		} else if key, ok := named(r.RequestURI); ok && strings.HasSuffix(r.URL.Path, wire.RecordedSuffix) {
			p.book.recorded(key, came)
		}
	})
}

// named reads the attempt that a path is about.
func named(path string) (Key, bool) {
	u, err := url.Parse(path)
	if err != nil {
		return Key{}, false
	}
	run, below := strings.CutPrefix(strings.TrimSuffix(u.Path, wire.RecordedSuffix), wire.RunsPath+"/")
	attempt, err := strconv.ParseInt(u.Query().Get(wire.QueryAttempt), 10, 64)
	return Key{Run: run, Attempt: attempt}, below && run != "" && err == nil
}

// requests counts calls.
type requests struct {
	mu sync.Mutex
	of map[string]int64
}

func (r *requests) add(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]int64{}
	}
	r.of[call]++
}

func (r *requests) copied() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]int64, len(r.of))
	for call, n := range r.of {
		out[call] = n
	}
	return out
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = nil
}
