// Package endpoint is the listener on port 4000: it is bound while an agent answers and closed while none does, because a TCP
// connection to it is what readiness probes try (R1, R4; SPEC.md, Harness).
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
)

// Limits of the listener.
const (
	DefaultAddr       = ":4000"
	MaxConnections    = 256
	maxHeaderBytes    = 8 << 10 // net/http adds 4 KiB; parsed, headers take about 20 times their size
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Config says where to listen.
type Config struct {
	Addr string // host:port; DefaultAddr when empty
	Log  *slog.Logger
	// Keys open it to clients; without any, nobody gets beyond the health check.
	Keys Keys
	// MaxConnections is the constant of that name unless set.
	MaxConnections int
	// Ended, unless nil, is told why an open endpoint closed by itself. It is called from a goroutine of its own.
	Ended func(error)
}

// Endpoint is the listener. Its methods may be called from any goroutine.
type Endpoint struct {
	cfg Config

	mu     sync.Mutex
	server *http.Server
	addr   string
	served chan struct{}
}

// New makes an endpoint that is closed.
func New(cfg Config) *Endpoint {
	if cfg.Addr == "" {
		cfg.Addr = DefaultAddr
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = MaxConnections
	}
	return &Endpoint{cfg: cfg}
}

// Bind starts listening and says so in the log; it does nothing while it listens. The error names the address and, when another
// process listens there, says that.
func (e *Endpoint) Bind(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", e.cfg.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("acp: %s is in use by another process", e.cfg.Addr)
	}
	if err != nil {
		return fmt.Errorf("acp: listen on %s: %w", e.cfg.Addr, err)
	}
	server := &http.Server{
		Handler:           handler(e.cfg.Keys),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       gate.With,
		ErrorLog:          slog.NewLogLogger(e.cfg.Log.Handler(), slog.LevelDebug),
		// OPTIONS * is no health check here.
		DisableGeneralOptionsHandler: true,
	}
	served := make(chan struct{})
	go func() {
		err := server.Serve(gate.New(listener, e.cfg.MaxConnections))
		close(served)
		if !errors.Is(err, http.ErrServerClosed) {
			e.broke(server, err)
		}
	}()
	e.server, e.served, e.addr = server, served, listener.Addr().String()
	e.cfg.Log.Info("acp: listening", "addr", e.addr)
	return nil
}

// broke closes what does not serve any more, so that Bind may follow, and tells of it.
func (e *Endpoint) broke(server *http.Server, cause error) {
	err := fmt.Errorf("acp: serving ended: %w", cause)
	_ = server.Close() // what it was is beyond repair
	e.mu.Lock()
	if e.server == server {
		err = fmt.Errorf("acp: serving on %s ended: %w", e.addr, cause)
		e.server, e.served, e.addr = nil, nil, ""
	}
	e.mu.Unlock()
	e.cfg.Log.Error("acp: closed by itself", "cause", err)
	if e.cfg.Ended != nil {
		e.cfg.Ended(err)
	}
}

// Close stops listening and closes the connections of all clients; it does nothing while it is closed. Bind may follow.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		return nil
	}
	err := e.server.Close()
	<-e.served
	e.server, e.served, e.addr = nil, nil, ""
	e.cfg.Log.Info("acp: closed")
	if err != nil {
		return fmt.Errorf("acp: close: %w", err)
	}
	return nil
}

// Addr is where it listens; "" while it is closed.
func (e *Endpoint) Addr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.addr
}
