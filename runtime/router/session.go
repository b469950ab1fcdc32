package router

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What is kept of a session that nobody is attached to yet, and of how many that are not even answered for.
const (
	maxEarlyBytes    = 4 << 20
	maxEarlySessions = 16
)

// Notification is a notification of the agent that names a session, as it came.
type Notification struct {
	Method string
	Params jsontext.Value
}

// Sink takes what concerns one session, in the agent's order. It is called by the goroutine that reads the agent, so it must
// not block and must not call the Session's Attach or Release.
type Sink interface {
	Notified(Notification)
	// Asked brings a request of the agent; it may be answered later and from anywhere.
	Asked(*Request)
	// Lost says that a message of this session could not be delivered.
	Lost(error)
}

// event is one of the three.
type event struct {
	notification *Notification
	request      *Request
	lost         error
}

func (e event) to(s Sink) {
	switch {
	case e.notification != nil:
		s.Notified(*e.notification)
	case e.request != nil:
		s.Asked(e.request)
	default:
		s.Lost(e.lost)
	}
}

// Session is one conversation with the agent. What arrives before Attach is kept and delivered then, up to 4 MiB.
type Session struct {
	ID string
	// Mode is the mode the agent said the session begins in; "" when it has no modes.
	Mode string

	conn *Conn
	mu   sync.Mutex
	sink Sink
	kept []event
	size int
}

// deliver hands the event to the sink, or keeps it.
func (s *Session) deliver(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sink != nil:
		e.to(s.sink)
	case e.request != nil: // nobody is there who could be asked
		_ = e.request.Cancel()
	case e.notification != nil:
		if s.size += len(e.notification.Params); s.size <= maxEarlyBytes {
			s.kept = append(s.kept, e)
		}
	}
}

// Attach delivers what was kept and from now on everything to the sink.
func (s *Session) Attach(sink Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.kept {
		e.to(sink)
	}
	s.kept, s.sink = nil, sink
}

// Release forgets the session; what the agent still sends for it is dropped.
func (s *Session) Release() {
	s.conn.mu.Lock()
	delete(s.conn.sessions, s.ID)
	s.conn.mu.Unlock()
}

// Meta is what a prompt says beside its text, in its _meta; nil: nothing.
type Meta map[string]any

// Prompt sends session/prompt with these texts as content blocks.
func (s *Session) Prompt(texts ...string) (*Call, error) { return s.PromptWith(nil, texts...) }

// PromptWith is Prompt with a _meta.
func (s *Session) PromptWith(meta Meta, texts ...string) (*Call, error) {
	return s.conn.Send(acp.AgentMethodSessionPrompt, s.prompt(meta, texts))
}

// PromptBytes is how long PromptWith's message would be.
func (s *Session) PromptBytes(meta Meta, texts ...string) (int, error) {
	line, err := request(0, acp.AgentMethodSessionPrompt, s.prompt(meta, texts))
	return len(line), err
}

func (s *Session) prompt(meta Meta, texts []string) acp.PromptRequest {
	p := acp.PromptRequest{Meta: meta, SessionId: acp.SessionId(s.ID)}
	for _, t := range texts {
		p.Prompt = append(p.Prompt, acp.TextBlock(t))
	}
	return p
}

// Cancel sends session/cancel; the prompt's own answer tells how it ended.
func (s *Session) Cancel() error {
	return s.conn.Notify(acp.AgentMethodSessionCancel, acp.CancelNotification{SessionId: acp.SessionId(s.ID)})
}

// session finds a session by its id. While a session/new is in flight an unknown id may be the one it will answer, unless it is
// known whose it is.
func (c *Conn) session(id string, known bool) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil || id == "" || known {
		return s
	}
	if c.early[id] == nil && c.opening > 0 && len(c.early) < maxEarlySessions {
		c.early[id] = &Session{ID: id, conn: c}
	}
	return c.early[id]
}

// NewSession opens a session in the directory cwd. The errors are those of Conn.Call.
func (c *Conn) NewSession(ctx context.Context, cwd string) (*Session, error) {
	c.mu.Lock()
	c.opening++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.opening--; c.opening == 0 {
			clear(c.early)
		}
	}()
	opened := make(chan *Session, 1)
	_, err := c.wait(ctx, func() (*Call, error) {
		params := acp.NewSessionRequest{Cwd: cwd, McpServers: []acp.McpServer{}}
		return c.send(acp.AgentMethodSessionNew, params, func(result jsontext.Value) { opened <- c.open(result) })
	})
	if err != nil {
		return nil, fmt.Errorf("session/new: %w", err)
	}
	s := <-opened
	if s == nil {
		return nil, fmt.Errorf("session/new: the agent's answer has no sessionId")
	}
	return s, nil
}

// open registers the session before anything after its answer is read.
func (c *Conn) open(result jsontext.Value) *Session {
	var answer struct {
		SessionID string `json:"sessionId"`
		Modes     *struct {
			CurrentModeID string `json:"currentModeId"`
		} `json:"modes"`
	}
	if result.Kind() != '{' || json.Unmarshal(result, &answer, Lenient) != nil || answer.SessionID == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.early[answer.SessionID]
	if s == nil {
		s = &Session{ID: answer.SessionID, conn: c}
	}
	delete(c.early, s.ID)
	if answer.Modes != nil {
		s.Mode = answer.Modes.CurrentModeID
	}
	c.sessions[s.ID] = s
	return s
}

// Request is a request of the agent. It is answered once; later answers do nothing.
type Request struct {
	Frame
	Method string
	Params jsontext.Value

	conn    *Conn
	id      jsontext.Value
	settled atomic.Pointer[time.Time]
	overdue atomic.Bool
}

// Expire says that those who were asked did not answer in time; Overdue tells whether that was said.
func (r *Request) Expire() { r.overdue.Store(true) }

// Overdue tells whether the answer is given in the place of people who were asked and did not answer in time.
func (r *Request) Overdue() bool { return r.overdue.Load() }

// Settled tells when the request was answered; false while it is open.
func (r *Request) Settled() (time.Time, bool) {
	at := r.settled.Load()
	if at == nil {
		return time.Time{}, false
	}
	return *at, true
}

// Answer answers with a result.
func (r *Request) Answer(result any) error {
	line, err := message(r.id, "result", result)
	if err != nil {
		return err
	}
	_, err = r.answer(trimNewline(line), nil)
	return err
}

// Fail answers with an error.
func (r *Request) Fail(code int, why string) error {
	_, err := r.answer(trimNewline(failure(r.id, code, why)), nil)
	return err
}

// Forward answers with a client's answer, of which every byte but the id is kept. It tells whether this was the first answer.
func (r *Request) Forward(f *Frame, by any) bool {
	first, _ := r.answer(oneLine(f.WithID(r.id)), by) // a connection that is gone shows elsewhere
	return first
}

func (r *Request) answer(raw []byte, by any) (first bool, err error) {
	now := r.conn.cfg.Now()
	if !r.settled.CompareAndSwap(nil, &now) {
		return false, nil
	}
	f, _ := Parse(raw, Lenient)
	if settled := r.conn.cfg.Settled; settled != nil {
		settled(r, f.Result(), by)
	}
	r.conn.say(Said{Frame: f, Session: r.Session, Request: r.Method, ToAgent: true, By: by})
	return true, r.conn.out.push(append(raw, '\n'))
}

// Cancel answers a permission request with the outcome "cancelled".
func (r *Request) Cancel() error {
	return r.Answer(acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()})
}
