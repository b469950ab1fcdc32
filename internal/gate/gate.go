// Package gate serves HTTP to strangers: it bounds the connections of a listener, and the bodies that are read on them, without
// letting strangers keep anybody out (fault row 40; SPEC.md, Limits).
package gate

import (
	"container/list"
	"context"
	"io"
	"net"
	"sync"
)

// Listener is a listener with a bounded number of open connections. When it is full, a connection on which nothing was proven
// makes room for the next: the oldest of the address that has the most of them. So who holds the secret gets in however many
// strangers come and stay, and who comes from elsewhere is not pushed out by one address's flood. There is no bound for an
// address of its own: behind a NAT, a mesh or a port-forward many callers share one, and strangers there could use it up.
type Listener struct {
	net.Listener
	// Bytes bounds what the bodies of all strangers together may hold in memory, where Body reads them; no bound when 0.
	// Set it before the first Accept.
	Bytes int
	limit int

	mu        sync.Mutex
	open      int
	lesser    int            // known, with a lesser proof
	held      int            // bytes, by all strangers
	strangers list.List      // of *Conn, oldest first
	from      map[string]int // how many strangers an address has
}

// Conn is one open connection. It is a stranger until something was proven on it.
type Conn struct {
	net.Conn
	gate     *Listener
	address  string
	stranger *list.Element // nil once something was proven, or it was closed
	held     int           // bytes, while it is a stranger
	lesser   bool
	closed   bool

	wire     wire          // of a stranger; the reader's alone
	second   bool          // it speaks HTTP/2
	requests int           // under way while it is a stranger that does
	changed  chan struct{} // of what its reader waits for
}

// New bounds a listener to that many open connections, at least 1.
func New(l net.Listener, limit int) *Listener {
	return &Listener{Listener: l, limit: limit, from: map[string]int{}}
}

// Accept never waits for room: it makes it, or turns the newcomer away when everybody inside is known.
func (g *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server looks at it
		}
		if in := g.admit(conn); in != nil {
			return in, nil
		}
		_ = conn.Close()
	}
}

func (g *Listener) admit(conn net.Conn) *Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open >= g.limit {
		next := g.next()
		if next == nil {
			return nil
		}
		_ = next.leave()
	}
	g.open++
	in := &Conn{Conn: conn, gate: g, address: HostOf(conn.RemoteAddr().String()), changed: make(chan struct{}, 1)}
	in.stranger = g.strangers.PushBack(in)
	g.from[in.address]++
	return in
}

// next is the stranger that makes room, nil when there is none; the lock is held.
func (g *Listener) next() *Conn {
	most := 0
	for _, n := range g.from {
		most = max(most, n)
	}
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*Conn); g.from[c.address] == most {
			return c
		}
	}
	return nil
}

// Close closes the connection; more than once is the same as once.
func (c *Conn) Close() error {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.leave()
}

// leave is Close with the gate's lock held.
func (c *Conn) leave() error {
	if c.closed {
		return nil
	}
	c.closed = true
	c.change()
	c.known()
	c.rise()
	c.gate.open--
	return c.Conn.Close() //nolint:wrapcheck // a connection's own error
}

// Proven says that the peer proved who it is: from now on the connection makes room for nobody.
func (c *Conn) Proven() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.known()
	c.rise()
}

// ProvenLesser is Proven with a proof that more people have: those keep at most three quarters of the connections, and beyond that
// one makes room like a stranger.
func (c *Conn) ProvenLesser() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.stranger != nil && c.gate.lesser < max(1, c.gate.limit*3/4) {
		c.known()
		c.gate.lesser++
		c.lesser = true
	}
}

// rise takes a connection out of those with a lesser proof; the gate's lock is held.
func (c *Conn) rise() {
	if c.lesser {
		c.gate.lesser--
		c.lesser = false
	}
}

// known takes a connection out of those that may have to make room; the gate's lock is held.
func (c *Conn) known() {
	if c.stranger == nil {
		return
	}
	c.release()
	c.gate.strangers.Remove(c.stranger)
	c.stranger = nil
	c.change()
	if c.gate.from[c.address]--; c.gate.from[c.address] == 0 {
		delete(c.gate.from, c.address)
	}
}

// Of finds the gate's connection under others that wrap it, such as a *tls.Conn; nil when there is none.
func Of(conn net.Conn) *Conn {
	for conn != nil {
		if c, ok := conn.(*Conn); ok {
			return c
		}
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = outer.NetConn()
	}
	return nil
}

type key struct{}

// With is an http.Server's ConnContext: requests on a connection of a gate know it.
func With(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, key{}, Of(conn))
}

// Proven says that the caller of a request proved who it is; the context is the request's. Without a gate it does nothing.
func Proven(ctx context.Context) {
	if c, _ := ctx.Value(key{}).(*Conn); c != nil {
		c.Proven()
	}
}

// ProvenLesser says that the caller of a request has a lesser proof, as Proven does.
func ProvenLesser(ctx context.Context) {
	if c, _ := ctx.Value(key{}).(*Conn); c != nil {
		c.ProvenLesser()
	}
}

// Enter tells whether a request is still to be answered: not where its connection was closed to make room. Leave says that it was
// answered, so that a stranger's next one may come in. The context is the request's; without a gate everything is answered.
func Enter(ctx context.Context) (leave func(), ok bool) {
	c, _ := ctx.Value(key{}).(*Conn)
	if c == nil {
		return func() {}, true
	}
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.answered, !c.closed
}

func (c *Conn) answered() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.second {
		c.requests--
		c.change()
	}
}

// counted counts what is read of a request while its connection is a stranger's. Where all strangers hold more than the gate's
// Bytes, the one that holds the most is thrown out; among equals the oldest. The context is the request's; without a gate it
// counts nothing.
func counted(ctx context.Context, r io.Reader) io.Reader {
	if c, _ := ctx.Value(key{}).(*Conn); c != nil && c.gate.Bytes > 0 {
		return reader{r, c}
	}
	return r
}

// Release says that what was read of a request is held no longer.
func Release(ctx context.Context) {
	if c, _ := ctx.Value(key{}).(*Conn); c != nil {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.release()
	}
}

type reader struct {
	io.Reader
	conn *Conn
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.conn.hold(n)
	return n, err //nolint:wrapcheck // io.EOF must stay what it is
}

func (c *Conn) hold(n int) {
	g := c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.stranger == nil {
		return
	}
	c.held += n
	g.held += n
	for g.held > g.Bytes {
		var most *Conn
		for e := g.strangers.Front(); e != nil; e = e.Next() {
			if s := e.Value.(*Conn); most == nil || s.held > most.held {
				most = s
			}
		}
		_ = most.leave()
	}
}

// release forgets what a connection held; the gate's lock is held.
func (c *Conn) release() {
	c.gate.held -= c.held
	c.held = 0
}
