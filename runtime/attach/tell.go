package attach

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
)

// greeting is what clients are told of the harness, in _meta.hearth of the answer to initialize.
type greeting struct {
	Version  string            `json:"version"`
	Agent    map[string]string `json:"agent"`
	Access   string            `json:"access"`
	Steering Steering          `json:"steering"`
}

var accessNames = map[Access]string{None: "none", View: "view", Steer: "steer"}

// greet answers initialize with the agent's own answer: what the harness does itself, to load and to list sessions, is added.
func (c *Client) greet(f *router.Frame) *refusal {
	h := c.hub
	h.mu.Lock()
	var st *stand
	for _, slot := range slices.Sorted(maps.Keys(h.stands)) {
		if h.stands[slot].up() {
			st = h.stands[slot]
			break
		}
	}
	h.mu.Unlock()
	_, agent, up := st.link()
	if !up {
		return refuse(CodeGone, "no agent answers: try again")
	}
	c.mu.Lock()
	c.greeted = true
	c.mu.Unlock()
	c.reply(f, func() []byte { return c.greeting(agent) })
	return nil
}

// greeting is an agent's answer to initialize as the client is told it.
func (c *Client) greeting(agent router.Agent) []byte {
	result := readObject(agent.Answer)
	can := readObject(result.get("agentCapabilities"))
	sessions := readObject(can.get("sessionCapabilities"))
	for _, name := range []string{"list", "resume"} {
		if sessions.get(name).Kind() != '{' {
			sessions = sessions.set(name, []byte("{}"))
		}
	}
	can = can.set("loadSession", []byte("true")).set("sessionCapabilities", sessions.encode())
	result = result.set("agentCapabilities", can.encode()).with("_meta", "hearth", encode(greeting{
		Version: c.hub.cfg.Version, Agent: map[string]string{"name": agent.Name, "version": agent.Version},
		Access: accessNames[c.access], Steering: c.hub.cfg.Steering,
	}))
	return bytes.ToValidUTF8(result.encode(), []byte("\uFFFD"))
}

// listedTime is RFC 3339 with all digits, so that later times are greater texts.
const listedTime = "2006-01-02T15:04:05.000000000Z07:00"

// listed is a session in the answer to session/list.
type listed struct {
	SessionID string              `json:"sessionId"`
	Cwd       string              `json:"cwd"`
	Title     string              `json:"title,omitempty"`
	UpdatedAt string              `json:"updatedAt"`
	Meta      map[string]toldMeta `json:"_meta"`
}

// toldMeta is what clients are told of a session, in _meta.hearth.
type toldMeta struct {
	runInfo
	// Live tells whether something may still be said in it.
	Live bool `json:"live"`
}

func (s *session) told() toldMeta { return toldMeta{s.run, !s.over && !s.withheld()} }

// list is the answer to session/list: all sessions, those where something was said last first.
func (h *Hub) list() []byte {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.sessions))
	h.mu.Unlock()
	sessions := make([]listed, 0, len(all))
	for _, s := range all {
		sessions = append(sessions, s.listed())
	}
	slices.SortFunc(sessions, func(a, b listed) int {
		return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), cmp.Compare(a.SessionID, b.SessionID))
	})
	return encode(map[string]any{"sessions": sessions})
}

func (s *session) listed() listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := listed{
		SessionID: s.id, Cwd: cmp.Or(s.cwd, "/"), UpdatedAt: s.at.UTC().Format(listedTime),
		Meta: map[string]toldMeta{"hearth": s.told()},
	}
	if s.run.Run != nil {
		l.Title = "run " + s.run.Run.Namespace + "/" + s.run.Run.Name
	}
	return l
}

// names tells whether a message has the id of a session that is the harness's, wherever it stands: agents may take it by another name
// than sessionId. What a prompt says is no name, and neither is the message's own id. A sessionId that a message is about names that
// session, at its own agent, and no other; what may be done with it is not said here.
func (h *Hub) names(f *router.Frame) bool {
	ids := h.watched()
	if len(ids) == 0 {
		return false
	}
	if ids[f.Session] && h.session(f.Session) == nil {
		return true
	}
	over := map[string]bool{
		"prompt": f.Method == acp.AgentMethodSessionPrompt || f.Method == methodSteer, "sessionId": f.Session != "" && f.Method != acp.AgentMethodSessionNew,
	}
	d := jsontext.NewDecoder(bytes.NewReader(f.Raw), router.Lenient)
	for {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if t.Kind() != '"' {
			continue
		}
		text := t.String()
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && passedOver(d, text, over) {
			if d.SkipValue() != nil {
				return false
			}
			continue
		}
		if among(ids, text) {
			return true
		}
	}
}

// passedOver tells whether the value of the member whose name was read is not looked at: the id, and these of the params.
func passedOver(d *jsontext.Decoder, name string, params map[string]bool) bool {
	switch d.StackDepth() {
	case 1:
		return name == "id"
	case 2:
		return params[name] && d.StackPointer().Parent() == "/params"
	}
	return false
}

// minInner is how long an id has to be that is looked for within longer strings, as in a URI.
const minInner = 6

// among tells whether a string is one of the ids, or has one between what are no letters and digits.
func among(ids map[string]bool, text string) bool {
	if ids[text] {
		return true
	}
	for id := range ids {
		if len(id) < minInner {
			continue
		}
		for rest, from := text, 0; ; {
			at := strings.Index(rest[from:], id)
			if at < 0 {
				break
			}
			at += from
			before, _ := utf8.DecodeLastRuneInString(rest[:at])
			after, _ := utf8.DecodeRuneInString(rest[at+len(id):])
			if !wordy(before) && !wordy(after) {
				return true
			}
			from = at + 1
		}
	}
	return false
}

func wordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// watched are the ids of the harness's own sessions that people may not steer, with and without what tells agents apart.
func (h *Hub) watched() map[string]bool {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.sessions))
	ids := map[string]bool{}
	for _, st := range h.stands {
		for id := range st.reserved {
			ids[id] = true
		}
	}
	h.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		if s.delivered && h.cfg.Steering != SteerRuns {
			ids[s.id] = true
		}
		s.mu.Unlock()
	}
	for id := range maps.Clone(ids) {
		if number, bare, prefixed := strings.Cut(id, "."); prefixed && bare != "" && strings.Trim(number, "0123456789") == "" {
			ids[bare] = true
		}
	}
	return ids
}

// standOf is the agent that a session's id belongs to; nil when none stands.
func (h *Hub) standOf(id string) *stand {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, st := range h.stands {
		if st.up() && st.conn.Carries(id) {
			return st
		}
	}
	return nil
}

// remembered is the session of a transcript that an earlier boot left.
func remembered(h *Hub, book *transcript.Book) *session {
	header := book.Header()
	if header.Session == "" {
		return nil
	}
	s := newSession(h, header.Session, nil)
	s.books, s.at = []*transcript.Book{book}, header.Begun
	if header.Run.UID == "" {
		return s
	}
	s.delivered, s.over = true, true
	s.run = runInfo{Run: &runName{header.Run.Namespace, header.Run.Name, header.Run.UID}, Attempt: header.Attempt, State: stateEnded}
	_ = book.Read(book.Last(), book.Last(), func(e transcript.Entry) error {
		var last runInfo
		if e.Direction == transcript.Note && json.Unmarshal(e.Frame, &last) == nil && last.State == stateEnded {
			s.run.Outcome, s.run.Reason = last.Outcome, last.Reason
		}
		return nil
	})
	return s
}
