package llm

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// maxMarks bounds what strangers can make the server remember.
const maxMarks = 4096

// marks are when what was first: each holds the time at which the first request with its name came in.
type marks struct {
	mu     sync.Mutex
	byName map[string]*mark
}

type mark struct {
	at  time.Time     // to be read once set is closed
	set chan struct{} // closed when at is known
}

// of returns the mark of that name, which may have to be set yet; nil when there are too many.
func (m *marks) of(name string) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.byName[name]
	if ok {
		return found
	}
	if len(m.byName) == maxMarks {
		return nil
	}
	if m.byName == nil {
		m.byName = map[string]*mark{}
	}
	found = &mark{set: make(chan struct{})}
	m.byName[name] = found
	return found
}

// set keeps the time unless an earlier request did.
func (m *marks) set(name string, at time.Time) error {
	found := m.of(name)
	if found == nil {
		return statusError{http.StatusInsufficientStorage, "mark: too many marks"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-found.set:
	default:
		found.at = at
		close(found.set)
	}
	return nil
}

// wait returns the time of a mark as soon as it is set.
func (m *marks) wait(ctx context.Context, name string) (time.Time, error) {
	found := m.of(name)
	if found == nil {
		return time.Time{}, statusError{http.StatusInsufficientStorage, "mark: too many marks"}
	}
	select {
	case <-found.set:
		return found.at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

func (m *marks) get(w http.ResponseWriter, r *http.Request) {
	at, err := m.wait(r.Context(), r.PathValue("name"))
	if err != nil { // too many, or nobody waits any more
		writeError(w, http.StatusInsufficientStorage, err.Error())
		return
	}
	_, _ = fmt.Fprint(w, at.UTC().Format(time.RFC3339Nano))
}
