package router

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"
)

// Config is what a connection is made of.
type Config struct {
	In  io.ReadCloser  // what the agent writes
	Out io.WriteCloser // what the agent reads
	// Cause is called once, when the agent's stream has ended; it returns why, and may wait for that.
	Cause func() error
	Now   func() time.Time
	// MaxLine is MaxLine unless set.
	MaxLine int
}

// Conn is one connection to one agent. Its methods may be called from any goroutine.
type Conn struct {
	cfg    Config
	out    *outbox
	done   chan struct{}
	heard  atomic.Pointer[time.Time]
	broken atomic.Int64

	mu       sync.Mutex
	err      error // why it ended
	nextID   uint64
	calls    map[uint64]*Call
	sessions map[string]*Session
	opening  int                 // session/new calls in flight
	early    map[string]*Session // sessions heard of before their session/new was answered
}

// Open starts reading and writing. The connection ends with the agent's stream, or by Close.
func Open(cfg Config) *Conn {
	if cfg.MaxLine == 0 {
		cfg.MaxLine = MaxLine
	}
	c := &Conn{
		cfg: cfg, out: newOutbox(), done: make(chan struct{}),
		calls: map[uint64]*Call{}, sessions: map[string]*Session{}, early: map[string]*Session{},
	}
	c.touch()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.out.run(cfg.Out)
	}()
	go c.read(written)
	return c
}

// Close ends the connection; pending calls fail. It does not wait; Done tells when all is settled.
func (c *Conn) Close() {
	c.out.close()
	_ = c.cfg.Out.Close()
	_ = c.cfg.In.Close()
}

// Done is closed when the connection has ended and every call has failed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection lives; after that it is what Cause returned.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// LastHeard is when the agent last wrote anything.
func (c *Conn) LastHeard() time.Time { return *c.heard.Load() }

// Broken counts lines that were no message.
func (c *Conn) Broken() int64 { return c.broken.Load() }

func (c *Conn) touch() {
	now := c.cfg.Now()
	c.heard.Store(&now)
}

// listener notes every sign of life, half a line included.
type listener struct{ c *Conn }

func (l listener) Read(p []byte) (int, error) {
	n, err := l.c.cfg.In.Read(p)
	if n > 0 {
		l.c.touch()
	}
	return n, err
}

func (c *Conn) read(written <-chan struct{}) {
	in := newLines(listener{c}, c.cfg.MaxLine)
	for {
		line, err := in.next()
		switch {
		case errors.Is(err, ErrLineTooLong):
			c.lost(peek(line))
			continue
		case err != nil:
			c.end(written)
			return
		}
		if line = trim(line); len(line) > 0 {
			c.dispatch(line)
		}
	}
}

// end fails what is pending once it is known why the stream ended.
func (c *Conn) end(written <-chan struct{}) {
	cause := c.cfg.Cause()
	if cause == nil {
		cause = ErrClosed
	}
	c.Close()
	c.mu.Lock()
	c.err = cause
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, call := range calls {
		call.settle(nil, cause)
	}
	<-written
	close(c.done)
}

func (c *Conn) dispatch(line []byte) {
	f, broken := decode(line)
	switch {
	case broken != nil:
		c.broken.Add(1)
		c.out.pushOptional(failure(nil, broken.code, broken.why))
	case f.Method == nil:
		c.answered(f)
	case f.ID == nil:
		if s := c.session(sessionOf(f.Params)); s != nil {
			s.deliver(event{notification: &Notification{Method: *f.Method, Params: f.Params}})
		}
	case *f.Method == acp.ClientMethodSessionRequestPermission:
		r := &Request{Method: *f.Method, Params: f.Params, conn: c, id: f.ID}
		if s := c.session(sessionOf(f.Params)); s != nil {
			s.deliver(event{request: r})
			return
		}
		_ = r.Cancel()
	default:
		_ = c.out.push(failure(f.ID, codeMethodNotFound, "method not found: "+*f.Method))
	}
}

func (c *Conn) answered(f frame) {
	call := c.take(f.ID)
	switch {
	case call == nil:
		c.broken.Add(1)
	case f.Error != nil && f.Error.Kind() != 'n':
		call.settle(nil, rpcError(f.Error))
	default:
		if call.first != nil {
			call.first(f.Result)
		}
		call.settle(f.Result, nil)
	}
}

// take removes and returns the call with this id.
func (c *Conn) take(id jsontext.Value) *Call {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[n]
	delete(c.calls, n)
	return call
}

// lost tells whoever a skipped message concerns; if it cannot be told whom, everybody.
func (c *Conn) lost(p peeked) {
	if !p.method && p.id != nil {
		if call := c.take(p.id); call != nil {
			call.settle(nil, ErrLineTooLong)
			return
		}
	}
	if p.method && p.id != nil {
		_ = c.out.push(failure(p.id, codeInvalidRequest, "the message is too long"))
	}
	c.mu.Lock()
	var concerned []*Session
	for id, s := range c.sessions {
		if p.session == "" || p.session == id {
			concerned = append(concerned, s)
		}
	}
	c.mu.Unlock()
	for _, s := range concerned {
		s.deliver(event{lost: ErrLineTooLong})
	}
}
