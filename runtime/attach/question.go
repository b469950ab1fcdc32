package attach

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
)

// codeCancelled is the Agent Client Protocol's own.
const codeCancelled = -32800

// question is a request of an agent that people may answer. The first answer counts.
type question struct {
	number    uint64 // its id towards clients
	stand     *stand
	session   *session
	request   *router.Request
	data      []byte // the message to clients
	otherwise func() // answers it in people's place
	timer     *time.Timer

	// Of the session's lock.
	viewers map[*Client]bool // who was asked and may still answer
	by      *Client          // whose answer counts
}

// Ask implements standing.Guests.
func (h *Hub) Ask(slot int, r *router.Request, otherwise func()) {
	h.mu.Lock()
	st, s := h.stands[slot], h.sessions[r.Session]
	h.mu.Unlock()
	if s == nil {
		otherwise()
		return
	}
	h.offer(st, s, r, otherwise)
}

// offer puts a question to everybody who is attached and may answer. Where nobody is, otherwise answers it at once.
func (h *Hub) offer(st *stand, s *session, r *router.Request, otherwise func()) {
	s.mu.Lock()
	id := string(r.ID())
	f, bad := router.Parse(s.asked[id], router.Lenient) // as it is in the transcript: without secrets
	viewers := s.steerers()
	if bad != nil || len(viewers) == 0 || len(s.questions) >= maxQuestions || s.questions[id] != nil {
		s.mu.Unlock()
		otherwise()
		return
	}
	q := &question{stand: st, session: s, request: r, otherwise: otherwise, viewers: viewers}
	h.mu.Lock()
	h.asked++
	q.number = h.asked
	h.open[q.number] = q
	h.mu.Unlock()
	q.data = f.WithID(strconv.AppendUint(nil, q.number, 10))
	q.timer = time.AfterFunc(h.cfg.AskTimeout, func() {
		r.Expire()
		otherwise()
	})
	s.questions[id] = q
	for c := range viewers {
		c.out.push(Message{Session: s.id, Data: q.data})
	}
	s.mu.Unlock()
	if _, settled := r.Settled(); settled { // meanwhile, and nobody knew of it yet
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settled(id, nil)
	}
}

// steerers are those who are attached and may answer. The lock is held.
func (s *session) steerers() map[*Client]bool {
	all := map[*Client]bool{}
	for c := range s.clients {
		if c.access == Steer {
			all[c] = true
		}
	}
	return all
}

// show puts what is open to somebody who comes late. The lock is held.
func (s *session) show(c *Client) {
	if c.access != Steer {
		return
	}
	open := slices.SortedFunc(maps.Values(s.questions), func(a, b *question) int { return cmp.Compare(a.number, b.number) })
	for _, q := range open {
		if q.by == nil && !q.viewers[c] {
			q.viewers[c] = true
			c.out.push(Message{Session: s.id, Data: q.data})
		}
	}
}

// settled ends a question that has its answer, and tells those who were asked and did not give it. The lock is held.
func (s *session) settled(id string, by any) {
	delete(s.asked, id)
	q := s.questions[id]
	if q == nil {
		return
	}
	delete(s.questions, id)
	q.timer.Stop()
	s.hub.mu.Lock()
	delete(s.hub.open, q.number)
	s.hub.mu.Unlock()
	told := append([]byte(`{"jsonrpc":"2.0","method":"`+methodCancelRequest+`","params":{"requestId":`), strconv.AppendUint(nil, q.number, 10)...)
	told = append(told, "}}"...)
	for c := range q.viewers {
		if by != c {
			c.out.push(Message{Session: s.id, Data: told})
		}
	}
}

// drop ends all questions, because nobody waits for an answer. The lock is held.
func (s *session) drop() {
	for id := range s.questions {
		s.settled(id, nil)
	}
	clear(s.asked)
}

// cancelQuestions answers what is open with "cancelled", as a client has to when it cancels a prompt.
func (s *session) cancelQuestions() {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.questions))
	s.mu.Unlock()
	for _, q := range open {
		if q.request.Method == acp.ClientMethodSessionRequestPermission {
			_ = q.request.Cancel()
		} else {
			_ = q.request.Fail(codeCancelled, "cancelled")
		}
	}
}

func (h *Hub) questions() []*question {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.open))
}

// answered takes a client's answer. One to nothing, or by somebody who was not asked, is ignored. Who answers with an error, or
// with what the agent did not offer, leaves it to the others; when there are none, nobody is waited for.
func (h *Hub) answered(c *Client, f *router.Frame) {
	number, err := strconv.ParseUint(string(f.ID()), 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	q := h.open[number]
	h.mu.Unlock()
	if q == nil {
		return
	}
	q.session.mu.Lock()
	if !q.viewers[c] || q.by != nil {
		q.session.mu.Unlock()
		return
	}
	if !q.accepts(f) {
		delete(q.viewers, c)
		nobody := len(q.viewers) == 0
		q.session.mu.Unlock()
		if nobody {
			q.otherwise()
		}
		return
	}
	q.by = c
	q.session.mu.Unlock()
	q.request.Forward(f, c)
}

// accepts tells whether an answer is one.
func (q *question) accepts(f *router.Frame) bool {
	result := f.Result()
	if q.request.Method != acp.ClientMethodSessionRequestPermission || result == nil {
		return result != nil
	}
	var chosen struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	if json.Unmarshal(result, &chosen) != nil {
		return false
	}
	switch chosen.Outcome.Outcome {
	case "cancelled":
		return true
	case "selected":
		return slices.Contains(options(q.request.Params), chosen.Outcome.OptionID)
	}
	return false
}

// options are those that a permission question offers, by their id.
func options(params jsontext.Value) []string {
	var question struct {
		Options []struct {
			OptionID string `json:"optionId"`
		} `json:"options"`
	}
	if json.Unmarshal(params, &question, router.Lenient) != nil {
		return nil
	}
	var ids []string
	for _, o := range question.Options {
		ids = append(ids, o.OptionID)
	}
	return ids
}
