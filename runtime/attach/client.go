// Package attach lets any number of clients of the Agent Client Protocol watch and steer the sessions of the standing agents: the
// harness owns the one connection to each agent, and clients come and go (R50–R54; SPEC.md, People at the agent).
package attach

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
)

// Access is what a client's key lets it do; a higher one includes the lower (R53).
type Access int

// The accesses.
const (
	None  Access = iota
	View         // watch
	Steer        // watch, prompt, cancel and answer permission questions
)

func (a Access) String() string {
	switch a {
	case View:
		return "view"
	case Steer:
		return "steer"
	default:
		return "none"
	}
}

// Message is one JSON-RPC message on its way to a client.
type Message struct {
	// Session is the session it belongs to; "" for what belongs to the connection. A transport with one stream ignores it.
	Session string
	// Data is the message without a newline. Many clients share it: it must not be changed.
	Data []byte
}

// Client is one client's connection. Receive is called by one goroutine, Next and More by one other.
type Client struct {
	hub    *Hub
	access Access
	out    *outbox

	mu       sync.Mutex
	greeted  bool // initialize was answered
	left     bool
	calls    map[*pending]struct{}
	sessions map[*session]struct{}
}

// pending is a request of the client that waits for an agent.
type pending struct {
	id      jsontext.Value
	session string // whose stream the answer goes to
	conn    *router.Conn
	call    *router.Call // once it was sent
}

// Next waits for the next message to the client. The error is ctx's, ErrSlow or ErrClosed.
func (c *Client) Next(ctx context.Context) (Message, error) { return c.out.next(ctx) }

// More tells whether Next returns at once.
func (c *Client) More() bool { return c.out.more() }

// Close says that the client is gone. What it began goes on (R54).
func (c *Client) Close() {
	c.out.close(ErrClosed)
	c.mu.Lock()
	c.left = true
	sessions := c.sessions
	c.sessions = map[*session]struct{}{}
	c.mu.Unlock()
	for s := range sessions {
		s.leave(c)
	}
	c.hub.mu.Lock()
	delete(c.hub.clients, c)
	c.hub.mu.Unlock()
}

func (s *session) leave(c *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	for _, q := range s.questions {
		delete(q.viewers, c) // it stays open for those who come late
	}
}

// attach lets a client see what is said from here on. The session's lock is held.
func (s *session) attach(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.sessions[s] = struct{}{}
		s.clients[c] = struct{}{}
	}
}

// greeted are the clients that were told who is here.
func (h *Hub) greeted() []*Client {
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.clients))
	h.mu.Unlock()
	return slices.DeleteFunc(all, func(c *Client) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.greeted
	})
}

// Receive takes one message of the client, which must not be changed any more. It does not wait for an agent.
func (c *Client) Receive(message []byte) {
	f, bad := router.Parse(message, router.Strict)
	switch {
	case bad != nil:
		c.out.answer(Message{Data: failure(nil, refuse(bad.Code, "%s", bad.Why))})
	case f.Method == "":
		c.hub.answered(c, &f)
	case f.ID() == nil:
		c.told(&f)
	default:
		if r := c.asked(&f); r != nil {
			c.fail(&f, r)
		}
	}
}

// reply answers a request about the connection. Until the answer's turn comes result, which makes it, is kept: it may hold on to nothing
// of the request.
func (c *Client) reply(f *router.Frame, result func() []byte) { c.out.answerLater(f.ID(), result) }

func (c *Client) fail(f *router.Frame, r *refusal) {
	c.out.answer(Message{Session: streamOf(f), Data: failure(f.ID(), r)})
}

// streamOf is the session whose stream an answer belongs to, as the transport has it: those that open a session are the connection's.
func streamOf(f *router.Frame) string {
	switch f.Method {
	case acp.AgentMethodSessionNew, acp.AgentMethodSessionLoad, acp.AgentMethodSessionResume:
		return ""
	}
	return f.Session
}
