package metrics

import (
	"slices"
	"time"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// other stands for a word that is not on our list: a runtime's own must not make series without end.
const other = "Other"

// The kinds of runs.
const (
	KindDelivered = "delivered"
	KindPod       = "pod"
	KindStanding  = "standing"
)

// reasons are those that a record can have (SPEC.md, Conditions; Envelope).
var reasons = []string{
	string(wire.ReasonCompleted), string(wire.ReasonAgentError), string(wire.ReasonAgentCrashed), string(wire.ReasonAgentSilent), string(wire.ReasonLimitReached),
	string(wire.ReasonRefused), string(wire.ReasonDeadlineExceeded), string(wire.ReasonBudgetExceeded), string(wire.ReasonResultTooLarge),
	string(wire.ReasonInvalidOutput), string(wire.ReasonNoEvidence), string(wire.ReasonCancelled), string(wire.ReasonInterrupted),
	hearthv1.ReasonStartingDeadlineExceeded, hearthv1.ReasonCancelUnconfirmed, hearthv1.ReasonTargetLost, hearthv1.ReasonOutcomeUnknown,
	hearthv1.ReasonRejected, hearthv1.ReasonNotAdmitted, hearthv1.ReasonAgentNotFound, hearthv1.ReasonInvalidTemplate, hearthv1.ReasonPodFailed,
}

var outcomes = []string{string(wire.OutcomeSucceeded), string(wire.OutcomeFailed), string(wire.OutcomeCancelled), string(wire.OutcomeInterrupted)}

// Words of admission's refusals that are no codes of the API: writes that are the controller's alone, wrong fields, and answers without a
// refusal in them.
const (
	CodeForbidden = "Forbidden"
	CodeInvalid   = "Invalid"
	CodeMalformed = "Malformed"     // the object could not be read (400)
	CodeConflict  = "Conflict"      // the Agent changed meanwhile (409)
	CodeInternal  = "InternalError" // it could not be told (500)
)

var refusalCodes = []string{
	string(hearthv1.RefusalMissingAgent), string(hearthv1.RefusalConflictingFields), string(hearthv1.RefusalDeliveryDisabled), string(hearthv1.RefusalWrongMode),
	string(hearthv1.RefusalReservedName), string(hearthv1.RefusalInvalidTemplate), string(hearthv1.RefusalMissingParameters), string(hearthv1.RefusalUnusedParameters),
	string(hearthv1.RefusalInvalidDelivery), string(hearthv1.RefusalNamespaceNotServed), CodeForbidden, CodeInvalid, CodeMalformed, CodeConflict, CodeInternal,
}

func known(word string, words []string) string {
	if slices.Contains(words, word) {
		return word
	}
	return other
}

// move is what a write moves: one on a counter, or Seconds in a histogram.
type move struct {
	name    string
	labels  []string
	seconds float64
}

// RunWritten counts what a status write of a run made true: before is what was stored, after what is. The API server accepts one write on
// top of a version, so each change is counted once, by whoever made it; one whose reply was lost is not counted. Lost is why an attempt
// was lost by this write, "" if none was. TraceID is that of the run's trace, "" without one.
func RunWritten(before, after *hearthv1.AgentRun, lost, traceID string) {
	for _, m := range moves(before, after, lost) {
		if vec := counterOf[m.name]; vec != nil {
			vec.WithLabelValues(m.labels...).Inc()
			continue
		}
		observe(histogramOf[m.name], m.seconds, traceID, m.labels...)
	}
}

func moves(before, after *hearthv1.AgentRun, lost string) []move {
	var out []move
	b, a := &before.Status, &after.Status
	if after.Delivered() {
		out = deliveredMoves(b, a, after.CreationTimestamp.Time, lost)
	}
	if before.Ended() || !after.Ended() {
		return out
	}
	outcome := OutcomeOf(after)
	out = append(out, move{name: RunsFinished, labels: []string{kindOf(after), outcome, known(a.Reason, reasons)}})
	if a.Reason == hearthv1.ReasonCancelUnconfirmed {
		out = append(out, move{name: CancelsUnconfirmed})
	}
	if a.StartTime != nil && !after.Standing() {
		out = append(out, move{RunDuration, []string{outcome}, seconds(a.StartTime.Time, a.CompletionTime.Time)})
	}
	if after.Delivered() && a.Outcome != "" && a.RecordedAt != nil { // the harness's own end; else nothing ended there
		out = append(out, move{name: Record, seconds: seconds(a.CompletionTime.Time, a.RecordedAt.Time)})
	}
	return out
}

func deliveredMoves(b, a *hearthv1.AgentRunStatus, created time.Time, lost string) []move {
	var out []move
	var was, is hearthv1.DeliveryStatus
	if b.Delivery != nil {
		was = *b.Delivery
	}
	if a.Delivery != nil {
		is = *a.Delivery
	}
	if a.StartTime != nil && b.StartTime == nil && was.Losses == 0 {
		out = append(out, move{name: RunWaiting, seconds: seconds(created, a.StartTime.Time)})
	}
	accepted, reserved := is.AcceptedAt, is.ReservedAt
	if accepted != nil && reserved != nil && (was.AcceptedAt == nil || was.Attempt != is.Attempt) {
		out = append(out, move{name: Delivery, seconds: seconds(reserved.Time, accepted.Time)})
	}
	if is.Losses > was.Losses {
		out = append(out, move{name: DeliveryLosses, labels: []string{known(lost, reasons)}})
	}
	return out
}

// seconds between two times of clocks that may differ: never less than none.
func seconds(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }

func kindOf(run *hearthv1.AgentRun) string {
	switch {
	case run.Delivered():
		return KindDelivered
	case run.Standing():
		return KindStanding
	default:
		return KindPod
	}
}

// OutcomeOf is how a run ended, in an envelope's word: where the end is the controller's own, or a Pod's without an envelope, the one that
// an envelope would have.
func OutcomeOf(run *hearthv1.AgentRun) string {
	switch s := run.Status; {
	case s.Outcome != "":
		return known(s.Outcome, outcomes)
	case s.Phase == hearthv1.PhaseSucceeded:
		return string(wire.OutcomeSucceeded)
	case s.Reason == hearthv1.ReasonCancelled:
		return string(wire.OutcomeCancelled)
	default:
		return string(wire.OutcomeFailed)
	}
}
