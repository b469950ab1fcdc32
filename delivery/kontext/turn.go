package kontext

import (
	"context"
	"slices"
	"sync"

	"github.com/hearthdev/hearth/delivery/journal"
)

// turn is one live attempt and those who wait for its end, in this boot.
type turn struct {
	key     journal.Key
	callers []context.Context // under waiting.mu; a caller's context ends when it leaves
	ended   chan struct{}     // closed once entry is set, or the harness ends without
	entry   *journal.Entry    // how it ended; read after ended
}

// waiting is who waits for what. Its lock is held for moments and under every other.
type waiting struct {
	mu    sync.Mutex
	turns map[journal.Key]*turn
}

// join adds a caller to a turn that is being waited for already; nil when nobody does.
func (w *waiting) join(key journal.Key, caller context.Context) *turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.turns[key]
	if t != nil {
		t.callers = append(t.callers, caller)
	}
	return t
}

// open makes a turn with its first caller.
func (w *waiting) open(key journal.Key, caller context.Context) *turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &turn{key: key, callers: []context.Context{caller}, ended: make(chan struct{})}
	w.turns[key] = t
	return t
}

// leave takes a caller out and tells whether nobody is left, of a turn that goes on.
func (w *waiting) leave(t *turn, caller context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.callers = slices.DeleteFunc(t.callers, func(c context.Context) bool { return c == caller })
	return len(t.callers) == 0 && w.turns[t.key] == t
}

// close forgets a turn.
func (w *waiting) close(t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.turns, t.key)
}

// wanted tells whether somebody who has not left waits for an attempt.
func (w *waiting) wanted(key journal.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.turns[key]
	return t != nil && slices.ContainsFunc(t.callers, func(c context.Context) bool { return c.Err() == nil })
}
