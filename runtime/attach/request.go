package attach

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

const methodDelete = "session/delete"

// errSteered is why a run that a person stopped was cancelled.
var errSteered = errors.New("cancelled by a person who is attached to the session")

// asked takes a request. What it returns is the answer, if it is an error that is known at once.
func (c *Client) asked(f *router.Frame) *refusal {
	if f.Method == acp.AgentMethodInitialize {
		return c.greet(f)
	}
	c.mu.Lock()
	greeted := c.greeted
	c.mu.Unlock()
	if !greeted {
		return refuse(codeInvalidRequest, "%.64s: expected initialize first", f.Method)
	}
	switch f.Method {
	case acp.AgentMethodSessionList:
		c.reply(f, c.hub.list)
		return nil
	case acp.AgentMethodSessionLoad, acp.AgentMethodSessionResume:
		return c.load(f)
	}
	if c.access != Steer {
		return refuse(CodeNotAllowed, "%.64s needs the steer key: this one can only watch", f.Method)
	}
	switch f.Method {
	case methodCancelRequest: // it would have the ids of requests that are others'
		return refuse(codeInvalidRequest, "%s: expected a notification, which has no id", f.Method)
	case acp.AgentMethodSessionNew:
		return c.begin(f)
	case acp.AgentMethodSessionPrompt:
		return c.prompt(f)
	}
	return c.pass(f)
}

// told takes a notification. There is nobody to tell that it is not allowed.
func (c *Client) told(f *router.Frame) {
	if f.Method == methodCancelRequest {
		c.withdraw(readObject(f.Params()).get("requestId"))
		return
	}
	c.mu.Lock()
	greeted := c.greeted
	c.mu.Unlock()
	if c.access != Steer || !greeted || isRequest(f.Method) {
		return
	}
	s, st, r := c.concerned(f)
	if r != nil {
		return
	}
	if s != nil && f.Method == acp.AgentMethodSessionCancel {
		s.mu.Lock()
		cancel := s.cancel
		s.mu.Unlock()
		if cancel != nil {
			cancel(errSteered)
			return
		}
		s.cancelQuestions()
	}
	if conn, _, up := st.link(); up {
		_ = conn.ForwardNotification(f, c) // one that is gone shows in what is pending
	}
}

// isRequest tells whether a method is one that is answered: an agent might carry it out although nobody could be told.
func isRequest(method string) bool {
	switch method {
	case acp.AgentMethodInitialize, acp.AgentMethodAuthenticate, acp.AgentMethodLogout:
		return true
	}
	return strings.HasPrefix(method, "session/") && method != acp.AgentMethodSessionCancel
}

// withdraw gives up a request of the client.
func (c *Client) withdraw(id jsontext.Value) {
	c.mu.Lock()
	var found *pending
	for p := range c.calls {
		if p.call != nil && bytes.Equal(p.id, id) {
			found = p
		}
	}
	c.mu.Unlock()
	if found != nil {
		_ = found.conn.Withdraw(found.call)
	}
}

// concerned finds the session that a message is about, or the agent that it goes to if it is about none, and whether it may be
// sent at all.
func (c *Client) concerned(f *router.Frame) (*session, *stand, *refusal) {
	if f.Session == "" {
		if r := c.hub.unnamed(f); r != nil {
			return nil, nil, r
		}
		if st := c.hub.best(); st != nil {
			return nil, st, nil
		}
		return nil, nil, refuse(CodeGone, "no agent answers: try again")
	}
	s := c.hub.session(f.Session)
	if s == nil {
		return nil, nil, refuse(codeNotFound, "there is no such session: session/list tells those there are")
	}
	s.mu.Lock()
	r, st := s.may(f.Method, c.hub.cfg.Steering), s.stand
	s.mu.Unlock()
	if r == nil {
		r = c.hub.unnamed(f)
	}
	if r != nil {
		return nil, nil, r
	}
	return s, st, nil
}

// unnamed refuses what names a session of the harness's own.
func (h *Hub) unnamed(f *router.Frame) *refusal {
	if h.names(f) {
		return refuse(CodeNotAllowed, "%.64s names the session of a delivered run, which can only be watched", f.Method)
	}
	return nil
}

