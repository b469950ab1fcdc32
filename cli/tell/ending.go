// Package tell is what hearth says about agents and runs: pure, from what the API server has to words.
package tell

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// codes are the exit codes of reasons that have another than a failure's; as harness run has them (SPEC.md, Harness), and further.
var codes = map[string]int{
	string(wire.ReasonLimitReached):         kube.ExitLimit,
	string(wire.ReasonBudgetExceeded):       kube.ExitLimit,
	hearthv1.ReasonDeadlineExceeded:         kube.ExitLimit,
	hearthv1.ReasonStartingDeadlineExceeded: kube.ExitLimit,
	string(wire.ReasonRefused):              kube.ExitRefused,
	hearthv1.ReasonRejected:                 kube.ExitRefused,
	hearthv1.ReasonNotAdmitted:              kube.ExitRefused,
	hearthv1.ReasonCancelled:                kube.ExitCancelled,
	hearthv1.ReasonCancelUnconfirmed:        kube.ExitUnknown,
	hearthv1.ReasonTargetLost:               kube.ExitUnknown,
	hearthv1.ReasonInterrupted:              kube.ExitUnknown,
	hearthv1.ReasonOutcomeUnknown:           kube.ExitUnknown,
}

// failures are the reasons of a plain failure.
var failures = []string{
	string(wire.ReasonAgentError), string(wire.ReasonAgentCrashed), string(wire.ReasonAgentSilent), string(wire.ReasonNoEvidence),
	string(wire.ReasonInvalidOutput), string(wire.ReasonResultTooLarge), hearthv1.ReasonAgentNotFound, hearthv1.ReasonPodFailed,
	hearthv1.ReasonInvalidTemplate,
}

// Code is the exit code that says how a run ended.
func Code(run *hearthv1.AgentRun) int {
	if run.Status.Phase == hearthv1.PhaseSucceeded {
		return kube.ExitDone
	}
	_, reason, _ := State(run)
	if code, ok := codes[reason]; ok {
		return code
	}
	switch wire.Outcome(run.Status.Outcome) {
	case wire.OutcomeCancelled:
		return kube.ExitCancelled
	case wire.OutcomeInterrupted:
		return kube.ExitUnknown
	default:
		return kube.ExitFailed
	}
}

// State is where a run is: its phase, and the reason and message behind it.
func State(run *hearthv1.AgentRun) (phase hearthv1.Phase, reason, message string) {
	phase, reason, message = run.Status.Phase, run.Status.Reason, run.Status.Message
	if c := meta.FindStatusCondition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded); c != nil && !run.Ended() || c != nil && reason == "" {
		reason, message = c.Reason, c.Message
	}
	if phase == "" {
		phase = hearthv1.PhasePending
	}
	return phase, reason, message
}

// Word is phase and reason, as Succeeded/Completed.
func Word(run *hearthv1.AgentRun) string {
	phase, reason, _ := State(run)
	if reason == "" || reason == string(phase) {
		return string(phase)
	}
	return string(phase) + "/" + reason
}

// Ended is what is said of a run that has ended, in lines: how, where, how long; why, unless it is plain; and what to think of.
func Ended(run *hearthv1.AgentRun) []string {
	line := kube.Line(run.Name) + ": " + kube.Line(Word(run))
	if run.Status.PodName != "" {
		line += " on " + run.Status.PodName
	}
	if s, e := run.Status.StartTime, run.Status.CompletionTime; s != nil && e != nil {
		line += " in " + took(s, e)
	}
	if used := used(run.Status.Usage); used != "" {
		line += ", " + used
	}
	lines := []string{line}
	_, reason, message := State(run)
	if message := kube.Line(message); message != "" && reason != hearthv1.ReasonCompleted {
		lines = append(lines, "  "+message)
	}
	if t := run.Status.Truncation; t != nil {
		lines = append(lines, fmt.Sprintf("  the output was cut: it had %d bytes", t.OriginalBytes))
	}
	if advice := afterwards[reason]; advice != "" {
		lines = append(lines, "  "+advice)
	}
	return lines
}

// Already is what is said of a run that is to be stopped, and has ended.
func Already(run *hearthv1.AgentRun) string {
	return kube.Line(run.Name) + " has ended already: " + kube.Line(Word(run))
}

// afterwards is what to think of when a run ended so (docs/operating.md, How did my run end?).
var afterwards = map[string]string{
	hearthv1.ReasonTargetLost:        atWork,
	hearthv1.ReasonOutcomeUnknown:    atWork,
	hearthv1.ReasonCancelUnconfirmed: atWork,
	hearthv1.ReasonInterrupted:       "what it did until then is done: look before you make the run again",
}

const atWork = "the agent may be at work still, until its deadline: look what it did before you make the run again"

func took(from, to *metav1.MicroTime) string {
	d := to.Sub(from.Time)
	if d < 0 {
		d = 0 // two clocks
	}
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return duration.HumanDuration(d)
}

func used(u *hearthv1.Usage) string {
	if u == nil {
		return ""
	}
	var parts []string
	switch {
	case u.TotalTokens != nil:
		parts = append(parts, fmt.Sprintf("%d tokens", *u.TotalTokens))
	case u.InputTokens != nil && u.OutputTokens != nil:
		parts = append(parts, fmt.Sprintf("%d tokens", *u.InputTokens+*u.OutputTokens))
	}
	if u.Cost != nil {
		parts = append(parts, kube.Line(u.Cost.Amount+" "+u.Cost.Currency))
	}
	return strings.Join(parts, ", ")
}
