package signals

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Event is one that a write leads to. Note never has a goal, a parameter or anything that an agent said.
type Event struct {
	Type, Reason, Action, Note string
}

// Row is one row of the table of Events: on which kind of object, its reason, and when it comes.
type Row struct {
	Object, Reason, Type, When string
}

const (
	agentKind, runKind = "Agent", "AgentRun"
	normal, warning    = corev1.EventTypeNormal, corev1.EventTypeWarning
	// maxNote is the API's bound of an event's note, in bytes.
	maxNote = 1024
	// anyEnd stands in the table for each reason of a record.
	anyEnd = "a terminal reason"
)

// The reasons of Events that are no reasons of a condition.
const (
	EventReserved           = "Reserved"
	EventStarted            = "Started"
	EventAttemptLost        = "AttemptLost"
	EventLateResult         = "LateResult"
	EventCreated            = "Created"
	EventRecast             = "Recast"
	EventReady              = "Ready"
	EventNotReady           = "NotReady"
	EventCordoned           = "Cordoned"
	EventUncordoned         = "Uncordoned"
	EventDrained            = "Drained"
	EventMissed             = "Missed"
	EventFailedCreate       = "FailedCreate"
	EventOlderCRD           = "OlderCRD"
	actionWait, actionRetry = "Wait", "Retry"
	// ActionEnd is the action of the Event of a record.
	ActionEnd = "End"
)

// waits are the reasons for which a run waits and a person would ask why. TargetBusy is not among them: that there is a queue is no news,
// and an Event for each run in it would be many.
var (
	patient     = []string{hearthv1.ReasonWaitingForService, hearthv1.ReasonServiceRecasting, hearthv1.ReasonTargetNotReady}
	unreachable = []string{hearthv1.ReasonTargetUnreachable, hearthv1.ReasonTargetUnauthenticated, hearthv1.ReasonTargetIncompatible}
	waits       = slices.Concat(patient, unreachable)
	// broken are the reasons of an Agent's conditions that do not pass by themselves.
	broken = slices.Concat(unreachable, []string{hearthv1.ReasonInvalidTemplate, hearthv1.ReasonNoFreeName})
)

// Table is every Event that the controller makes of Agents and AgentRuns.
func Table() []Row {
	rows := []Row{
		{runKind, strings.Join(patient, ", "), normal, "it waits, for another reason than before; the note says why"},
		{runKind, strings.Join(unreachable, ", "), warning, "the same"},
		{runKind, EventReserved, normal, "a target was chosen; the note has the attempt and the Pod"},
		{runKind, EventStarted, normal, "the agent began; not of a run that ended before that was written"},
		{runKind, EventAttemptLost, warning, "infrastructure lost an attempt and `backoffLimit` allows another; the note says how it was lost"},
		{runKind, hearthv1.ReasonContactLost, warning, "it runs, and its Pod does not answer"},
		{runKind, hearthv1.ReasonCancelling, normal, "it was asked to stop, and that is not confirmed yet"},
		{runKind, anyEnd, "Normal for Completed and Cancelled, else Warning", "the record was written"},
		{runKind, EventLateResult, warning, "a result came after the record; the record stays"},
		{agentKind, EventCreated, normal, "a standing run, or the run of a schedule's time, was made"},
		{agentKind, EventRecast, warning, "standing runs ended and are replaced; the note says how many and what the next backoff is"},
		{agentKind, EventReady, normal, "the Ready condition became True"},
		{agentKind, EventNotReady, "Warning; Normal for ScaledToZero and Suspended", "the Ready condition became False; the note has its reason and message"},
		{agentKind, strings.Join(broken, ", "), warning, "a condition came to have this reason; the note has its message"},
		{agentKind, EventCordoned, normal, "a standing run gets no further work"},
		{agentKind, EventUncordoned, normal, "it gets work again"},
		{agentKind, EventDrained, normal, "a cordoned standing run was deleted"},
		{agentKind, EventMissed, warning, "times of a schedule have no run"},
		{agentKind, EventFailedCreate, warning, "the run of a schedule's time could not be made; it is tried again"},
		{"both", EventOlderCRD, warning, "the API server drops fields of the status: its CRD is older than the controller"},
	}
	return rows
}

