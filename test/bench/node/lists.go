package node

import (
	"net/http"
	"sync"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// lists holds what a harness would say first of all that it has: a Link that asks for it has proved who it talks to, and knows no more.
type lists struct {
	mu   sync.Mutex
	held chan struct{} // nil: none are
}

func (l *lists) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

func (l *lists) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

func (l *lists) now() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// before has lists wait while they are held. One whose Link gave it up meanwhile is not answered, and so not counted.
func (l *lists) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if held := l.now(); held != nil && r.URL.Query().Get(wire.QuerySince) == "0" {
			select {
			case <-held:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
