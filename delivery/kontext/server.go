package kontext

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Config is what New needs. All but Queue and Log are required.
type Config struct {
	// Hostname is who this is: what a request's Host and the name of its target must be. Nothing tells this harness its Pod's UID.
	Hostname string
	Token    []byte           // the key of the signature, at least MinTokenBytes
	Journal  *journal.Journal // stays the caller's to close, after Close
	Runner   server.Runner
	// Concurrency is how many runs go on at once (at least 1), Queue how many more wait.
	Concurrency, Queue int
	Now                func() time.Time
	Log                *slog.Logger
}

// Server holds one boot of a harness's deliveries by the older contract. Make it with New, serve it, end it with Drain and Close.
type Server struct {
	cfg     Config
	runs    *server.Server
	pace    pace
	held    chan struct{} // one token for each caller that waits
	waiting waiting

	deciding sync.Mutex // one look into the journal and what follows from it at a time; held while the disk writes

	life    context.Context // ends with Close
	end     context.CancelFunc
	watched sync.WaitGroup
}

// New makes a server over an open journal. What the last boot left accepted never starts: its callers left with that boot, and
// they will ask again.
func New(cfg Config) (*Server, error) {
	if cfg.Hostname == "" {
		return nil, errors.New("hostname: expected this Pod's")
	}
	if len(cfg.Token) < MinTokenBytes {
		return nil, fmt.Errorf("token: expected at least %d bytes, got %d", MinTokenBytes, len(cfg.Token))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, pace: usual, held: make(chan struct{}, MaxHeld)}
	s.waiting.turns = map[journal.Key]*turn{}
	s.life, s.end = context.WithCancel(context.Background())
	var err error
	s.runs, err = server.New(server.Config{
		Identity: wire.Identity{PodName: cfg.Hostname}, Scheme: wire.SchemeHTTP, Journal: cfg.Journal, Runner: cfg.Runner,
		Concurrency: cfg.Concurrency, Queue: cfg.Queue, Now: cfg.Now, Log: cfg.Log, Wanted: s.waiting.wanted,
	})
	if err != nil {
		s.end()
		return nil, fmt.Errorf("older contract: %w", err)
	}
	return s, nil
}

// Boot identifies this life of the harness process, in logs; the older contract has no word for it.
func (s *Server) Boot() string { return s.runs.Boot() }

// AgentChanged is to be called when Runner.Agent answers something else.
func (s *Server) AgentChanged() { s.runs.AgentChanged() }

// Drain ends the server's work: new runs are refused, what has not started never will, what runs may go on for the limit and is
// then cancelled. Callers get their answers throughout. An ended ctx cancels what runs at once.
func (s *Server) Drain(ctx context.Context, limit time.Duration) { s.runs.Drain(ctx, limit) }

// Close cancels what runs and waits until it ended and its callers were told.
func (s *Server) Close() {
	s.runs.Close()
	s.deciding.Lock() // nobody begins to wait any more
	s.end()
	s.deciding.Unlock()
	s.watched.Wait()
}