// OfRun are the Events of a status write of a run: before is what was stored, after what is. What the status said before is told by no
// second Event, whoever looks at the run, and after a restart too. Lost is why an attempt was lost by this write, "" if none was.
func OfRun(before, after *hearthv1.AgentRun, lost string) []Event {
	was, is := reasonOf(before), reasonOf(after)
	switch {
	case before.Ended():
		return nil
	case after.Ended():
		return []Event{ended(after)}
	case lost != "":
		return []Event{{warning, EventAttemptLost, actionRetry, fmt.Sprintf("attempt %d was lost (%s); another follows", attemptOf(before), lost)}}
	case !after.Delivered() && (after.Standing() || is != hearthv1.ReasonCancelling):
		return nil // its Pod and its conditions say it
	}
	var out []Event
	if reserved(after) != "" && reserved(before) == "" {
		out = append(out, Event{normal, EventReserved, "Reserve", fmt.Sprintf("attempt %d is for Pod %s", attemptOf(after), reserved(after))})
	}
	if after.Delivered() && after.Status.StartTime != nil && before.Status.StartTime == nil {
		out = append(out, Event{normal, EventStarted, "Start", fmt.Sprintf("attempt %d began in Pod %s", attemptOf(after), reserved(after))})
	}
	switch {
	case was == is:
	case is == hearthv1.ReasonCancelling:
		out = append(out, Event{normal, is, "Cancel", "asked to stop; that is not confirmed yet"})
	case is == hearthv1.ReasonContactLost:
		out = append(out, Event{warning, is, actionWait, clip(messageOf(after))})
	case slices.Contains(waits, is):
		kind := normal
		if slices.Contains(broken, is) {
			kind = warning
		}
		out = append(out, Event{kind, is, actionWait, clip(cmp.Or(messageOf(after), "it waits"))})
	}
	return out
}

// ended tells of a record. Its message is told only where it is the controller's own or kubelet's: an agent's may have anything in it.
func ended(run *hearthv1.AgentRun) Event {
	s := run.Status
	kind := warning
	if s.Phase == hearthv1.PhaseSucceeded || s.Reason == hearthv1.ReasonCancelled {
		kind = normal
	}
	note := "the run has ended"
	switch {
	case s.Outcome == "" && s.Message != "":
		note = s.Message
	case s.Outcome != "" && s.Message != "":
		note = "the run has ended; status.message says more"
	}
	if n := attemptOf(run); n > 0 && s.PodName != "" {
		note = fmt.Sprintf("attempt %d in Pod %s: %s", n, s.PodName, note)
	}
	return Event{kind, s.Reason, ActionEnd, clip(note)}
}

// OfAgent are the Events of a status write of an Agent.
func OfAgent(before, after *hearthv1.AgentStatus) []Event {
	var out []Event
	was, is := ready(before), ready(after)
	if n := after.Recasts - before.Recasts; n > 0 {
		note := fmt.Sprintf("standing runs that ended are replaced: %d; the next one waits %d s", n, after.RecastBackoffSeconds)
		if was.Reason == hearthv1.ReasonRecasting && was.Message != "" {
			note += "; " + was.Message
		}
		out = append(out, Event{warning, EventRecast, "Recast", clip(note)})
	}
	told := ""
	switch {
	case is.Status == metav1.ConditionTrue && was.Status != metav1.ConditionTrue:
		out = append(out, Event{normal, EventReady, "Observe", clip(cmp.Or(is.Message, "work can be taken"))})
	case is.Status == metav1.ConditionFalse && was.Status == metav1.ConditionTrue:
		kind := warning
		if is.Reason == hearthv1.ReasonScaledToZero || is.Reason == hearthv1.ReasonSuspended {
			kind = normal
		}
		told = is.Reason
		out = append(out, Event{kind, EventNotReady, "Observe", clip(is.Reason + ": " + is.Message)})
	}
	for _, c := range []string{hearthv1.AgentConditionReady, hearthv1.AgentConditionProgressing} {
		now := condition(after, c)
		if !slices.Contains(broken, now.Reason) || now.Reason == told || condition(before, c).Reason == now.Reason {
			continue
		}
		told = now.Reason
		out = append(out, Event{warning, now.Reason, "Observe", clip(cmp.Or(now.Message, now.Reason))})
	}
	return out
}

func ready(s *hearthv1.AgentStatus) metav1.Condition {
	return condition(s, hearthv1.AgentConditionReady)
}

func condition(s *hearthv1.AgentStatus, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func succeeded(run *hearthv1.AgentRun) metav1.Condition {
	if c := meta.FindStatusCondition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func reasonOf(run *hearthv1.AgentRun) string  { return succeeded(run).Reason }
func messageOf(run *hearthv1.AgentRun) string { return succeeded(run).Message }

func attemptOf(run *hearthv1.AgentRun) int64 {
	if run.Status.Delivery == nil {
		return 0
	}
	return run.Status.Delivery.Attempt
}

// reserved is the name of the Pod that a run is reserved for, "" when it is for none.
func reserved(run *hearthv1.AgentRun) string {
	if d := run.Status.Delivery; d != nil && d.ReservedAt != nil {
		return d.PodName
	}
	return ""
}

// clip cuts a note to what the API keeps, between runes.
func clip(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote], "")
}
