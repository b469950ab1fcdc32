package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ErrTooLarge: a body is longer than its limit.
var ErrTooLarge = errors.New("body: too large")

// Serve answers on a listener until ctx ends, then finishes what is being answered, for so long at most, and closes it.
func Serve(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-ended
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// Body reads a request's body, of at most so many bytes, whether or not a length was declared: ErrTooLarge when there are more,
// another error when it did not arrive whole. With the body the read timeout is over: a caller may wait longer for its answer.
func Body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	var body []byte
	var err error
	if r.ContentLength <= limit {
		body, err = io.ReadAll(counted(r.Context(), io.LimitReader(r.Body, limit+1)))
	}
	switch {
	case r.ContentLength > limit || int64(len(body)) > limit:
		// A caller that is still writing would see a reset instead of an answer.
		_, _ = io.CopyN(io.Discard, r.Body, 2*limit)
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("read the body: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not every ResponseWriter has deadlines
	return body, nil
}

// HostOf is an address, or a Host header, without its port.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
