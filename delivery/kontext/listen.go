package kontext

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/hearthdev/hearth/internal/gate"
)

// Serve answers on a listener until ctx ends, then finishes what is being answered and closes it.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + writeTimeout, // lifted while a caller waits
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ConnContext:       gate.With,
		// Not even OPTIONS * is answered to whoever has no challenge.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	bounded := gate.New(listener, MaxConnections)
	bounded.Bytes = MaxStrangersBytes
	if err := gate.Serve(ctx, h, bounded, closeTimeout); err != nil {
		return fmt.Errorf("older contract's listener: %w", err)
	}
	return nil
}
