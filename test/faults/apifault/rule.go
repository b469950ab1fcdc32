package apifault

import (
	"slices"
	"sync/atomic"
	"time"
)

// Always as a number of times means until the rule is removed.
const Always = -1

// Rule is a fault that meets certain requests. Of several that match, the one made first and not yet used up acts; delays add up.
type Rule struct {
	api   *API
	match Match
	kind  ruleKind
	code  int
	delay time.Duration
	left  int // guarded by the API's lock
	hits  atomic.Int64
}

type ruleKind int

const (
	nothing ruleKind = iota
	fail
	commit
	drop
	slow
)

// On begins a rule; it holds once one of Fail, Commit, Drop and Delay is called.
func (a *API) On(m Match) *Rule { return &Rule{api: a, match: m} }

// Fail answers with a status, 409 or 500 for example, as the API server would, and asks it nothing.
func (r *Rule) Fail(code, times int) *Rule { return r.holds(fail, code, 0, times) }

// Commit has the API server do it and then tells the caller otherwise: 504. What the API server itself refuses is passed on.
func (r *Rule) Commit(code, times int) *Rule { return r.holds(commit, code, 0, times) }

// Drop has the API server do it and then cuts the connection without an answer.
func (r *Rule) Drop(times int) *Rule { return r.holds(drop, 0, 0, times) }

// Delay passes it on later.
func (r *Rule) Delay(d time.Duration) *Rule { return r.holds(slow, 0, d, Always) }

// Remove ends it.
func (r *Rule) Remove() {
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.api.rules = slices.DeleteFunc(r.api.rules, func(other *Rule) bool { return other == r })
}

// Hits counts how often it acted. A test asks it, so that a rule which met nothing is not taken for a proof.
func (r *Rule) Hits() int { return int(r.hits.Load()) }

func (r *Rule) holds(kind ruleKind, code int, delay time.Duration, times int) *Rule {
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.kind, r.code, r.delay, r.left = kind, code, delay, times
	r.api.rules = append(r.api.rules, r)
	return r
}

// use takes one of its times. The caller holds the lock.
func (r *Rule) use() {
	r.hits.Add(1)
	if r.left > 0 {
		r.left--
	}
}

// rule finds what meets a request: a rule, or none, and all delays.
func (a *API) rule(q Request, body []byte) (acts *Rule, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.rules {
		if r.left == 0 || r.kind != slow && acts != nil || !r.match.matches(q) || r.match.Body != nil && !r.match.Body(body) {
			continue
		}
		r.use()
		if r.kind == slow {
			delay += r.delay
			continue
		}
		acts = r
	}
	return acts, delay
}
