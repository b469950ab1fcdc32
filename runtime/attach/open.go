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
	dir, r := c.hub.directory(f)
	if r != nil {
		return r
	}
	r = c.forward(within(f, dir), st, func(a *router.Frame) ([]byte, func()) {
		after := c.adopt(st, a, dir)
		if after == nil {
			c.hub.left(dir)
			return nil, nil
		}
		return placed(f, readObject(a.Result()), dir), after
	})
	if r != nil {
		c.hub.left(dir)
	}
	return r
}

// cwdOf is the directory that a client asks for.
func cwdOf(f *router.Frame) string { return text(readObject(f.Params()).get("cwd")) }

// directory is the one that the session gets for which a client asks for its own. It has to be given back.
func (h *Hub) directory(f *router.Frame) (string, *refusal) {
	dir, err := h.cfg.Dir(cwdOf(f))
	if err != nil {
		return "", refuse(codeInternal, "there is no directory for the session: %v", err)
	}
	return dir, nil
}

// within is the request with a directory that exists here.
func within(f *router.Frame, dir string) *router.Frame {
	params := readObject(f.Params())
	if params == nil || cwdOf(f) == dir {
		return f
	}
	g, _ := router.Parse(f.WithParams(params.set("cwd", encode(dir)).encode()), router.Strict)
	return &g
}

// placed is an answer that tells of a session's directory where it is not the one that was asked for; nil: there is nothing to tell.
func placed(f *router.Frame, result object, dir string) []byte {
	if dir == "" || cwdOf(f) == dir {
		return nil
	}
	return result.at(dir).encode()
}

// at is a result that tells of the session's directory.
func (o object) at(dir string) object {
	return o.set("_meta", readObject(o.get("_meta")).with("hearth", "cwd", encode(dir)).encode())
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
	stale := up && s.stand != st && !s.delivered && s.may(f.Method, c.hub.cfg.Steering) == nil
	if !stale || !agent.Loads || c.access != Steer {
		s.enter(c, f)
		return nil
	}
	s.inLoad = true
	dir := s.cwd
	s.mu.Unlock()
	r := c.reload(f, st, s, dir)
	s.mu.Lock()
	if r != nil {
		s.inLoad = false
	}
	return r
}

// reload lets the agent load the session in its directory, of which an earlier boot's has none yet. Its own account of what was said is
// not shown: the transcript is.
func (c *Client) reload(f *router.Frame, st *stand, s *session, dir string) *refusal {
	conn, _, up := st.link()
	if !up {
		return refuse(CodeGone, "no agent answers: try again")
	}
	if r := c.hub.unnamed(f); r != nil {
		return r
	}
	if dir == "" {
		var r *refusal
		if dir, r = c.hub.directory(f); r != nil {
			return r
		}
		s.mu.Lock()
		s.cwd, s.dir = dir, dir
		s.mu.Unlock()
	}
	_, err := conn.Forward(within(f, dir), c, func(*router.Frame, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inLoad = false
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
	result, told, dir := s.result, s.told(), s.cwd // as they are now: what is said from here on comes after the answer
	if cwdOf(f) == dir {
		dir = ""
	}
	c.reply(f, func() []byte {
		result := result.set("_meta", readObject(result.get("_meta")).set("hearth", encode(told)).encode())
		if dir != "" {
			result = result.at(dir)
		}
		return result.encode()
	})
	s.show(c)
}

// replay shows a client all that was said in the session. The lock is held.
func (s *session) replay(c *Client) { c.out.replay(s.books, s.id) }

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
	s := newSession(h, f.Session, nil) // it is the agent's once that has answered
	s.fresh, s.inLoad = true, true
	dir, r := h.directory(f)
	if r != nil {
		return r
	}
	s.mu.Lock() // before anybody else knows of it
	h.mu.Lock()
	if h.sessions[s.id] != nil {
		h.mu.Unlock()
		s.mu.Unlock()
		h.left(dir)
		return refuse(CodeBusy, "somebody else is loading the session: try again")
	}
	h.sessions[s.id] = s
	h.mu.Unlock()
	s.adopted(agent.Name, dir)
	s.attach(c)
	s.mu.Unlock()
	r = c.forward(within(f, dir), st, func(a *router.Frame) ([]byte, func()) {
		if a == nil || a.Error() != nil {
			h.remove(s)
			return nil, nil
		}
		s.mu.Lock()
		s.inLoad = false
		s.mu.Unlock()
		return placed(f, readObject(a.Result()), dir), nil
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
