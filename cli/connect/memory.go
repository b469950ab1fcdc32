package connect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// CodeLost is the JSON-RPC error of a request whose connection was lost before its answer came.
const CodeLost = -32053

const (
	codeNotJSON = -32700
	codeBatch   = -32600

	// maxSessions bounds how many sessions are loaded again; the oldest is forgotten.
	maxSessions = 256

	methodInitialize = "initialize"
	methodCancel     = "$/cancel_request"
	methodUpdate     = "session/update"
	methodNew        = "session/new"
	methodLoad       = "session/load"
	methodResume     = "session/resume"

	textLost = "the connection to the agent's endpoint was lost before the answer came; the request may have been carried out. " +
		"hearth connect dials again and loads the open sessions; what the agent does meanwhile is shown then"
	textGone = "the session is gone with the Pod that had it: begin a new one with session/new, or load one that session/list shows"
)

// memory is what is remembered of a client's connection, so that it outlives the endpoint's. It is pure: messages in, messages out.
type memory struct {
	initialize  jsontext.Value // the client's params
	hello       *call          // its initialize, while it is not answered
	initialized bool

	calls     []call                    // the client's requests that wait for an answer, in their order
	questions map[string]jsontext.Value // the endpoint's requests that wait for the client's, by the id the client knows: the endpoint's own
	sessions  []*session                // in the order of their opening
	lives     int                       // how many connections were lost
	asked     int                       // requests of memory's own
	ownID     string                    // the one of them that waits for its answer
}

type call struct {
	id     string
	method string
	params jsontext.Value // of those that open or close a session
}

// session is one that the client has open.
type session struct {
	id      string
	method  string // what opens it again; "" while it is not known whether it may be
	params  jsontext.Value
	history *history
	gone    bool // what has its id now is another session, and none that the client opened
}

func newMemory() *memory { return &memory{questions: map[string]jsontext.Value{}} }

// fromClient takes a line of the client's. It returns what to send to the endpoint, or what to answer at once, or neither.
func (m *memory) fromClient(line []byte) (send, answer []byte) {
	f, err := scan(line)
	switch {
	case err != nil:
		code := codeNotJSON
		if errors.Is(err, errBatch) {
			code = codeBatch
		}
		return nil, failure(nil, code, err.Error())
	case m.astray(f):
		return nil, failure(f.id, CodeLost, textGone)
	case f.request():
		m.called(f)
	case f.response():
		own, open := m.questions[string(f.id)]
		if !open {
			return nil, nil // of a connection that was lost: another question may have this id now
		}
		delete(m.questions, string(f.id))
		return f.withID(own), nil
	}
	return line, nil
}

// astray tells whether a request is about a session that is gone.
func (m *memory) astray(f frame) bool {
	if !f.request() || f.method == methodLoad || f.method == methodResume {
		return false
	}
	s := m.find(f.session())
	return s != nil && s.gone
}

// called remembers a request.
func (m *memory) called(f frame) {
	c := call{id: string(f.id), method: f.method}
	switch f.method {
	case methodInitialize:
		m.initialize, m.hello = slices.Clone(f.params), &c
		return
	case methodNew, methodResume, "session/close", "session/delete":
		c.params = slices.Clone(f.params)
	case methodLoad:
		c.params = slices.Clone(f.params)
		if id := f.session(); id != "" { // its updates come before the answer, and the client wants to see them all
			m.forget(id)
			m.session(id)
		}
	case "session/prompt", "_goose/unstable/session/steer":
		if s := m.find(f.session()); s != nil {
			s.history.prompted(acp.Member(f.params, "prompt"))
		}
	}
	m.calls = append(m.calls, c)
}

// fromServer takes a message of the endpoint's and returns it as the client is to see it, nil for not at all.
func (m *memory) fromServer(data []byte) (f frame, shown []byte) {
	f, err := scan(data)
	switch {
	case err != nil:
		return f, nil
	case f.request():
		visible := f.id
		if m.lives > 0 { // an id of an earlier connection may come again, and mean another question
			visible = acp.Quoted("hearth-" + strconv.Itoa(m.lives) + "-" + string(f.id))
		}
		m.questions[string(visible)] = f.id
		return f, f.withID(visible)
	case f.notification():
		return f, m.notified(f)
	case f.response() && string(f.id) == m.ownID:
		m.ownID = ""
		return f, nil
	case f.response():
		m.answered(f)
	}
	return f, data
}

