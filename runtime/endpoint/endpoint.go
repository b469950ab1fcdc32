// Package endpoint is port 4000: where people's clients of the Agent Client Protocol attach, by WebSocket or streamable HTTP. It is
// bound while an agent answers and closed while none does, because a TCP connection to it is what readiness probes try (R1, R4, R50;
// SPEC.md, Harness and Transports).
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
	"github.com/hearthdev/hearth/runtime/attach"
)

// Limits of the listener.
const (
	DefaultAddr       = ":4000"
	MaxConnections    = 256
	maxHeaderBytes    = 8 << 10 // net/http adds 4 KiB; parsed, headers take about 20 times their size
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second // of who presents no key; messages have bodyTimeout
	writeTimeout      = 30 * time.Second // of an answer; streams have it for each piece that they write
	idleTimeout       = 2 * time.Minute
	closeTimeout      = 2 * time.Second
	maxRequests       = 16        // under way on one HTTP/2 connection; a stranger's are all taken in before anybody looks at them
	windowBytes       = 128 << 10 // of bodies that HTTP/2 takes in before anybody reads them, a connection
)

// Config says where to listen.
type Config struct {
	Addr string // host:port; DefaultAddr when empty
	Log  *slog.Logger
	// Keys open it to clients; without any, nobody gets beyond the health check.
	Keys Keys
	// Clients takes the clients that come. Without it, nobody can attach.
	Clients Clients
	// Transcripts are those of the runs that were carried out here. Without it there are none.
	Transcripts Transcripts
	// Now is the clock for deadlines of connections.
	Now func() time.Time
	// MaxConnections is the constant of that name unless set.
	MaxConnections int
	// Attached, unless nil, is told that so many more clients are attached with an access by a transport; fewer, where it is negative.
	Attached func(access attach.Access, transport string, more int)
	// Ended, unless nil, is told why an open endpoint closed by itself. It is called from a goroutine of its own.
	Ended func(error)

	pace    pace
	longest int64 // message of who may steer
}

// Endpoint is the listener and the clients that came through it. Its methods may be called from any goroutine.
type Endpoint struct {
	cfg    Config
	guests *guests
	rooms  *rooms
	shelf  chan struct{} // a place for each transcript that is read

	mu       sync.Mutex
	server   *http.Server // nil while it is closed
	listener net.Listener // nil once it does not listen any more
	addr     string
	served   chan struct{}
	leaving  sync.WaitGroup // servers that were closed, until their connections are
}

// New makes an endpoint that is closed.
func New(cfg Config) *Endpoint {
	if cfg.Addr == "" {
		cfg.Addr = DefaultAddr
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = MaxConnections
	}
	if cfg.pace == (pace{}) {
		cfg.pace = usual
	}
	if cfg.longest == 0 {
		cfg.longest = MaxMessageBytes
	}
	return &Endpoint{cfg: cfg, guests: newGuests(cfg.Clients, min(cfg.MaxConnections, attach.MaxClients), cfg.Attached), rooms: newRooms(), shelf: make(chan struct{}, maxTranscripts)}
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
	e.guests.welcome()
	server := newServer(e.cfg, e.handler())
	served := make(chan struct{})
	go func() {
		err := server.Serve(gate.New(listener, e.cfg.MaxConnections))
		close(served)
		e.broke(server, err)
	}()
	e.server, e.listener, e.served, e.addr = server, listener, served, listener.Addr().String()
	e.cfg.Log.Info("acp: listening", "addr", e.addr)
	return nil
}

// newServer takes HTTP/1.1, and HTTP/2 without TLS from those who know that it does.
func newServer(cfg Config, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       gate.With,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxRequests,
			MaxReceiveBufferPerConnection: windowBytes,
			MaxReceiveBufferPerStream:     windowBytes,
			SendPingTimeout:               cfg.pace.ping,
			PingTimeout:                   cfg.pace.pong,
			WriteByteTimeout:              cfg.pace.stall,
		},
		// OPTIONS * is no health check here.
		DisableGeneralOptionsHandler: true,
	}
}

// broke closes what does not serve any more although nobody closed it, so that Bind may follow, and tells of it.
func (e *Endpoint) broke(server *http.Server, cause error) {
	e.mu.Lock()
	if e.server != server || e.listener == nil {
		e.mu.Unlock()
		return
	}
	err := fmt.Errorf("acp: serving on %s ended: %w", e.addr, cause)
	e.server, e.listener, e.served, e.addr = nil, nil, nil, ""
	e.mu.Unlock()
	_ = server.Close() // what it was is beyond repair
	e.guests.farewell(errRestart)
	e.cfg.Log.Error("acp: closed by itself", "cause", err)
	if e.cfg.Ended != nil {
		e.cfg.Ended(err)
	}
}

// Close stops listening and sends all clients away, because no agent answers any more: they may come again (WebSocket close code
// 1012). It does not wait for them, and does nothing while it is closed. Bind may follow.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		return nil
	}
	err := e.unlisten()
	server := e.server
	e.server, e.addr = nil, ""
	e.guests.farewell(errRestart)
	e.leaving.Go(func() { shutdown(server) })
	return err
}

// Drain stops listening. Clients stay, and so do connections for their requests; End sends them away.
func (e *Endpoint) Drain() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unlisten()
}

// End stops listening, sends all clients away for good (1001) and waits until they are gone, for closeTimeout and a moment at most.
func (e *Endpoint) End() error {
	e.mu.Lock()
	err := e.unlisten()
	server := e.server
	e.server, e.addr = nil, ""
	e.mu.Unlock()
	e.guests.farewell(errAway)
	if server != nil {
		shutdown(server)
	}
	e.leaving.Wait()
	e.guests.wait()
	return err
}

// unlisten closes the listener, if it is open, and waits until it does not serve any more; the lock is held.
func (e *Endpoint) unlisten() error {
	listener := e.listener
	if listener == nil {
		return nil
	}
	e.listener = nil
	err := listener.Close()
	<-e.served
	e.cfg.Log.Info("acp: closed", "clients", e.guests.count())
	if err != nil {
		return fmt.Errorf("acp: close: %w", err)
	}
	return nil
}

// shutdown lets requests end that are under way, the streams' last words among them, then closes what is left.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = server.Shutdown(ctx)
	_ = server.Close()
}

// Addr is where it listens; "" while it does not.
func (e *Endpoint) Addr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listener == nil {
		return ""
	}
	return e.addr
}
