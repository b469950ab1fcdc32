package server

import (
	"container/list"
	"context"
	"net"
	"sync"
)

// gate is a listener with a bounded number of open connections. When it is full, the oldest connection on which nothing was
// proven makes room for the next: whoever holds the secret gets in, however many strangers come and stay (row 40).
type gate struct {
	net.Listener
	limit int

	mu        sync.Mutex
	open      int
	strangers list.List // of *guest, oldest first
}

// guest is one open connection.
type guest struct {
	net.Conn
	gate     *gate
	stranger *list.Element // nil once something was proven, or it was closed
	closed   bool
}

// Accept never waits for room: it makes it, or turns the newcomer away when everybody inside is known.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server looks at it
		}
		if guest := g.admit(conn); guest != nil {
			return guest, nil
		}
		_ = conn.Close()
	}
}

func (g *gate) admit(conn net.Conn) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open >= g.limit {
		oldest := g.strangers.Front()
		if oldest == nil {
			return nil
		}
		_ = oldest.Value.(*guest).leave()
	}
	g.open++
	in := &guest{Conn: conn, gate: g}
	in.stranger = g.strangers.PushBack(in)
	return in
}

// Close closes the connection; more than once is the same as once.
func (c *guest) Close() error {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.leave()
}

// leave is Close with the gate's lock held.
func (c *guest) leave() error {
	if c.closed {
		return nil
	}
	c.closed = true
	c.known()
	c.gate.open--
	return c.Conn.Close() //nolint:wrapcheck // a connection's own error
}

// known takes a connection out of those that may have to make room; the gate's lock is held.
func (c *guest) known() {
	if c.stranger != nil {
		c.gate.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

type guestKey struct{}

// withGuest is an http.Server's ConnContext.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, conn)
}

// proven says that the caller of a request holds the secret.
func proven(ctx context.Context) {
	if c, ok := ctx.Value(guestKey{}).(*guest); ok {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.known()
	}
}
