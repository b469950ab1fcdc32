package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Bounds of the delivery listener.
const (
	// MaxConnections bounds open connections, and with them the bodies in memory: a connection has one request at a time.
	MaxConnections = 128
	// MaxHeld bounds the requests held open by Prefer: wait; one more is answered at once.
	MaxHeld = 64
	// MaxHeaderBytes bounds a request's line and headers; net/http adds 4 KiB. Parsed, headers take about 20 times their size.
	MaxHeaderBytes = 4 << 10
	// MaxStrangersBytes bounds the bodies that are in memory for all connections together on which nothing was proven. Whoever
	// holds the most is thrown out.
	MaxStrangersBytes = 8 << 20

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second // header and body; lifted once the body is there
	writeTimeout      = wire.MaxWaitSeconds*time.Second + 30*time.Second
	idleTimeout       = 90 * time.Second
	closeTimeout      = 2 * time.Second
)

// pace is how long the header of a request may take to come, and all of it, for tests on a machine that is busy with other things.
type pace struct{ header, read time.Duration }

var usual = pace{header: readHeaderTimeout, read: readTimeout}

// Listener is a listener as Serve wants it: bounded, and speaking TLS unless the scheme is HTTP (SPEC.md, Confidentiality).
func (s *Server) Listener(plain net.Listener) net.Listener {
	bounded := gate.New(plain, MaxConnections)
	bounded.Bytes = MaxStrangersBytes
	if s.tls == nil {
		return bounded
	}
	return tls.NewListener(bounded, s.tls)
}

// Serve answers on a listener until ctx ends, then finishes what is being answered and closes it.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.pace.header,
		ReadTimeout:       s.pace.read,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ConnContext:       gate.With,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
		// Not even OPTIONS * is answered to whoever has no challenge.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	if err := gate.Serve(ctx, h, s.Listener(listener), closeTimeout); err != nil {
		return fmt.Errorf("delivery listener: %w", err)
	}
	return nil
}
