package attach

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
	"github.com/hearthdev/hearth/runtime/turn"
)

// Bounds of a hub.
const (
	MaxClients        = 128
	DefaultAskTimeout = 5 * time.Minute
	maxSessions       = 1000    // known at once; the oldest that nobody is attached to and nothing happens in are forgotten
	maxEarly          = 64      // sessions of one agent that it spoke of before anybody claimed them …
	maxEarlyBytes     = 4 << 20 // … and what is kept of each
	maxCalls          = 64      // requests of one client that wait for the agent
	maxQuestions      = 64      // open in one session
	maxBooks          = 16      // transcripts of one session that late clients are shown
)

// Steering is whether people may steer the runs that are delivered, or only watch them (R53).
type Steering string

// The two.
const (
	WatchOnly Steering = "WatchOnly"
	SteerRuns Steering = "Steer"
)

// Config is what a hub is made of.
type Config struct {
	Version  string // the harness's
	Store    *transcript.Store
	Steering Steering // WatchOnly unless set
	// Policy answers the permission questions of clients' own sessions when nobody is there; Ask counts as Deny.
	Policy turn.Policy
	// AskTimeout is how long people may take to answer a question; DefaultAskTimeout unless set.
	AskTimeout time.Duration
	// Dir gives the directory for a session for which a client asked for this one: the same if there is one, else a fresh one.
	Dir func(asked string) (string, error)
	// Left, unless nil, gives back what Dir gave, once for each time, because the session is over or did not begin.
	Left func(dir string)
	Log  *slog.Logger
	Now  func() time.Time
}

// Hub is where clients meet the sessions of the agents. It implements standing.Guests and endpoint.Clients. Its methods may be
// called from any goroutine.
//
// Its lock is taken for a moment to look something up, and no other lock is taken under it. A session's lock may be held when a
// client's outbox is filled; no lock is held when something is sent to an agent, because a stand hears of that too.
type Hub struct {
	cfg     Config
	closing sync.WaitGroup // transcripts being closed

	mu       sync.Mutex
	stands   map[int]*stand // by slot; those that fell stay until the next rises
	sessions map[string]*session
	clients  map[*Client]struct{}
	open     map[uint64]*question
	asked    uint64 // number of the last question
}

// New makes a hub that knows the sessions of the store's transcripts.
func New(cfg Config) *Hub {
	if cfg.AskTimeout <= 0 {
		cfg.AskTimeout = DefaultAskTimeout
	}
	if cfg.Steering == "" {
		cfg.Steering = WatchOnly
	}
	h := &Hub{cfg: cfg, stands: map[int]*stand{}, sessions: map[string]*session{}, clients: map[*Client]struct{}{}, open: map[uint64]*question{}}
	for _, book := range cfg.Store.List() {
		if s := remembered(h, book); s != nil {
			h.sessions[s.id] = s
		}
	}
	return h
}

// Close waits until all transcripts are on the disk.
func (h *Hub) Close() { h.closing.Wait() }

// Connect begins a client's connection.
func (h *Hub) Connect(access Access) (*Client, error) {
	if access != View && access != Steer {
		return nil, errors.New("expected the view or the steer key")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.clients) >= MaxClients {
		return nil, fmt.Errorf("%d clients are connected; there is room when one of them leaves", MaxClients)
	}
	c := &Client{hub: h, access: access, out: newOutbox(), calls: map[*pending]struct{}{}, sessions: map[*session]struct{}{}}
	h.clients[c] = struct{}{}
	return c, nil
}

// Watch implements standing.Guests.
func (h *Hub) Watch(slot int) router.Watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := &stand{hub: h, slot: slot, early: map[string]*session{}, opening: map[string]opening{}, reserved: map[string]bool{}}
	h.stands[slot] = st
	return st
}

// Rose implements standing.Guests.
func (h *Hub) Rose(slot int, conn *router.Conn, agent router.Agent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if st := h.stands[slot]; st != nil {
		st.conn, st.agent = conn, agent
	}
}