func (m *memory) notified(f frame) []byte {
	switch f.method {
	case methodUpdate:
		if id := f.session(); id != "" && !m.shows(m.session(id), f) {
			return nil
		}
	default:
		if s := m.find(f.session()); s != nil && !m.shows(s, f) {
			return nil
		}
	case methodCancel:
		own := string(acp.Member(f.params, "requestId"))
		for visible, id := range m.questions {
			if string(id) == own {
				return settled(visible)
			}
		}
	}
	return f.data
}

// shows tells whether the client is to see a session's notification.
func (*memory) shows(s *session, f frame) bool {
	switch {
	case s.gone:
		return false
	case f.method == methodUpdate:
		return s.history.update(acp.Member(f.params, "update"))
	default:
		return s.history.other(f.method, f.params)
	}
}

// settled tells the client that a question needs no answer any more.
func settled(visible string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s}}`, methodCancel, visible)
}

func (m *memory) answered(f frame) {
	if m.hello != nil && m.hello.id == string(f.id) {
		m.hello, m.initialized = nil, !f.failed
		return
	}
	at := slices.IndexFunc(m.calls, func(c call) bool { return c.id == string(f.id) })
	if at < 0 {
		return
	}
	c := m.calls[at]
	m.calls = slices.Delete(m.calls, at, at+1)
	id, _ := acp.Text(acp.Member(c.params, "sessionId"))
	switch {
	case c.method == methodLoad && f.failed, (c.method == "session/close" || c.method == "session/delete") && !f.failed:
		m.forget(id)
	case f.failed:
	case c.method == methodNew:
		if id, err := acp.Text(acp.Member(f.result, "sessionId")); err == nil {
			m.opened(id, methodLoad, withSession(c.params, id))
		}
	case c.method == methodLoad, c.method == methodResume:
		m.opened(id, c.method, c.params)
	}
}

func (m *memory) opened(id, method string, params jsontext.Value) {
	s := m.session(id)
	s.method, s.params, s.gone = method, params, false
}

// withSession are the params of session/new as those of session/load.
func withSession(params jsontext.Value, id string) jsontext.Value {
	compact := params.Clone()
	if compact.Compact(acp.Lenient...) != nil || len(compact) <= len("{}") {
		return fmt.Appendf(nil, `{"sessionId":%s}`, acp.Quoted(id))
	}
	return fmt.Appendf(nil, `{"sessionId":%s,%s`, acp.Quoted(id), compact[1:])
}

func (m *memory) find(id string) *session {
	if at := slices.IndexFunc(m.sessions, func(s *session) bool { return s.id == id }); at >= 0 {
		return m.sessions[at]
	}
	return nil
}

// session is the one of an id; updates may come before it is known how it was opened.
func (m *memory) session(id string) *session {
	if s := m.find(id); s != nil {
		return s
	}
	if len(m.sessions) == maxSessions {
		m.sessions = slices.Delete(m.sessions, 0, 1)
	}
	s := &session{id: id, history: newHistory()}
	m.sessions = append(m.sessions, s)
	return s
}

func (m *memory) forget(id string) {
	m.sessions = slices.DeleteFunc(m.sessions, func(s *session) bool { return s.id == id })
}

// disconnected is the end of a connection. It returns what the client is told: its requests failed, and questions are settled.
func (m *memory) disconnected() [][]byte {
	var tell [][]byte
	for _, c := range m.calls {
		tell = append(tell, failure(jsontext.Value(c.id), CodeLost, textLost))
	}
	open := make([]string, 0, len(m.questions))
	for visible := range m.questions {
		open = append(open, visible)
	}
	slices.Sort(open)
	for _, visible := range open {
		tell = append(tell, settled(visible))
	}
	m.calls = nil
	m.ownID = ""
	clear(m.questions)
	m.lives++
	m.sessions = slices.DeleteFunc(m.sessions, func(s *session) bool { return s.method == "" })
	return tell
}

// own is a request of memory's own, and its id.
func (m *memory) own(method string, params jsontext.Value) (id string, message []byte) {
	m.asked++
	quotedID := acp.Quoted("hearth-connect-" + strconv.Itoa(m.asked))
	m.ownID = string(quotedID)
	return m.ownID, request(quotedID, method, params)
}

// quiet tells whether no request of the client waits for an answer.
func (m *memory) quiet() bool { return len(m.calls) == 0 && m.hello == nil }
