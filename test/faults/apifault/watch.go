package apifault

import (
	"context"
	"io"
	"sync"
)

// watch is a watch's body. What the API server says is read at once, so that it never sees a slow watcher, and kept while it is held.
type watch struct {
	api      *API
	ctx      context.Context //nolint:containedctx // the request's: its end ends the wait
	resource string
	body     io.ReadCloser

	mu      sync.Mutex
	kept    []byte
	failed  error
	arrived chan struct{} // closed and made again at each arrival
}

func (a *API) hold(ctx context.Context, resource string, body io.ReadCloser) io.ReadCloser {
	w := &watch{api: a, ctx: ctx, resource: resource, body: body, arrived: make(chan struct{})}
	a.served.Go(w.fill)
	return w
}

// fill ends with the API server's answer, with the request, or at Close.
func (w *watch) fill() {
	for buffer := make([]byte, 32<<10); ; {
		n, err := w.body.Read(buffer)
		w.mu.Lock()
		w.kept, w.failed = append(w.kept, buffer[:n]...), err
		close(w.arrived)
		w.arrived = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read waits for what may be passed on. That the API server ended the watch is held back too.
func (w *watch) Read(p []byte) (int, error) {
	for {
		held, changed := w.api.isHeld(w.resource)
		w.mu.Lock()
		arrived := w.arrived
		if !held && len(w.kept) > 0 {
			n := copy(p, w.kept)
			w.kept = w.kept[n:]
			w.mu.Unlock()
			return n, nil
		}
		failed := w.failed
		w.mu.Unlock()
		if failed != nil && !held {
			return 0, failed
		}
		select {
		case <-changed:
		case <-arrived:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// Close ends the API server's side.
func (w *watch) Close() error { return w.body.Close() }