// Fell implements standing.Guests.
func (h *Hub) Fell(slot int) {
	h.mu.Lock()
	st := h.stands[slot]
	if st == nil {
		h.mu.Unlock()
		return
	}
	st.fallen = true
	clear(st.early)
	clear(st.reserved)
	all := slices.Collect(maps.Values(h.sessions))
	h.mu.Unlock()
	for _, s := range all {
		s.fell(st)
	}
}

// Begin implements standing.Guests.
func (h *Hub) Begin(slot int, id string, run turn.Run, cancel func(cause error)) {
	h.mu.Lock()
	st := h.stands[slot]
	if st == nil {
		h.mu.Unlock()
		return
	}
	name := st.agent.Name
	h.mu.Unlock()
	s, old := h.claim(st, id)
	s.begin(st, name, run, cancel)
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	st.release(id) // it is known as the run's, and nobody is in one of its id
	h.forget()
}

// End implements standing.Guests.
func (h *Hub) End(slot int, id string, run turn.Run, e wire.Envelope, goesOn bool) {
	if s := h.session(id); s != nil {
		s.end(run, e, goesOn)
	}
}

// claim makes a session that an agent spoke of one that clients may see. It returns it locked: nobody gets at it before it is known whose
// it is. One of that id that was there before has to be closed: agents use numbers again.
func (h *Hub) claim(st *stand, id string) (s, old *session) {
	h.mu.Lock()
	s = cmp.Or(st.early[id], h.sessions[id])
	h.mu.Unlock()
	if s == nil {
		s = newSession(h, id, st)
	}
	s.mu.Lock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if old = h.sessions[id]; old == s {
		old = nil
	}
	delete(st.early, id)
	h.sessions[id] = s
	return s, old
}

// reserves tells whether the id is one of a session that the harness opened for a run to come.
func (h *Hub) reserves(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, st := range h.stands {
		if st.reserved[id] {
			return true
		}
	}
	return false
}

func (h *Hub) session(id string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id]
}

// forget drops the oldest sessions beyond the bound.
func (h *Hub) forget() {
	h.mu.Lock()
	excess := len(h.sessions) - maxSessions + 1 // room for one
	var all []*session
	if excess > 0 {
		all = slices.Collect(maps.Values(h.sessions))
	}
	h.mu.Unlock()
	if excess <= 0 {
		return
	}
	type aged struct {
		s  *session
		at time.Time
	}
	var idle []aged
	for _, s := range all {
		if at, is := s.idle(); is {
			idle = append(idle, aged{s, at})
		}
	}
	slices.SortFunc(idle, func(a, b aged) int { return a.at.Compare(b.at) })
	for _, a := range idle[:min(excess, len(idle))] {
		h.remove(a.s)
	}
}

// left gives a directory back; "" is none.
func (h *Hub) left(dir string) {
	if dir != "" && h.cfg.Left != nil {
		h.cfg.Left(dir)
	}
}

// remove forgets a session; its transcripts stay in the store.
func (h *Hub) remove(s *session) {
	h.mu.Lock()
	if h.sessions[s.id] == s {
		delete(h.sessions, s.id)
	}
	h.mu.Unlock()
	s.close()
}

// best is the agent that is least busy; nil when none stands.
func (h *Hub) best() *stand {
	h.mu.Lock()
	stands := slices.DeleteFunc(slices.Collect(maps.Values(h.stands)), func(st *stand) bool { return !st.up() })
	all := slices.Collect(maps.Values(h.sessions))
	h.mu.Unlock()
	load := map[*stand]int{}
	for _, s := range all {
		st, busy := s.load()
		load[st]++
		if busy {
			load[st] += maxSessions
		}
	}
	var best *stand
	for _, st := range stands {
		if best == nil || load[st] < load[best] || load[st] == load[best] && st.slot < best.slot {
			best = st
		}
	}
	return best
}
