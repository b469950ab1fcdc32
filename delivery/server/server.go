// Package server is the harness's side of the wire contract: authenticate, decode, decide (delivery.Admit), journal, run
// (SPEC.md, Endpoints; R24 to R28). What runs a goal is behind Runner; HTTP, order and durability are here.
package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Config is what New needs. All but Scheme, Queue, Log and Version are required.
type Config struct {
	Identity wire.Identity
	Keys     challenge.Keys
	Scheme   wire.Scheme      // HTTPS unless set
	Journal  *journal.Journal // stays the caller's to close, after Close
	Runner   Runner
	// Concurrency is how many attempts run at once (at least 1), Queue how many more are accepted.
	Concurrency, Queue int
	Version            string // of the harness, as told in the challenge's answer
	// Wanted is set by the listener of a contract whose callers wait for their runs: nothing starts for a caller who left. It is
	// asked right before a start, with locks of the server held, so it must neither block nor call the server; what is not
	// wanted is voided. nil: an accepted attempt is wanted, as in the wire's own contract.
	Wanted func(journal.Key) bool
	Now    func() time.Time
	Log    *slog.Logger
	// Tracer begins the spans of what is accepted; nil: there are none, and a caller's context is passed on as it came.
	Tracer trace.Tracer
	// Answered, unless nil, is told of each answer: which of the contract's calls, "other" for none of them, and the HTTP status.
	Answered func(endpoint string, status int)
}

// Server holds one boot of a harness's deliveries. Make it with New, serve Handler, end it with Drain and Close.
type Server struct {
	cfg      Config
	boot     string
	tls      *tls.Config // nil when the scheme is HTTP
	pace     pace
	handler  http.Handler
	waiting  chan struct{} // one token for each request that is held open
	draining atomic.Bool

	life context.Context // ends with Close
	end  context.CancelCauseFunc
	work sync.WaitGroup // goroutines that run an attempt

	runs   eachRun
	mu     sync.Mutex // the book; never held while the disk writes
	queue  []*attempt // accepted, in the order they will start
	orders int64
	active map[journal.Key]*attempt
	pause  pause
	left   chan struct{} // signalled when an attempt leaves active
}

// New makes a server over an open journal. What the last boot left accepted is queued and starts once the agent is ready.
func New(cfg Config) (*Server, error) {
	if cfg.Concurrency < 1 {
		return nil, fmt.Errorf("concurrency: expected at least 1, got %d", cfg.Concurrency)
	}
	if cfg.Queue < 0 {
		return nil, fmt.Errorf("queue: expected at least 0, got %d", cfg.Queue)
	}
	if cfg.Journal == nil || cfg.Runner == nil || cfg.Now == nil {
		return nil, errors.New("server: expected a journal, a runner and a clock")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.Tracer{}
	}
	if cfg.Answered == nil {
		cfg.Answered = func(string, int) {}
	}
	secure, err := secured(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, tls: secure, pace: usual, boot: rand.Text(), active: map[journal.Key]*attempt{}, runs: eachRun{held: map[string]*runLock{}},
		left: make(chan struct{}, 1), waiting: make(chan struct{}, MaxHeld),
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.handler = s.routes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.takeOver(); err != nil {
		return nil, err
	}
	s.dispatch()
	return s, nil
}

func secured(cfg Config) (*tls.Config, error) {
	switch cfg.Scheme {
	case wire.SchemeHTTPS, "":
		return pinned.Server(cfg.Keys), nil
	case wire.SchemeHTTP:
		return nil, nil //nolint:nilnil // plain HTTP has no TLS configuration
	default:
		return nil, fmt.Errorf("scheme: expected %s or %s, got %.16q", wire.SchemeHTTPS, wire.SchemeHTTP, cfg.Scheme)
	}
}

// Boot identifies this life of the harness process.
func (s *Server) Boot() string { return s.boot }

// AgentChanged is to be called when Runner.Agent answers something else: callers who watch are told, and waiting attempts start.
func (s *Server) AgentChanged() {
	s.cfg.Journal.Touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause.reset()
	s.dispatch()
}

// Close cancels what runs, waits until it ended and is stored (as far as the journal takes it), and releases held requests.
// A server that was drained has nothing left to cancel.
func (s *Server) Close() {
	s.end(ErrClosing)
	s.mu.Lock()
	s.pause.reset()
	for _, a := range s.queue {
		a.stopTimer()
	}
	s.mu.Unlock()
	s.work.Wait()
}

func (s *Server) agent() wire.AgentInfo {
	info := s.cfg.Runner.Agent()
	if s.draining.Load() {
		info.State = wire.AgentDraining
	}
	return info
}

func (s *Server) capacity() wire.Capacity {
	accepted, running := s.cfg.Journal.Counts()
	return wire.Capacity{Concurrency: s.cfg.Concurrency, Queue: s.cfg.Queue, Running: running, Queued: accepted}
}