// may tells whether a client with the steer key may do this with the session. The lock is held.
func (s *session) may(method string, steering Steering) *refusal {
	switch {
	case s.over && s.delivered:
		return refuse(CodeGone, "the run has ended, and its session with it: begin a new one with session/new")
	case s.over:
		return refuse(CodeGone, "the session was closed: begin a new one with session/new")
	case s.withheld():
		return refuse(CodeNotAllowed, "%.64s: the agent has given the session's id to one of a run to come: begin a new one with session/new", method)
	case s.inLoad:
		return refuse(CodeBusy, "%.64s: the session is being loaded: wait for the answer to that", method)
	case !s.delivered:
		return nil
	case steering != SteerRuns:
		return refuse(CodeNotAllowed, "%.64s: the Agent lets people watch its runs and not steer them (steering: %s)", method, steering)
	case method == acp.AgentMethodSessionClose, method == methodDelete:
		return refuse(CodeNotAllowed, "%s: the session is the harness's: session/cancel ends the run", method)
	}
	return nil
}

// pass sends a request to the agent that it is for.
func (c *Client) pass(f *router.Frame) *refusal {
	s, st, r := c.concerned(f)
	if r != nil {
		return r
	}
	return c.forward(f, st, func(a *router.Frame) ([]byte, func()) {
		if s != nil && a != nil && a.Error() == nil && (f.Method == acp.AgentMethodSessionClose || f.Method == methodDelete) {
			c.hub.remove(s)
		}
		if s == nil || a != nil && a.Session != s.id {
			return nil, c.adopt(st, a, "")
		}
		return nil, nil
	})
}

// adopt takes a session that an answer tells of as a client's own. What it returns lets the client see it, once it has the answer:
// what the agent said before it would mean nothing to the client. Until then the session is locked, so that nothing is said in it that
// the client would see twice, or its own prompt as another's.
func (c *Client) adopt(st *stand, a *router.Frame, cwd string) (after func()) {
	if a == nil || a.Session == "" || a.Error() != nil {
		return nil
	}
	h := c.hub
	h.mu.Lock()
	if st.reserved[a.Session] {
		h.mu.Unlock()
		return nil
	}
	name := st.agent.Name
	h.mu.Unlock()
	s, old := h.claim(st, a.Session)
	if s.claimed() {
		s.mu.Unlock()
		return nil
	}
	s.adopted(name, cwd)
	s.attach(c)
	return func() {
		s.replay(c)
		s.show(c)
		s.mu.Unlock()
		if old != nil {
			old.close()
		}
	}
}

// reaction is what the hub does about an answer before the client has it: it may return another result, and what has to be done after. nil
// is none, because the agent is gone or said too much.
type reaction func(*router.Frame) (result []byte, after func())

// forward sends a request to an agent and lets the client have the answer.
func (c *Client) forward(f *router.Frame, st *stand, react reaction) *refusal {
	conn, agent, up := st.link()
	if !up {
		return refuse(CodeGone, "the agent was restarted since: load the session again with session/load")
	}
	if limit := turn.PromptBytes(agent.Name); len(f.Raw) > limit {
		return refuse(codeInvalidParams, "the message of %d bytes is over the agent's limit of %d bytes", len(f.Raw), limit)
	}
	p := &pending{id: f.ID(), session: streamOf(f), conn: conn}
	c.mu.Lock()
	if len(c.calls) >= maxCalls {
		c.mu.Unlock()
		return refuse(CodeBusy, "%d requests wait for the agent: expected no more", maxCalls)
	}
	c.calls[p] = struct{}{}
	c.mu.Unlock()
	call, err := conn.Forward(f, c, func(a *router.Frame, err error) { c.settle(p, a, err, react) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.calls, p)
		return gone(err, c.access)
	}
	p.call = call
	return nil
}

// settle gives the client its answer.
func (c *Client) settle(p *pending, a *router.Frame, err error, react reaction) {
	c.mu.Lock()
	delete(c.calls, p)
	c.mu.Unlock()
	var result []byte
	var after func()
	if react != nil {
		result, after = react(a)
	}
	if err != nil {
		c.out.push(Message{Session: p.session, Data: failure(p.id, gone(err, c.access))})
		return
	}
	data := a.WithID(p.id)
	if result != nil {
		data = answer(p.id, "result", result)
	}
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	c.out.push(Message{Session: p.session, Data: data})
	if after != nil {
		after()
	}
}
