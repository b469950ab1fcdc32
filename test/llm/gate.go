package llm

import (
	"context"
	"sync"
)

// maxGates bounds what strangers can make the server remember.
const maxGates = 1024

// gates are named one-way switches: a script waits at one until somebody opens it, before or after.
type gates struct {
	mu   sync.Mutex
	byID map[string]chan struct{}
}

func (g *gates) get(name string) (chan struct{}, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.byID[name]
	if ok {
		return c, true
	}
	if len(g.byID) == maxGates {
		return nil, false
	}
	c = make(chan struct{})
	if g.byID == nil {
		g.byID = map[string]chan struct{}{}
	}
	g.byID[name] = c
	return c, true
}

func (g *gates) open(name string) bool {
	c, ok := g.get(name)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
	return true
}

func (g *gates) wait(ctx context.Context, name string) error {
	c, ok := g.get(name)
	if !ok {
		return statusError{507, "gate: too many gates"}
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
