package endpoint

import (
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hearthdev/hearth/runtime/attach"
)

// Bounds of what waits for a client's streams.
const (
	maxWaitingBytes   = 4 << 20 // of a connection, beyond the first message of each stream
	maxWaitingStreams = 64      // with messages that nobody came for yet
)

var (
	errUnread  = &parting{websocket.StatusTryAgainLater, "messages wait, and nobody reads their stream"}
	errOrphan  = &parting{websocket.StatusGoingAway, "no stream was opened for a minute"}
	errStreams = &parting{websocket.StatusTryAgainLater, "messages wait for too many sessions, and nobody reads their streams"}
)

// connection is a client of streamable HTTP, between its requests.
type connection struct {
	*guest
	pace  pace
	first chan []byte   // the answer to initialize
	over  chan struct{} // closed when nothing serves it any more

	receiving sync.Mutex

	mu      sync.Mutex
	streams map[string]*stream
	waiting int // bytes, in all streams
	readers int
	orphan  *time.Timer // runs while nobody reads
	room    chan struct{}
}

// stream is what waits for one GET: of a session, or of the connection.
type stream struct {
	session string
	queue   [][]byte
	taken   bool
	wake    chan struct{}
}

func newConnection(in *guest, p pace) *connection {
	c := &connection{
		guest: in, pace: p, first: make(chan []byte, 1), over: make(chan struct{}), streams: map[string]*stream{}, room: make(chan struct{}, 1),
	}
	c.orphan = time.AfterFunc(p.orphan, func() { c.end(errOrphan) })
	return c
}

// receive hands over one message; one comes after the other.
func (c *connection) receive(body []byte) {
	c.mu.Lock()
	if c.readers == 0 {
		c.orphan.Reset(c.pace.orphan)
	}
	c.mu.Unlock()
	c.receiving.Lock()
	defer c.receiving.Unlock()
	c.Receive(body)
}

// pump sorts what there is for the client, until the connection ends. The first answer is that to initialize.
func (c *connection) pump() {
	defer c.orphan.Stop()
	answered := false
	for {
		m, err := c.next()
		if err != nil {
			return
		}
		if !answered {
			if got, err := parseMessage(m.Data); err != nil || got.method == "" {
				answered = true
				c.first <- m.Data
				continue
			}
		}
		if !c.put(m) {
			return
		}
	}
}

// put lets a message wait for its stream, and waits itself while there is no room. It tells whether the connection goes on.
func (c *connection) put(m attach.Message) bool {
	stuck := time.NewTimer(c.pace.stall)
	defer stuck.Stop()
	for {
		taken, err := c.offer(m)
		if err != nil {
			c.end(err)
			return false
		}
		if taken {
			return true
		}
		select {
		case <-c.room:
			stuck.Reset(c.pace.stall)
		case <-stuck.C:
			c.end(errUnread)
			return false
		case <-c.ctx.Done():
			return false
		}
	}
}

// offer takes a message if there is room for it. One of any size is taken when none waits for the same stream.
func (c *connection) offer(m attach.Message) (bool, *parting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stream(m.Session)
	if len(st.queue) > 0 && c.waiting+len(m.Data) > maxWaitingBytes {
		return false, nil
	}
	st.queue = append(st.queue, m.Data)
	c.waiting += len(m.Data)
	if !st.taken && len(st.queue) == 1 {
		idle := 0
		for _, other := range c.streams {
			if !other.taken {
				idle++
			}
		}
		if idle > maxWaitingStreams {
			return false, errStreams
		}
	}
	signal(st.wake)
	return true, nil
}

// stream is that of a session; the lock is held.
func (c *connection) stream(session string) *stream {
	st := c.streams[session]
	if st == nil {
		st = &stream{session: session, wake: make(chan struct{}, 1)}
		c.streams[session] = st
	}
	return st
}

// take gives a stream to its reader; nil when it has one.
func (c *connection) take(session string) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stream(session)
	if st.taken {
		return nil
	}
	st.taken = true
	c.readers++
	c.orphan.Stop()
	return st
}

// drop takes a stream back. What still waits in it is for the next reader.
func (c *connection) drop(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.taken = false
	if len(st.queue) == 0 {
		delete(c.streams, st.session)
	}
	if c.readers--; c.readers == 0 && c.ctx.Err() == nil {
		c.orphan.Reset(c.pace.orphan)
	}
}

// pop is the next message of a stream; nil when none waits.
func (c *connection) pop(st *stream) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(st.queue) == 0 {
		return nil
	}
	data := st.queue[0]
	st.queue[0] = nil
	st.queue = st.queue[1:]
	c.waiting -= len(data)
	signal(c.room)
	return data
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // it has been told
	}
}
