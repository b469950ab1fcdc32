package gate

import "net"

// What HTTP/2 looks like on the wire (RFC 9113, sections 3.4, 4.1 and 6.2).
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeader = 9 // length (3), type, flags, stream (4)
	typeHeaders = 1
)

// MaxStrangersMultiplexed is how many strangers may speak HTTP/2: each may have several requests under way.
const MaxStrangersMultiplexed = 32

// MaxStrangersRequests is how many requests a connection may have under way on which nothing was proven.
const MaxStrangersRequests = 4

// wire follows what a stranger says as far as it must be told when another request begins. It belongs to who reads.
type wire struct {
	begun   int // bytes of the preface
	other   bool
	payload int // bytes that are left of a frame
	header  [frameHeader]byte
	have    int // bytes of header
}

// most is how many bytes may be read before the next look at them.
func (w *wire) most(n int) int {
	switch {
	case w.begun < len(preface):
		return min(n, len(preface)-w.begun)
	case w.payload > 0:
		return min(n, w.payload)
	}
	return min(n, frameHeader-w.have)
}

// saw takes what was read, of at most that many bytes. It tells whether with it the peer began to speak HTTP/2, or a request.
func (w *wire) saw(p []byte) (second, request bool) {
	switch {
	case len(p) == 0:
	case w.begun < len(preface):
		if w.other = string(p) != preface[w.begun:w.begun+len(p)]; w.other {
			return false, false
		}
		w.begun += len(p)
		return w.begun == len(preface), false
	case w.payload > 0:
		w.payload -= len(p)
	default:
		if w.have += copy(w.header[w.have:], p); w.have == frameHeader {
			w.have = 0
			w.payload = int(w.header[0])<<16 | int(w.header[1])<<8 | int(w.header[2])
			return false, w.header[3] == typeHeaders
		}
	}
	return false, false
}

// Read reads from the connection. Of a stranger that speaks HTTP/2 it does not take in what a request beyond MaxStrangersRequests
// has to say before another was answered: what is taken in is parsed at once, however long it then waits for its answer. Who proves
// something meanwhile goes on, because its first requests may well come all at once. A stranger must be answered without its body,
// which may come behind the headers of others.
func (c *Conn) Read(p []byte) (int, error) {
	if c.wire.other {
		return c.Conn.Read(p) //nolint:wrapcheck // a connection's own error
	}
	if err := c.turn(); err != nil {
		return 0, err
	}
	if c.wire.other {
		return c.Conn.Read(p) //nolint:wrapcheck // as above
	}
	n, err := c.Conn.Read(p[:c.wire.most(len(p))])
	second, request := c.wire.saw(p[:n])
	if second {
		c.speaksHTTP2()
	}
	if request {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.requests++
	}
	return n, err //nolint:wrapcheck // as above
}

// turn waits until more may be read. Once something was proven nobody looks any more.
func (c *Conn) turn() error {
	for {
		c.gate.mu.Lock()
		closed, proven, full := c.closed, c.stranger == nil, c.requests > MaxStrangersRequests
		c.gate.mu.Unlock()
		switch {
		case closed:
			return net.ErrClosed
		case proven:
			c.wire.other = true
			return nil
		case !full:
			return nil
		}
		<-c.changed
	}
}

// change wakes who waits for its turn.
func (c *Conn) change() {
	select {
	case c.changed <- struct{}{}:
	default: // it will look anyhow
	}
}

// speaksHTTP2 makes room among the strangers that do: the oldest goes.
func (c *Conn) speaksHTTP2() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.second = true
	var oldest *Conn
	count := 0
	for e := c.gate.strangers.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*Conn); s.second {
			count++
			if oldest == nil {
				oldest = s
			}
		}
	}
	if count > MaxStrangersMultiplexed {
		_ = oldest.leave()
	}
}
