package attach

import (
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
	"github.com/hearthdev/hearth/runtime/turn"
)

// session is one conversation with an agent, whoever began it, and who is attached to it.
type session struct {
	hub *Hub
	id  string

	mu        sync.Mutex
	stand     *stand // the life of the agent that knows it; nil: an earlier boot's
	cwd       string
	dir       string // that Config.Dir gave for it
	result    object // of session/new, what clients that load it are told: modes, options
	books     []*transcript.Book
	writing   *transcript.Book // the last of them, while it takes entries
	early     []heard          // what was said before anybody claimed it
	size      int              // its bytes
	clients   map[*Client]struct{}
	questions map[string]*question      // by the agent's id
	prompts   map[string]bool           // under way, by their id
	asked     map[string]jsontext.Value // the agent's open requests, by their id, as they are in the transcript
	loading   map[string]bool           // session/load under way, by its id: the agent repeats what is known
	taken     bool                      // somebody is about to prompt
	inLoad    bool                      // a client has the agent load it: nothing else reaches it there before the answer
	fresh     bool                      // the agent knows more of it than the hub: what it repeats is news
	at        time.Time                 // when something was last said

	delivered bool // it carries out runs
	run       runInfo
	cancel    func(cause error)
	over      bool // nothing more can be said in it
}

// heard is a message that waits to be written down.
type heard struct {
	direction transcript.Direction
	frame     router.Frame
}

