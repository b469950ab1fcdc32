package conformance

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// reasons are the words that may go with each outcome.
var reasons = map[wire.Outcome][]wire.Reason{
	wire.OutcomeSucceeded: {wire.ReasonCompleted},
	wire.OutcomeFailed: {
		wire.ReasonAgentError, wire.ReasonAgentCrashed, wire.ReasonAgentSilent, wire.ReasonLimitReached, wire.ReasonRefused, wire.ReasonDeadlineExceeded,
		wire.ReasonBudgetExceeded, wire.ReasonResultTooLarge, wire.ReasonInvalidOutput, wire.ReasonNoEvidence,
	},
	wire.OutcomeCancelled:   {wire.ReasonCancelled},
	wire.OutcomeInterrupted: {wire.ReasonInterrupted},
}

func envelopeCases() []Case {
	return []Case{
		{ID: "D-1", Title: "every state has the digest of run, attempt and goal", run: func(t *trial) {
			k := fresh().next(7)
			want := wire.Digest(k.uid, k.attempt, t.kit.GoalQuick)
			same := func(where, digest string) {
				t.check(digest == want, "%s: expected the digest of what was delivered", where)
			}
			same("the 202", as[wire.Attempt](t, t.accepted(k, t.kit.GoalQuick, nil)).Digest)
			same("the finished attempt", t.until(k, wire.StateFinished).Digest)
			_, all := t.feed(0)
			same("the feed", all[k].Digest)
		}},
		{ID: "V-1", Title: "an envelope says how and why an attempt ended in the contract's words", run: func(t *trial) {
			quick, cancelled := fresh(), fresh()
			e := t.envelope(t.finished(quick))
			t.check(e.Outcome == wire.OutcomeSucceeded, "the quick goal: expected outcome Succeeded, got %s/%s", e.Outcome, e.Reason)
			t.running(cancelled)
			t.cancel(cancelled, "")
			for _, e := range []wire.Envelope{e, t.envelope(t.until(cancelled, wire.StateFinished))} {
				t.check(e.APIVersion == wire.ResultAPIVersion, "expected apiVersion %s", wire.ResultAPIVersion)
				t.check(slices.Contains(reasons[e.Outcome], e.Reason), "expected a reason that goes with the outcome, got %s/%s", e.Outcome, e.Reason)
				t.check(!e.Timing.StartedAt.IsZero() && !e.Timing.FinishedAt.Before(e.Timing.StartedAt) && e.Timing.DurationMillis >= 0, "expected timing")
			}
		}},
		{ID: "V-2", Title: "an envelope is at most 1 MiB of valid UTF-8 without NUL", run: func(t *trial) {
			k := fresh()
			t.finished(k)
			var shown struct{ Envelope json.RawMessage }
			body := t.get(k).body
			t.check(utf8.Valid(body), "expected valid UTF-8")
			t.check(json.Unmarshal(body, &shown) == nil && len(shown.Envelope) > 0, "expected an envelope")
			t.check(len(shown.Envelope) <= wire.MaxEnvelopeBytes, "expected at most 1 MiB, got %d bytes", len(shown.Envelope))
			t.check(!bytes.Contains(body, []byte{0}) && !strings.Contains(string(body), `\u0000`), "expected no NUL")
		}},
	}
}
