package page

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// tone is how a state is coloured; its word stands beside it always.
type tone string

const (
	toneGood tone = "good"
	toneBusy tone = "busy"
	toneWait tone = "wait"
	toneBad  tone = "bad"
)

// badge is a state in a word.
type badge struct {
	Tone tone
	Word string
}

// phase is a run's, in a word; a run that nobody has looked at yet is Pending.
func phase(r *hearthv1.AgentRun) hearthv1.Phase {
	if r.Status.Phase == "" {
		return hearthv1.PhasePending
	}
	return r.Status.Phase
}

func phaseBadge(r *hearthv1.AgentRun) badge {
	p := phase(r)
	b := badge{Word: clean(string(p), maxCell)}
	switch p {
	case hearthv1.PhaseSucceeded:
		b.Tone = toneGood
	case hearthv1.PhaseRunning:
		b.Tone = toneBusy
	case hearthv1.PhaseFailed:
		b.Tone = toneBad
	case hearthv1.PhasePending:
		b.Tone = toneWait
	default:
		b.Tone = toneWait
	}
	return b
}

// reason is where a run is, or why it ended.
func reason(r *hearthv1.AgentRun) string {
	if r.Ended() && r.Status.Reason != "" {
		return clean(r.Status.Reason, maxCell)
	}
	if c := condition(r.Status.Conditions, hearthv1.AgentRunConditionSucceeded); c != nil {
		return clean(c.Reason, maxCell)
	}
	return ""
}

// message is the controller's own about a run that lives. That of one that ended may be its runtime's, and quote what the agent said: it
// is not shown.
func message(r *hearthv1.AgentRun, limit int) string {
	c := condition(r.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
	if r.Ended() || c == nil {
		return ""
	}
	return clean(c.Message, limit)
}

// waiting: the run has not started and nobody has it: it is delivered and has no target, or its own Pod does not run.
func waiting(r *hearthv1.AgentRun) bool {
	if r.Ended() || r.Standing() || phase(r) != hearthv1.PhasePending {
		return false
	}
	return !r.Delivered() || r.Status.Delivery == nil || r.Status.Delivery.ReservedAt == nil
}

func condition(all []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(all, kind)
}

func isTrue(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }

// conditionRow is a condition in a table.
type conditionRow struct {
	Type, Status, Reason, Message string
	Since                         stamp
}
