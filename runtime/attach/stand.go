package attach

import (
	"bytes"
	"slices"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
)

const methodCancelRequest = "$/cancel_request"

// stand is one life of the agent of a slot. It hears all that is said to that agent and by it.
type stand struct {
	hub  *Hub
	slot int

	// Of the hub's lock.
	conn    *router.Conn // nil until the agent answers
	agent   router.Agent
	fallen  bool
	early   map[string]*session // that nobody has claimed yet
	opening map[string]opening  // by the id of a session/new under way

	// reserved are the sessions that the harness opened for runs to come, by their id: they are nobody else's.
	reserved map[string]bool

	// spoke are the sessions in which the agent said something that may not be written down and shown yet. It is the agent's reader's.
	spoke []*session
}

// opening is what is known of a session that is being opened.
type opening struct {
	cwd     string
	harness bool // no client asked for it
}

// up tells whether the agent can be talked to. The hub's lock is held.
func (st *stand) up() bool { return st != nil && st.conn != nil && !st.fallen }

// link is the connection to the agent, if it can be talked to.
func (st *stand) link() (*router.Conn, router.Agent, bool) {
	if st == nil {
		return nil, router.Agent{}, false
	}
	st.hub.mu.Lock()
	defer st.hub.mu.Unlock()
	return st.conn, st.agent, st.up()
}

// promises tells whether a session of this id is one that the harness opened for a run to come, or may be: which id the agent gives
// to one that is being opened is known with its answer.
func (st *stand) promises(id string) bool {
	st.hub.mu.Lock()
	defer st.hub.mu.Unlock()
	for _, o := range st.opening {
		if o.harness {
			return true
		}
	}
	return st.reserved[id]
}

// release says that a session is known otherwise.
func (st *stand) release(id string) {
	st.hub.mu.Lock()
	defer st.hub.mu.Unlock()
	delete(st.reserved, id)
}

// Said implements router.Watcher.
func (st *stand) Said(m router.Said) (mine bool) {
	if m.Session == "" {
		st.aside(m)
		return false
	}
	s := st.find(m)
	if s == nil {
		return false
	}
	mine = s.said(st, m)
	if !m.ToAgent && !m.Unsaid && !slices.Contains(st.spoke, s) { // by the agent's reader
		st.spoke = append(st.spoke, s)
	}
	return mine
}

// Heard implements router.Watcher: what the agent said in one go is written in one, and who is attached is woken for it once.
func (st *stand) Heard() {
	for _, s := range st.spoke {
		s.mu.Lock()
		s.tell()
		s.mu.Unlock()
	}
	clear(st.spoke)
	st.spoke = st.spoke[:0]
}

// find is the session that a message belongs to; nil when nobody wants to know any more.
func (st *stand) find(m router.Said) *session {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.ToAgent && m.By == nil && !st.fallen {
		switch m.Request {
		case acp.AgentMethodSessionLoad, acp.AgentMethodSessionResume:
			st.reserved[m.Session] = true
		case acp.AgentMethodSessionClose:
			delete(st.reserved, m.Session)
		}
	}
	opened := m.Request == acp.AgentMethodSessionNew && !m.ToAgent
	s := h.sessions[m.Session]
	if s != nil && !opened {
		return s
	}
	s = st.early[m.Session]
	if s == nil && !st.fallen && !m.ToAgent {
		if len(st.early) >= maxEarly {
			if !opened {
				return nil
			}
			for id := range st.early {
				delete(st.early, id)
				break
			}
		}
		s = newSession(h, m.Session, st)
		st.early[m.Session] = s
	}
	if opened && s != nil {
		o := st.opening[string(m.ID())]
		delete(st.opening, string(m.ID()))
		s.cwd = o.cwd
		if o.harness {
			st.reserved[m.Session] = true
		}
	}
	return s
}

// aside is what belongs to no session.
func (st *stand) aside(m router.Said) {
	switch {
	case m.Request == acp.AgentMethodSessionNew:
		st.hub.mu.Lock()
		defer st.hub.mu.Unlock()
		if delete(st.opening, string(m.ID())); m.ToAgent && m.Method != "" {
			st.opening[string(m.ID())] = opening{text(readObject(m.Params()).get("cwd")), m.By == nil}
		}
	case m.ToAgent || m.Method == "" || m.ID() != nil:
	case m.Method == methodCancelRequest:
		st.withdrawn(readObject(m.Params()).get("requestId"))
	default:
		data := bytes.ToValidUTF8(m.Raw, []byte("\uFFFD"))
		for _, c := range st.hub.greeted() {
			c.out.push(Message{Data: data})
		}
	}
}

// withdrawn ends a question that the agent does not want answered any more.
func (st *stand) withdrawn(id jsontext.Value) {
	for _, q := range st.hub.questions() {
		if q.stand == st && bytes.Equal(q.request.ID(), id) {
			_ = q.request.Fail(codeCancelled, "cancelled") // said hears of it and tells those who were asked
		}
	}
}

// Asked implements router.Watcher: the questions of clients' own sessions.
func (st *stand) Asked(r *router.Request) bool {
	s := st.hub.session(r.Session)
	if s == nil || !s.own() {
		return false
	}
	otherwise := func() { _ = r.Fail(codeMethodNotFound, "method not found: "+r.Method) }
	if r.Method == acp.ClientMethodSessionRequestPermission {
		otherwise = func() { st.hub.cfg.Policy.Settle(r) }
	}
	st.hub.offer(st, s, r, otherwise)
	return true
}
