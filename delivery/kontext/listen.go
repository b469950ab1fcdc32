package kontext

import (
	"context"
	"errors"
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
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(bounded) }()
	select {
	case err := <-ended:
		return fmt.Errorf("older contract's listener: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := h.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.Close()
	}
	<-ended
	if err != nil {
		return fmt.Errorf("close the older contract's listener: %w", err)
	}
	return nil
}
