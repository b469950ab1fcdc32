package netfault

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection through the proxy. Its fields but gone are guarded by the proxy's lock.
type conn struct {
	proxy  *Proxy
	client *net.TCPConn
	server *net.TCPConn // nil until it is dialled
	// gone is closed when both sides were reset.
	gone  chan struct{}
	ended bool
	// spoilt connections lost bytes; they are of no use once the fault that did it is over.
	spoilt   bool
	spoiltBy kind
}

// run passes both directions until both have ended or one was reset.
func (c *conn) run() {
	f, ok := c.passing()
	if !ok {
		return
	}
	if f.kind == halfOpen {
		c.lose(halfOpen)
		_, _ = io.Copy(io.Discard, c.client)
		c.wait()
		return
	}
	if !c.dial() {
		c.close()
		return
	}
	if f.kind == halfClose {
		_ = c.client.CloseWrite()
	}
	var both sync.WaitGroup
	both.Go(func() { c.pump(c.server, c.client, &c.proxy.up, false) })
	both.Go(func() { c.pump(c.client, c.server, &c.proxy.down, true) })
	both.Wait()
}

// dial connects to the target. A target that does not answer resets the client.
func (c *conn) dial() bool {
	c.proxy.mu.Lock()
	target := c.proxy.target
	c.proxy.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, dialWithin) //nolint:noctx // bounded
	if err != nil {
		return false
	}
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.server = server.(*net.TCPConn)
	if c.ended {
		_ = c.server.Close()
		return false
	}
	return true
}

// pump passes one direction on, as the fault of each moment has it.
func (c *conn) pump(to, from *net.TCPConn, count *atomic.Int64, replies bool) {
	buffer := make([]byte, piece)
	for {
		n, failed := from.Read(buffer)
		f, ok := c.passing()
		if !ok {
			return
		}
		switch {
		case f.kind == halfOpen:
			c.lose(halfOpen)
			if !replies { // the client is heard and its words are swallowed
				_, _ = io.Copy(io.Discard, from)
			}
			c.wait()
			return
		case replies && f.kind == dropReplies && (n > 0 || failed != nil):
			c.lose(dropReplies)
			if failed != nil {
				c.wait()
				return
			}
			continue
		case replies && f.kind == halfClose:
			_, _ = io.Copy(io.Discard, from) // the server is not to block on what nobody hears
			return
		case f.kind == delayed && !c.sleep(f.delay):
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				c.close()
				return
			}
			count.Add(int64(n))
		}
		switch {
		case errors.Is(failed, io.EOF):
			_ = to.CloseWrite()
			return
		case failed != nil:
			c.close()
			return
		}
	}
}

// passing waits while everything is held back, and returns the fault of then; not ok is a connection that was reset.
func (c *conn) passing() (f Fault, ok bool) {
	for {
		c.proxy.mu.Lock()
		f, changed := c.proxy.fault, c.proxy.changed
		ended := c.ended || c.proxy.closed
		c.proxy.mu.Unlock()
		if ended {
			return f, false
		}
		if f.kind != blackhole {
			return f, true
		}
		select {
		case <-changed:
		case <-c.gone:
		}
	}
}

// wait holds a connection that is of no use until it is reset.
func (c *conn) wait() { <-c.gone }

func (c *conn) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone:
		return false
	}
}

// lose marks a connection that lost bytes by a fault. One whose fault is over already is reset at once.
func (c *conn) lose(by kind) {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.spoil(by)
	if c.proxy.fault.kind != by {
		c.reset()
	}
}

func (c *conn) close() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.reset()
}

// What follows is called with the proxy's lock held.

func (c *conn) spoil(by kind) { c.spoilt, c.spoiltBy = true, by }

func (c *conn) endReplies() { _ = c.client.CloseWrite() }

func (c *conn) resetServer() {
	if c.server != nil {
		_ = c.server.SetLinger(0)
		_ = c.server.Close()
	}
}

// finish closes both sides after what they were sent, unless they were reset.
func (c *conn) finish() {
	if c.ended {
		return
	}
	c.ended = true
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
	close(c.gone)
}

// reset ends both sides at once; a second time it does nothing.
func (c *conn) reset() {
	if !c.ended {
		_ = c.client.SetLinger(0)
		c.resetServer()
		c.finish()
	}
}
