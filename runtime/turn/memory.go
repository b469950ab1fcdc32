package turn

import (
	"crypto/sha256"
	"sync"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"

	"github.com/hearthdev/hearth/runtime/router"
)

// Account is what an agent has told of a session since it began: tokens and cost are counted from there (SPEC.md, Budgets).
type Account struct {
	Input   int64  `json:"input,omitzero"` // tokens of all model calls
	Output  int64  `json:"output,omitzero"`
	Context int64  `json:"context,omitzero"` // tokens in the agent's context
	Cost    string `json:"cost,omitzero"`    // a decimal number
	// Currency is Cost's.
	Currency string `json:"currency,omitzero"`
}

// Memory is what is known of a session from one turn to the next, and the session's sink between them: what an agent sends then
// belongs to no turn (SPEC.md, Standing sessions).
type Memory struct {
	policy Policy
	ask    func(question *router.Request, otherwise func())

	mu         sync.Mutex
	attached   bool
	instructed bool
	turn       *collector
	account    Account
	mode       string
	calls      map[[sha256.Size]byte]bool // tool calls of the last turn
}

// NewMemory remembers that a session had the standing instructions, and what was told of it. Permission questions that come between
// turns, which people's own prompts bring, are put to ask; the policy decides where it is nil or nobody answers.
func NewMemory(policy Policy, ask func(question *router.Request, otherwise func()), instructed bool, account Account) *Memory {
	return &Memory{policy: policy, ask: ask, instructed: instructed, account: account}
}

// Attach makes the memory the session's sink before its first turn: what has come by then, as the replay of a session that was
// loaded, belongs to no turn.
func (m *Memory) Attach(s *router.Session) {
	m.mu.Lock()
	m.attached, m.mode = true, s.Mode
	m.mu.Unlock()
	s.Attach(m)
}

// Told is what is known now: whether the session had the standing instructions, and what the agent has told of it.
func (m *Memory) Told() (instructed bool, account Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instructed, m.account
}

// begin makes what comes from here on the turn's. A session that has no sink yet was opened for this turn: all it has sent is.
func (m *Memory) begin(s *router.Session, c *collector) {
	m.mu.Lock()
	fresh := !m.attached
	if m.attached, m.turn = true, c; fresh {
		m.mode = s.Mode
	}
	c.remember(m.account, m.mode, m.calls)
	m.mu.Unlock()
	if fresh {
		s.Attach(m)
	}
}

// sent says that a prompt with the standing instructions is on its way.
func (m *Memory) sent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instructed = true
}

func (m *Memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turn != nil {
		m.account, m.mode, m.calls = m.turn.memorable()
		m.turn = nil
	}
}

func (m *Memory) current() *collector {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turn
}

// Notified implements router.Sink.
func (m *Memory) Notified(n router.Notification) {
	if c := m.current(); c != nil {
		c.Notified(n)
		return
	}
	if n.Method != acp.ClientMethodSessionUpdate && n.Method != gooseUpdate {
		return
	}
	var p struct {
		Update update `json:"update"`
	}
	if json.Unmarshal(n.Params, &p, router.Lenient) != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch u := p.Update; {
	case u.SessionUpdate == "current_mode_update":
		m.mode = u.CurrentModeID
	case u.SessionUpdate != usageUpdate:
	case n.Method == gooseUpdate:
		m.account.count(u.AccumulatedInput, u.AccumulatedOutput)
	default:
		m.account.Context = max(0, u.Used)
		if u.Cost != nil {
			m.account.pay(u.Cost.Amount, u.Cost.Currency)
		}
	}
}

// Asked implements router.Sink.
func (m *Memory) Asked(r *router.Request) {
	if c := m.current(); c != nil {
		c.Asked(r)
		return
	}
	byPolicy := func() { m.policy.Settle(r) }
	if m.ask == nil {
		byPolicy()
		return
	}
	m.ask(r, byPolicy)
}

// Lost implements router.Sink.
func (m *Memory) Lost(err error) {
	if c := m.current(); c != nil {
		c.Lost(err)
	}
}
