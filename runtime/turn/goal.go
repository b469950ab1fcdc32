// Package turn carries one goal through one session prompt to one envelope: permissions, limits, silence, the cancel ladder and
// the judgement of what came of it (SPEC.md, Harness and Envelope).
package turn

import (
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Run says whose work a goal is. It is empty where nobody told the harness.
type Run struct {
	Namespace, Name, UID string
	Attempt              int64
}

// Goal is one piece of work for the agent.
type Goal struct {
	Run      Run
	Text     string
	Standing string // the agent's standing instructions, which go before the first goal of a session
	Limits   Limits
	// Session is where it is carried out; "" leaves that to the pool.
	Session wire.SessionMode
	// Trace is what it is a part of; zero: nothing that is known.
	Trace trace.SpanContext
}

// texts are the prompt's content blocks; instructed tells that the session has had the standing instructions.
func (g Goal) texts(instructed bool) []string {
	if g.Standing == "" || instructed {
		return []string{g.Text}
	}
	return []string{g.Standing, g.Text}
}

// Limits bound a turn; zero does not limit.
type Limits struct {
	ActiveSeconds int64 // the run's own time, from its start (R30)
	// Since is that start where it was earlier than the goal's: a one-shot run's is its harness's. Zero is the goal's.
	Since time.Time
	// Tokens of all model calls together, and Cost, are the run's budget, where the agent tells them (R30).
	Tokens int64
	Cost   *wire.Cost
}

// left is what is left of the run's own time; false where it is not limited.
func (l Limits) left(now time.Time) (time.Duration, bool) {
	left := time.Duration(min(l.ActiveSeconds, int64(maxActive/time.Second))) * time.Second
	if left > 0 && !l.Since.IsZero() {
		return left - now.Sub(l.Since), true
	}
	return left, left > 0
}

const maxActive = 100 * 365 * 24 * time.Hour

// Defaults and bounds of a turn.
const (
	DefaultSilence     = 10 * time.Minute
	DefaultCancelGrace = 10 * time.Second
	maxMessage         = 8 << 10 // bytes of an envelope's message
	maxWarnings        = 16
	maxWarning         = 256 // bytes of one warning
	maxCurrency        = 16  // bytes of what an agent calls its currency
)

// Short is text for an envelope of at most limit bytes, whatever it was.
func Short(text string, limit int) string { return wire.CutText(wire.CleanText(text), limit) }

// Policy is who or what answers an agent's permission questions (R52).
type Policy string

// The policies.
const (
	Deny  Policy = "Deny"
	Allow Policy = "Allow"
	Ask   Policy = "Ask" // people are asked; Deny if none of them answers
)

// ParsePolicy reads a policy in any case.
func ParsePolicy(s string) (Policy, error) {
	for _, p := range []Policy{Deny, Allow, Ask} {
		if strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("permission policy %.32q: expected Deny, Allow or Ask", s)
}
