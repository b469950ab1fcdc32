package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
)

// Path is where the metrics are; nothing else is there.
const Path = "/metrics"

// DefaultPort is the one that OpenTelemetry's exporters for Prometheus have made usual.
const DefaultPort = 9464

// Bounds of the listener.
const (
	// MaxConnections bounds open connections; one more makes the oldest of the address with the most give way.
	MaxConnections = 32
	// maxScrapes bounds the answers that are made at once; one more gets 503.
	maxScrapes     = 4
	maxHeaderBytes = 4 << 10 // net/http adds 4 KiB
	readTimeout    = 5 * time.Second
	writeTimeout   = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	closeTimeout   = time.Second
)

// Listen opens the port. The error says what is in the way.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// Serve answers on a listener until ctx ends.
func (s *Set) Serve(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ConnContext: gate.With, Protocols: protocols, DisableGeneralOptionsHandler: true,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if err := gate.Serve(ctx, server, gate.New(listener, MaxConnections), closeTimeout); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Handler answers GET of Path, and refuses the rest without reading a body.
func (s *Set) Handler() http.Handler {
	scrape := s.handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != Path:
			refuse(w, http.StatusNotFound)
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed)
		default:
			scrape.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Connection", "close") // a body may follow that nobody reads
	w.WriteHeader(status)
}