// runInfo is what clients are told of a run, in _meta.hearth.
type runInfo struct {
	Run     *runName `json:"run,omitempty"`
	Attempt int64    `json:"attempt,omitempty"`
	State   string   `json:"state,omitempty"`
	Outcome string   `json:"outcome,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

type runName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// States of a run.
const (
	stateRunning = "running"
	stateEnded   = "ended"
)

func newSession(h *Hub, id string, st *stand) *session {
	return &session{
		hub: h, id: id, stand: st, clients: map[*Client]struct{}{}, prompts: map[string]bool{}, asked: map[string]jsontext.Value{},
		loading: map[string]bool{}, questions: map[string]*question{}, at: h.cfg.Now(),
	}
}

// said hears one message of the session: it is written down, and everybody who is attached sees it.
func (s *session) said(st *stand, m router.Said) (mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.stand != st && len(s.loading) == 0 && m.Request != acp.AgentMethodSessionLoad && m.Request != acp.AgentMethodSessionResume {
		return false
	}
	s.at = s.hub.cfg.Now()
	muted := len(s.loading) > 0 && !s.fresh
	s.track(st, m)
	if muted && !m.ToAgent && m.Method != "" && m.ID() == nil {
		return !s.delivered
	}
	by, _ := m.By.(*Client)
	switch {
	case m.ToAgent:
		s.record(transcript.ToAgent, m.Frame, by)
	case m.Unsaid:
		s.note(map[string]string{"unanswered": m.Request})
	default:
		s.record(transcript.FromAgent, m.Frame, nil)
	}
	return !s.delivered && s.claimed()
}

// claimed tells whether the session is somebody's. The lock is held.
func (s *session) claimed() bool { return len(s.books) > 0 }

// track keeps in mind what is under way. The lock is held.
func (s *session) track(st *stand, m router.Said) {
	id, asks := string(m.ID()), m.Method != "" && m.ID() != nil
	switch m.Request {
	case acp.AgentMethodSessionPrompt:
		if asks {
			s.prompts[id] = true
		} else {
			delete(s.prompts, id)
		}
	case acp.AgentMethodSessionLoad, acp.AgentMethodSessionResume:
		if asks {
			s.loading[id] = true
			return
		}
		delete(s.loading, id)
		result := m.Result()
		if result == nil {
			return
		}
		s.fresh = false
		if s.delivered || !st.promises(s.id) { // else it may be the run's, and what was said can still be read
			s.stand = st
			s.keep(result)
		}
	case acp.AgentMethodSessionNew:
		if !m.ToAgent {
			s.keep(m.Result())
		}
	default:
		if m.ToAgent && m.Method == "" {
			s.settled(id, m.By)
		}
		if !m.ToAgent && m.Method == acp.ClientMethodSessionUpdate {
			s.changed(m.Params())
		}
	}
}

// keep keeps what the agent answered about the session. The lock is held.
func (s *session) keep(result jsontext.Value) {
	if o := readObject(result).without("sessionId"); o != nil {
		s.result = o
	}
}

// record writes a message down and shows it. The lock is held.
func (s *session) record(d transcript.Direction, f router.Frame, by *Client) {
	if s.writing == nil && !s.claimed() {
		if s.size += len(f.Raw); s.size <= maxEarlyBytes {
			s.early = append(s.early, heard{d, f})
		}
		return
	}
	if s.writing == nil && !s.open(transcript.Header{Session: s.id}) {
		return
	}
	// Only the agent's reader gets here with one of its notifications, and calls stand.Heard after it; or flush does, which tells itself.
	// A long one does not wait: it would take the room of those after it, from viewers who may not read it yet.
	waits := d == transcript.FromAgent && f.Method != "" && f.ID() == nil && len(f.Raw) < waitingBytes
	keep := s.writing.Append
	if waits {
		keep = s.writing.Hold
	}
	e := keep(d, f.Raw)
	if d == transcript.FromAgent && f.Method != "" && f.ID() != nil && len(s.asked) < maxQuestions {
		s.asked[string(f.ID())] = e.Frame
	}
	var seen []Message
	if len(s.clients) > 0 {
		for _, data := range s.seen(d, &f, e) {
			seen = append(seen, Message{Session: s.id, Data: data})
		}
	}
	for c := range s.clients {
		if c != by {
			for _, m := range seen {
				if waits {
					c.out.hold(m, s.writing)
				} else {
					c.out.push(m)
				}
			}
		}
	}
}

// seen is view, without reading again what was not changed on its way into the transcript.
func (s *session) seen(d transcript.Direction, f *router.Frame, e transcript.Entry) [][]byte {
	same := len(e.Frame) == len(f.Raw) && &e.Frame[0] == &f.Raw[0]
	if e.Direction != d || d == transcript.Note || !same {
		return view(s.id, e)
	}
	return viewFrame(s.id, d, f)
}

// open begins a transcript. The lock is held.
func (s *session) open(h transcript.Header) bool {
	book, err := s.hub.cfg.Store.Begin(h)
	if err != nil {
		s.hub.cfg.Log.Error("transcript: cannot begin", "cause", err)
		return false
	}
	s.writing = book
	if s.books = append(s.books, book); len(s.books) > maxBooks {
		s.books = s.books[len(s.books)-maxBooks:]
	}
	return true
}

// flush writes down what was said before. The lock is held.
func (s *session) flush() {
	early := s.early
	s.early, s.size = nil, 0
	for _, m := range early {
		s.record(m.direction, m.frame, nil)
	}
	s.tell()
}

// tell has what is held be written down, and be sent to those who are attached. The lock is held.
func (s *session) tell() {
	if s.writing != nil {
		s.writing.Flush()
	}
	for c := range s.clients {
		c.out.flush()
	}
}

// shut ends the transcript. The lock is held.
func (s *session) shut() {
	if book := s.writing; book != nil {
		s.writing = nil
		s.hub.closing.Go(func() {
			if err := book.Close(); err != nil {
				s.hub.cfg.Log.Error("transcript: could not be stored", "cause", err)
			}
		})
	}
}

// begin says that the session carries out a run. The lock is held.
func (s *session) begin(st *stand, agent string, run turn.Run, cancel func(cause error)) {
	s.stand, s.delivered, s.cancel, s.over = st, true, cancel, false
	s.run = runInfo{Run: &runName{run.Namespace, run.Name, run.UID}, Attempt: run.Attempt, State: stateRunning}
	s.shut()
	ref := wire.RunRef{Namespace: run.Namespace, Name: run.Name, UID: run.UID}
	if s.open(transcript.Header{Run: ref, Attempt: run.Attempt, Session: s.id, Agent: agent}) {
		s.note(s.run)
		s.flush()
	}
}

// note writes down what the harness has to say. The lock is held.
func (s *session) note(what any) {
	s.record(transcript.Note, router.Frame{Raw: encode(what)}, nil)
}

// end says how the run ended, and whether the session goes on.
func (s *session) end(run turn.Run, e wire.Envelope, goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run.Run == nil || s.run.Run.UID != run.UID || s.run.Attempt != run.Attempt || s.run.State != stateRunning {
		return
	}
	s.run.State, s.run.Outcome, s.run.Reason = stateEnded, string(e.Outcome), string(e.Reason)
	s.cancel = nil
	s.note(s.run)
	s.drop()
	s.shut()
	s.over = !goesOn
}

// fell says that the agent is gone.
func (s *session) fell(st *stand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stand != st {
		return
	}
	clear(s.prompts)
	clear(s.loading)
	s.drop()
}

// close ends the session for good, and nobody is attached to it any more.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.drop()
	s.tell()
	s.shut()
	for c := range s.clients {
		c.mu.Lock()
		delete(c.sessions, s)
		c.mu.Unlock()
	}
	clear(s.clients)
	s.hub.left(s.dir)
	s.dir = ""
}

// own tells whether it is a client's own.
func (s *session) own() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.delivered && s.claimed() && !s.over
}

// load tells who carries the session, and whether something is under way in it.
func (s *session) load() (*stand, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stand, s.busy()
}

// withheld tells whether an agent has given the session's id to one that the harness opened for a run to come. The lock is held.
func (s *session) withheld() bool { return !s.delivered && s.hub.reserves(s.id) }

func (s *session) busy() bool {
	return s.taken || s.inLoad || len(s.prompts) > 0 || s.delivered && s.run.State == stateRunning
}

// idle tells whether the session may be forgotten, and since when. Who is attached to one that is over misses nothing.
func (s *session) idle() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, !s.busy() && (s.over || len(s.clients) == 0)
}
