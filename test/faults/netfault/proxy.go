package netfault

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialWithin   = 5 * time.Second
	listenWithin = 5 * time.Second // how long Heal tries to get the address back that Refuse gave up
	piece        = 32 << 10        // bytes that are passed on at once
)

// Proxy listens at one address and passes connections on to another. Its methods may be called from everywhere.
type Proxy struct {
	addr     string
	up, down atomic.Int64
	accepted atomic.Int64
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string
	fault    Fault
	changed  chan struct{} // closed at every change of the fault
	listener net.Listener  // nil while Refuse stands and after Close
	conns    map[*conn]struct{}
	closed   bool
}

// New listens at an address ("127.0.0.1:0" for any port) and passes connections on to target. Close ends it.
func New(listen, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", listen) //nolint:noctx // Close ends it
	if err != nil {
		return nil, fmt.Errorf("fault proxy for %s: %w", target, err)
	}
	p := &Proxy{addr: l.Addr().String(), target: target, changed: make(chan struct{}), conns: map[*conn]struct{}{}}
	p.serve(l)
	return p, nil
}

// Addr is where it listens, as host:port.
func (p *Proxy) Addr() string { return p.addr }

// Connections counts what was accepted since New.
func (p *Proxy) Connections() int { return int(p.accepted.Load()) }

// Bytes counts what was passed on since New, to the server and to the client.
func (p *Proxy) Bytes() (toServer, toClient int64) { return p.up.Load(), p.down.Load() }

// Open counts the connections that stand now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Retarget sends new connections elsewhere. Those that stand stay where they are until Cut.
func (p *Proxy) Retarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Heal passes everything again.
func (p *Proxy) Heal() { p.Set(Fault{}) }

// Set puts a fault in the place of the one before, for connections that stand and for new ones. When it returns the fault holds.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	for c := range p.conns {
		switch {
		case f.kind == refuse, c.spoilt && f.kind != c.spoiltBy:
			c.reset()
		case f.kind == halfClose:
			c.endReplies()
		case f.kind == halfOpen:
			c.spoil(halfOpen)
			c.resetServer()
		}
	}
	switch {
	case f.kind == refuse && p.listener != nil:
		_ = p.listener.Close()
		p.listener = nil
	case f.kind != refuse && p.listener == nil:
		p.serve(again(p.addr))
	}
}

// again takes the address back. That somebody else took it meanwhile ends the test.
func again(addr string) net.Listener {
	for until := time.Now().Add(listenWithin); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", addr) //nolint:noctx // Close ends it
		if err == nil {
			return l
		}
		if time.Now().After(until) {
			panic(fmt.Sprintf("fault proxy: listen at %s again: %v", addr, err))
		}
	}
}

// Cut resets all connections that stand. New ones are served.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.reset()
	}
}

// Close ends it and all its connections, and waits for them.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.changed)
		if p.listener != nil {
			_ = p.listener.Close()
			p.listener = nil
		}
		for c := range p.conns {
			c.reset()
		}
	}
	p.mu.Unlock()
	p.running.Wait()
}

// serve accepts at a listener until it is closed. The caller holds the lock, or nobody else knows p.
func (p *Proxy) serve(l net.Listener) {
	p.listener = l
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				p.accept(client.(*net.TCPConn))
			}
		}
	})
}

func (p *Proxy) accept(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &conn{proxy: p, client: client, gone: make(chan struct{})}
	if p.closed || p.fault.kind == refuse {
		c.reset()
		return
	}
	p.accepted.Add(1)
	p.conns[c] = struct{}{}
	p.running.Go(func() {
		c.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		c.finish()
		delete(p.conns, c)
	})
}
