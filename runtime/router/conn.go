package router

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
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
	// Watcher is told of everything that is said; nil: nobody is.
	Watcher Watcher
	// Settled, unless nil, is told of the one answer that a request of the agent gets: its result, or nothing where it is an error, and
	// the client that gave it, or nil. It does not block.
	Settled func(r *Request, result jsontext.Value, by any)
	// pause is time.Sleep unless set.
	pause func(time.Duration)
	// Prefix makes session ids unique where there are several agents: everybody but the agent sees them with it. Digits and dots.
	Prefix string
}

// Conn is one connection to one agent. Its methods may be called from any goroutine.
type Conn struct {
	cfg    Config
	out    *outbox
	done   chan struct{}
	heard  atomic.Pointer[time.Time]
	broken atomic.Int64
	nextID atomic.Uint64

	mu       sync.Mutex
	err      error // why it ended
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
	if cfg.pause == nil {
		cfg.pause = time.Sleep //nolint:forbidigo // of the one goroutine that reads, a millisecond at most: there is no condition to wait for
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

// Carries tells whether a session of this id can be this connection's.
func (c *Conn) Carries(id string) bool { return strings.HasPrefix(id, c.cfg.Prefix) }

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

func (c *Conn) touch() time.Time {
	now := c.cfg.Now()
	c.heard.Store(&now)
	return now
}

func (c *Conn) read(written <-chan struct{}) {
	in := newLines(&listener{c: c}, c.cfg.MaxLine)
	for told := 0; ; {
		line, err := in.next()
		switch {
		case errors.Is(err, ErrLineTooLong):
			c.lost(peek(line))
		case err != nil:
			c.end(written)
			return
		default:
			if line = trim(line); len(line) > 0 {
				c.dispatch(line)
			}
		}
		if told++; told >= toldAtOnce || !in.more() {
			told = 0
			if c.cfg.Watcher != nil {
				c.cfg.Watcher.Heard()
			}
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
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		c.unanswered(calls[id], cause.Error())
		calls[id].settle(nil, cause)
	}
	<-written
	close(c.done)
}

func (c *Conn) dispatch(line []byte) {
	f, broken := Parse(own(line), Lenient)
	if broken != nil {
		c.broken.Add(1)
		c.out.pushOptional(failure(nil, broken.Code, broken.Why))
		return
	}
	f = f.prefixed(c.cfg.Prefix, Lenient)
	switch {
	case f.Method == "":
		c.answered(&f)
	case f.ID() == nil:
		mine := c.say(Said{Frame: f, Session: f.Session, Request: f.Method})
		if s := c.session(f.Session, mine); s != nil {
			s.deliver(event{notification: &Notification{Method: f.Method, Params: f.Params()}})
		}
	default:
		c.asked(&f)
	}
}

// own returns bytes that the next line does not overwrite.
func own(line []byte) []byte {
	if len(line) > keptBuffer {
		return line
	}
	return bytes.Clone(line)
}

// asked brings a request of the agent to whoever takes it: the turn that its session carries out, or the watcher.
func (c *Conn) asked(f *Frame) {
	mine := c.say(Said{Frame: *f, Session: f.Session, Request: f.Method})
	r := &Request{Frame: *f, Method: f.Method, Params: f.Params(), conn: c, id: f.ID()}
	permission := f.Method == acp.ClientMethodSessionRequestPermission
	if s := c.session(f.Session, mine); s != nil && permission {
		s.deliver(event{request: r})
		return
	}
	switch {
	case c.cfg.Watcher != nil && c.cfg.Watcher.Asked(r):
	case permission:
		_ = r.Cancel()
	default:
		_ = r.Fail(codeMethodNotFound, "method not found: "+f.Method)
	}
}

func (c *Conn) answered(f *Frame) {
	call := c.take(f.ID())
	if call == nil {
		c.broken.Add(1)
		return
	}
	session := call.session
	if session == "" {
		session = f.Session
	}
	c.say(Said{Frame: *f, Session: session, Request: call.method})
	call.settle(f, nil)
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
			c.unanswered(call, ErrLineTooLong.Error())
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
		if p.session == "" || c.cfg.Prefix+p.session == id {
			concerned = append(concerned, s)
		}
	}
	c.mu.Unlock()
	for _, s := range concerned {
		s.deliver(event{lost: ErrLineTooLong})
	}
}
