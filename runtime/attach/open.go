package attach

import (
	"bytes"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
)

// begin opens a session of the client's own, at the agent that is least busy.
func (c *Client) begin(f *router.Frame) *refusal {
	if r := c.hub.unnamed(f); r != nil {
		return r
	}
	st := c.hub.best()
	if st == nil {
		return refuse(CodeGone, "no agent answers: try again")
	}
	if c.hub.forget(); c.hub.full() {
		return refuse(CodeBusy, "%d sessions are known, and something happens in each: close one", maxSessions)
	}
	params := readObject(f.Params())
	cwd := text(params.get("cwd"))
	dir, err := c.hub.cfg.Dir(cwd)
	if err != nil {
		return refuse(codeInternal, "there is no directory for the session: %v", err)
	}
	asked := *f
	if dir != cwd && params != nil {
		asked, _ = router.Parse(f.WithParams(params.set("cwd", encode(dir)).encode()), router.Strict)
	}
	r := c.forward(&asked, st, func(a *router.Frame) ([]byte, func()) {
		after := c.adopt(st, a, dir)
		switch {
		case after == nil:
			c.hub.left(dir)
			return nil, nil
		case cwd == dir:
			return nil, after
		}
		result := readObject(a.Result())
		return result.set("_meta", readObject(result.get("_meta")).with("hearth", "cwd", encode(dir)).encode()).encode(), after
	})
	if r != nil {
		c.hub.left(dir)
	}
	return r
}

// adopted begins the transcript of a client's own session. The lock is held.
func (s *session) adopted(agent, cwd string) {
	if s.dir = cwd; cwd != "" {
		s.cwd = cwd
	}
	if s.open(transcript.Header{Session: s.id, Agent: agent}) {
		s.flush()
	}
}

// full tells whether there is no room for another session.
func (h *Hub) full() bool {
	h.mu.Lock()
	n := len(h.sessions)
	h.mu.Unlock()
	return n >= maxSessions
}

// load attaches the client to a session: all that was said in it, unless it is resumed, then all that is said. If the agent was
// restarted since, it loads the session first, where that is the client's to ask.
func (c *Client) load(f *router.Frame) *refusal {
	s := c.hub.session(f.Session)
	if s == nil {
		return c.loadUnknown(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := c.hub.standOf(s.id)
	_, agent, up := st.link()
	stale := up && s.stand != st && !s.over && !s.delivered && !s.taken && len(s.loading) == 0
	if !stale || !agent.Loads || c.access != Steer {
		s.enter(c, f)
		return nil
	}
	s.taken = true
	asked := *f
	if params := readObject(f.Params()); s.cwd != "" {
		asked, _ = router.Parse(f.WithParams(params.set("cwd", encode(s.cwd)).encode()), router.Strict)
	}
	s.mu.Unlock()
	r := c.reload(&asked, f, st, s)
	s.mu.Lock()
	if r != nil {
		s.taken = false
	}
	return r
}

// reload lets the agent load the session. Its own account of what was said is not shown: the transcript is.
func (c *Client) reload(asked, f *router.Frame, st *stand, s *session) *refusal {
	conn, _, up := st.link()
	if !up {
		return refuse(CodeGone, "no agent answers: try again")
	}
	_, err := conn.Forward(asked, c, func(*router.Frame, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = false
		s.enter(c, f) // if the agent could not, what was said can still be read
	})
	if err != nil {
		return gone(err, c.access)
	}
	return nil
}

// enter attaches the client and answers. The lock is held, so that nothing is missed and nothing comes twice.
func (s *session) enter(c *Client, f *router.Frame) {
	if f.Method == acp.AgentMethodSessionLoad {
		s.replay(c)
	}
	s.attach(c)
	c.reply("", f, s.result.set("_meta", readObject(s.result.get("_meta")).set("hearth", encode(s.told())).encode()).encode())
	s.show(c)
}

// replay shows a client all that was said in the session. The lock is held.
func (s *session) replay(c *Client) {
	for _, book := range s.books {
		c.out.replay(book, s.id)
	}
}

// loadUnknown loads a session that only the agent knows, from a time before the transcripts that are kept.
func (c *Client) loadUnknown(f *router.Frame) *refusal {
	st := c.hub.standOf(f.Session)
	_, agent, up := st.link()
	if c.access != Steer || !up || !agent.Loads || f.Session == "" {
		return refuse(codeNotFound, "there is no such session: session/list tells those there are")
	}
	if r := c.hub.unnamed(f); r != nil {
		return r
	}
	h := c.hub
	s := newSession(h, f.Session, st)
	s.fresh = true
	s.cwd = text(readObject(f.Params()).get("cwd"))
	h.mu.Lock()
	if h.sessions[s.id] != nil {
		h.mu.Unlock()
		return refuse(CodeBusy, "somebody else is loading the session: try again")
	}
	h.sessions[s.id] = s
	h.mu.Unlock()
	s.mu.Lock()
	s.adopted(agent.Name, "")
	s.attach(c)
	s.mu.Unlock()
	r := c.forward(f, st, func(a *router.Frame) ([]byte, func()) {
		if a == nil || a.Error() != nil {
			h.remove(s)
		}
		return nil, nil
	})
	if r != nil {
		h.remove(s)
	}
	return r
}

// prompt sends a prompt; there is one at a time in a session.
func (c *Client) prompt(f *router.Frame) *refusal {
	s, st, r := c.concerned(f)
	switch {
	case r != nil:
		return r
	case s == nil:
		return refuse(codeInvalidParams, "sessionId: expected the session to prompt")
	}
	s.mu.Lock()
	if s.busy() {
		s.mu.Unlock()
		return refuse(CodeBusy, "the session carries out another prompt: wait for its end, cancel it, or put a word in with %s", methodSteer)
	}
	if h := c.hub.standOf(s.id); h != st || st == nil {
		s.mu.Unlock()
		return refuse(CodeGone, "the agent was restarted since: load the session again with session/load")
	}
	s.taken = true // until the agent's watcher has heard of it
	s.attach(c)
	s.mu.Unlock()
	r = c.forward(f, st, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	return r
}

// changed keeps what clients that load the session are told up to date. The lock is held.
func (s *session) changed(params jsontext.Value) {
	if !bytes.Contains(params, []byte("current_mode_update")) && !bytes.Contains(params, []byte("config_option_update")) {
		return // as nearly all
	}
	u := readObject(readObject(params).get("update"))
	switch text(u.get("sessionUpdate")) {
	case "current_mode_update":
		if s.result.get("modes").Kind() == '{' && u.get("currentModeId").Kind() == '"' {
			s.result = s.result.with("modes", "currentModeId", u.get("currentModeId"))
		}
	case "config_option_update":
		if options := u.get("configOptions"); options.Kind() == '[' {
			s.result = s.result.set("configOptions", options)
		}
	}
}
