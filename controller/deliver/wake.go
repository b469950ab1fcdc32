package deliver

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waker is an event source for keys that something outside the API server changed. Adding never blocks; what is added before
// the controller starts waits for it.
type waker struct {
	// delay gathers what changes within it into one wake.
	delay time.Duration

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	pending []reconcile.Request
}

// Start implements source.Source.
func (w *waker) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	for _, r := range w.pending {
		queue.Add(r)
	}
	w.pending = nil
	return nil
}

func (w *waker) wake(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := reconcile.Request{NamespacedName: key}
	if w.queue == nil {
		w.pending = append(w.pending, r)
		return
	}
	if w.delay > 0 {
		w.queue.AddAfter(r, w.delay)
		return
	}
	w.queue.Add(r)
}
