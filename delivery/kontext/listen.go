package kontext

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
)

// pace is how long the header of a request may take to come, and all of it, for tests on a machine that is busy with other things.
type pace struct{ header, read time.Duration }

var usual = pace{header: readHeaderTimeout, read: readTimeout}

// Serve answers on a listener until ctx ends, then finishes what is being answered and closes it.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.pace.header,
		ReadTimeout:       s.pace.read,
		WriteTimeout:      s.pace.read + writeTimeout, // lifted while a caller waits
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
