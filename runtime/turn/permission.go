package turn

import (
	"encoding/json"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/hearthdev/hearth/runtime/router"
)

// decide answers a permission question by the kind of the options, never by their position, and never for longer than once
// (R52). Where the agent offers no such option the answer is "cancelled". Ask is what nobody answered: Deny.
func (p Policy) decide(r *router.Request) acp.RequestPermissionOutcome {
	kind := acp.PermissionOptionKindRejectOnce
	if p == Allow {
		kind = acp.PermissionOptionKindAllowOnce
	}
	var question struct {
		Options []acp.PermissionOption `json:"options"`
	}
	if json.Unmarshal(r.Params, &question) == nil {
		for _, o := range question.Options {
			if o.Kind == kind {
				return acp.NewRequestPermissionOutcomeSelected(o.OptionId)
			}
		}
	}
	return acp.NewRequestPermissionOutcomeCancelled()
}

// Settle answers a permission question as the policy has it when nobody else does.
func (p Policy) Settle(r *router.Request) {
	_ = r.Answer(acp.RequestPermissionResponse{Outcome: p.decide(r)}) // a connection that is gone shows elsewhere
}

// By whom a permission question was answered, and how, in metrics.
const (
	byPolicy, byClient, byTimeout                      = "policy", "client", "timeout"
	decidedAllow, decidedDeny, decidedCancelled, other = "allow", "deny", "cancelled", "other"
)

// Decision is how a permission question was answered and by whom; client tells that it was one. Empty for another question.
func Decision(r *router.Request, result []byte, client bool) (decision, by string) {
	if r.Method != acp.ClientMethodSessionRequestPermission {
		return "", ""
	}
	switch by = byPolicy; {
	case client:
		by = byClient
	case r.Overdue():
		by = byTimeout
	}
	var chosen struct {
		Outcome struct {
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	var question struct {
		Options []acp.PermissionOption `json:"options"`
	}
	if json.Unmarshal(result, &chosen) != nil || chosen.Outcome.OptionID == "" || json.Unmarshal(r.Params, &question) != nil {
		return decidedCancelled, by
	}
	for _, o := range question.Options {
		if string(o.OptionId) != chosen.Outcome.OptionID {
			continue
		}
		switch o.Kind {
		case acp.PermissionOptionKindAllowOnce, acp.PermissionOptionKindAllowAlways:
			return decidedAllow, by
		case acp.PermissionOptionKindRejectOnce, acp.PermissionOptionKindRejectAlways:
			return decidedDeny, by
		}
		break
	}
	return other, by
}

// maxOpenQuestions bounds the permission questions of one turn that wait for people; what comes beyond is denied at once.
const maxOpenQuestions = 64

// noAnswer tells the reader of a record why the agent was not let.
const noAnswer = "a permission question was answered by nobody, and so denied"

// questions are the permission questions of one turn.
type questions struct {
	policy   Policy
	ask      func(question *router.Request, otherwise func()) // nil: nobody can be asked
	note     func(warning string)                             // for the envelope; takes the lock that take is called with
	stopping bool                                             // every answer is "cancelled" from here on
	open     []*router.Request                                // put to people; some may have been answered
	answered time.Time                                        // when people last answered
}

// take decides what becomes of a question: it returns what is left to do, which must be done without a lock.
func (q *questions) take(r *router.Request) func() {
	byPolicy := func() { q.policy.Settle(r) }
	unanswered := func() {
		if _, settled := r.Settled(); !settled {
			q.note(noAnswer) // before the agent hears of it and may end the turn
			q.policy.Settle(r)
		}
	}
	switch {
	case q.stopping:
		return func() { _ = r.Cancel() }
	case q.policy != Ask:
		return byPolicy
	case q.ask == nil:
		return unanswered
	}
	if q.waiting(); len(q.open) >= maxOpenQuestions {
		return unanswered
	}
	q.open = append(q.open, r)
	return func() {
		if _, settled := r.Settled(); !settled { // the end of the turn may have come in between
			q.ask(r, unanswered)
		}
	}
}

// waiting tells whether the agent waits for people, and if it does not, since when.
func (q *questions) waiting() (since time.Time, waits bool) {
	open := q.open[:0]
	for _, r := range q.open {
		if at, settled := r.Settled(); !settled {
			open = append(open, r)
		} else if at.After(q.answered) {
			q.answered = at
		}
	}
	clear(q.open[len(open):])
	q.open = open
	return q.answered, len(open) > 0
}

// stop ends every question, open or still to come, as "cancelled"; an answer that comes later does nothing.
func (q *questions) stop() {
	q.stopping = true
	for _, r := range q.open {
		_ = r.Cancel()
	}
	q.open = nil
}
