package signals

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const agentsWords = "the agent's words, with the goal in them"

var at = ptr.To(metav1.NewMicroTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))

// run is a delivered one with a reason and a message of its Succeeded condition.
func run(reason, message string, change ...func(*hearthv1.AgentRunStatus)) *hearthv1.AgentRun {
	r := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "work", UID: "uid-1"},
		Spec:       hearthv1.AgentRunSpec{Delivery: &hearthv1.DeliverySpec{}, Goal: "the goal", AgentRef: hearthv1.AgentRef{Name: "reviewer"}},
	}
	if reason != "" {
		r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Reason: reason, Message: message}}
	}
	for _, c := range change {
		c(&r.Status)
	}
	return r
}

func reservation(s *hearthv1.AgentRunStatus) {
	s.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: at, PodName: "reviewer-1", PodUID: "pod-1"}
	s.PodName, s.PodUID = "reviewer-1", "pod-1"
}

func begun(s *hearthv1.AgentRunStatus) { s.StartTime = at }

func over(outcome, reason, message string) func(*hearthv1.AgentRunStatus) {
	return func(s *hearthv1.AgentRunStatus) {
		s.Outcome, s.Reason, s.Message, s.CompletionTime, s.Phase = outcome, reason, message, at, hearthv1.PhaseFailed
		if reason == "Completed" {
			s.Phase = hearthv1.PhaseSucceeded
		}
	}
}

func oneShot(r *hearthv1.AgentRun) *hearthv1.AgentRun {
	r.Spec.Delivery = nil
	return r
}

// SPEC.md, Signals: what each write of a run is told as; what the status said before is not told again.
func TestEventsOfARunAreTheStepsThatItsStatusTook(t *testing.T) {
	for name, c := range map[string]struct {
		before, after *hearthv1.AgentRun
		lost          string
		want          []Event
	}{
		"it waits":              {run("", ""), run("TargetNotReady", "Pod reviewer-1 is not ready"), "", []Event{{normal, "TargetNotReady", "Wait", "Pod reviewer-1 is not ready"}}},
		"it waits still":        {run("TargetNotReady", "as before"), run("TargetNotReady", "in other words"), "", nil},
		"for another reason":    {run("TargetNotReady", ""), run("TargetUnreachable", "another key"), "", []Event{{warning, "TargetUnreachable", "Wait", "another key"}}},
		"there is a queue":      {run("", ""), run("TargetBusy", "at capacity"), "", nil},
		"reserved":              {run("TargetBusy", ""), run("Reserved", "", reservation), "", []Event{{normal, EventReserved, "Reserve", "attempt 1 is for Pod reviewer-1"}}},
		"queued":                {run("Reserved", "", reservation), run("Queued", "", reservation), "", nil},
		"started":               {run("Queued", "", reservation), run("Running", "", reservation, begun), "", []Event{{normal, EventStarted, "Start", "attempt 1 began in Pod reviewer-1"}}},
		"contact lost":          {run("Running", "", reservation, begun), run("ContactLost", "no answer", reservation, begun), "", []Event{{warning, "ContactLost", "Wait", "no answer"}}},
		"contact is back":       {run("ContactLost", "", reservation, begun), run("Running", "", reservation, begun), "", nil},
		"asked to stop":         {run("Running", "", reservation, begun), run("Cancelling", "", reservation, begun), "", []Event{{normal, "Cancelling", "Cancel", "asked to stop; that is not confirmed yet"}}},
		"an attempt is lost":    {run("Running", "", reservation, begun), run("ServiceRecasting", "the last attempt was lost"), "TargetLost", []Event{{warning, EventAttemptLost, "Retry", "attempt 1 was lost (TargetLost); another follows"}}},
		"it ended well":         {run("Running", "", reservation, begun), run("", "", reservation, begun, over("Succeeded", "Completed", "")), "", []Event{{normal, "Completed", "End", "attempt 1 in Pod reviewer-1: the run has ended"}}},
		"the agent says why":    {run("Running", "", reservation), run("", "", reservation, over("Failed", "AgentError", agentsWords)), "", []Event{{warning, "AgentError", "End", "attempt 1 in Pod reviewer-1: the run has ended; status.message says more"}}},
		"we say why":            {run("Running", "", reservation), run("", "", reservation, over("", "CancelUnconfirmed", "not confirmed")), "", []Event{{warning, "CancelUnconfirmed", "End", "attempt 1 in Pod reviewer-1: not confirmed"}}},
		"cancelled":             {run("TargetBusy", ""), run("", "", over("", "Cancelled", "cancelled while it waited for a target")), "", []Event{{normal, "Cancelled", "End", "cancelled while it waited for a target"}}},
		"recorded already":      {run("", "", over("", "Cancelled", "")), run("", "", over("", "Cancelled", "")), "", nil},
		"a Pod is made":         {oneShot(run("", "")), oneShot(run("PodNotRunning", "pulling")), "", nil},
		"a Pod is to end":       {oneShot(run("Running", "")), oneShot(run("Cancelling", "")), "", []Event{{normal, "Cancelling", "Cancel", "asked to stop; that is not confirmed yet"}}},
		"a Pod ended":           {oneShot(run("Running", "")), oneShot(run("", "", over("", "PodFailed", "OOMKilled"))), "", []Event{{warning, "PodFailed", "End", "OOMKilled"}}},
		"a long one is clipped": {run("", ""), run("TargetNotReady", strings.Repeat("é", 600)), "", []Event{{normal, "TargetNotReady", "Wait", strings.Repeat("é", 512)}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := OfRun(c.before, c.after, c.lost)
			assert.Equal(t, c.want, got)
			for _, e := range got {
				assert.NotContains(t, e.Note, "goal")
			}
			assert.Empty(t, OfRun(c.after, c.after, ""), "nobody who looks again tells it again")
		})
	}
}

func agent(recasts int32, ready metav1.Condition, progressing string) *hearthv1.AgentStatus {
	ready.Type = hearthv1.AgentConditionReady
	return &hearthv1.AgentStatus{Recasts: recasts, RecastBackoffSeconds: 2, Conditions: []metav1.Condition{
		ready, {Type: hearthv1.AgentConditionProgressing, Reason: progressing, Message: "of progress"},
	}}
}

func TestEventsOfAnAgentAreItsTransitions(t *testing.T) {
	yes := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Standing"}
	no := func(reason string) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: "why"}
	}
	for name, c := range map[string]struct {
		before, after *hearthv1.AgentStatus
		want          []Event
	}{
		"new":                 {&hearthv1.AgentStatus{}, agent(0, no("NoStandingRun"), "NoStandingRun"), nil},
		"ready":               {agent(0, no("NotListening"), "NotListening"), agent(0, yes, "Standing"), []Event{{normal, EventReady, "Observe", "work can be taken"}}},
		"not ready":           {agent(0, yes, "Standing"), agent(0, no("NotListening"), "NotListening"), []Event{{warning, EventNotReady, "Observe", "NotListening: why"}}},
		"scaled to zero":      {agent(0, yes, "Standing"), agent(0, no("ScaledToZero"), "ScaledToZero"), []Event{{normal, EventNotReady, "Observe", "ScaledToZero: why"}}},
		"recast":              {agent(1, no("Recasting"), "Recasting"), agent(3, no("NoStandingRun"), "NoStandingRun"), []Event{{warning, EventRecast, "Recast", "standing runs that ended are replaced: 2; the next one waits 2 s; why"}}},
		"cannot be talked to": {agent(0, yes, "Standing"), agent(0, no("TargetUnreachable"), "TargetUnreachable"), []Event{{warning, EventNotReady, "Observe", "TargetUnreachable: why"}}},
		"never could be":      {agent(0, no("NotListening"), "NotListening"), agent(0, no("TargetUnauthenticated"), "NotListening"), []Event{{warning, "TargetUnauthenticated", "Observe", "why"}}},
		"one of several":      {agent(0, yes, "Standing"), agent(0, yes, "TargetUnreachable"), []Event{{warning, "TargetUnreachable", "Observe", "of progress"}}},
		"cannot be built":     {&hearthv1.AgentStatus{}, agent(0, no("InvalidTemplate"), "InvalidTemplate"), []Event{{warning, "InvalidTemplate", "Observe", "why"}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, OfAgent(c.before, c.after))
			assert.Empty(t, OfAgent(c.after, c.after))
		})
	}
}

type recorder struct{ said []string }

func (r *recorder) Eventf(_, related runtime.Object, _, reason, _, note string, args ...any) {
	pod := ""
	if p, ok := related.(metav1.Object); ok {
		pod = p.GetName()
	}
	r.said = append(r.said, reason+" "+pod)
}

// Each line about a run says of which, and an Event says of which Pod, so that those of two attempts are two.
func TestALineAboutARunSaysOfWhich(t *testing.T) {
	var lines bytes.Buffer
	told := &recorder{}
	s := Signals{Events: told, Log: slog.New(slog.NewJSONHandler(&lines, nil))}
	s.Run(Write{Before: run("TargetBusy", ""), After: run("Reserved", "", reservation)})
	s.Run(Write{Before: run("Reserved", "", reservation), After: run("ServiceRecasting", ""), Lost: "TargetLost"})
	s.Run(Write{Before: run("", ""), After: run("TargetBusy", "")})
	assert.Equal(t, []string{"Reserved reviewer-1", "AttemptLost reviewer-1"}, told.said)
	var line map[string]any
	require.NoError(t, json.Unmarshal(bytes.SplitN(lines.Bytes(), []byte("\n"), 2)[0], &line))
	for field, want := range map[string]any{"namespace": "team", "run": "work", "runUID": "uid-1", "attempt": 1.0, "agent": "reviewer", "msg": "run: Reserved"} {
		assert.Equal(t, want, line[field])
	}
	assert.NotContains(t, line, "trace_id", "there is no trace")
	assert.NotContains(t, lines.String(), "the goal")
	Signals{Events: told}.Logger(run("", "")).Info("nobody listens")
}

// SPEC.md, Signals: docs/observing.md shows the Events that the code makes.
func TestTheTableOfEventsIsTheCodes(t *testing.T) {
	text, err := os.ReadFile("../../docs/observing.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "| Event | on | type | when |\n| --- | --- | --- | --- |\n")
	require.True(t, found)
	var want []string
	for _, r := range Table() {
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", r.Reason, r.Object, r.Type, r.When))
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	assert.Equal(t, want, strings.Split(strings.TrimSpace(table), "\n"))
}

// No Event has a reason that is not in the table: each call of a recorder names one of this package's, or passes on what it decided.
func TestNoEventIsMadeBesideTheTable(t *testing.T) {
	call := regexp.MustCompile(`\.Eventf\([^"]*?EventType\w+, ([^,]+),`)
	var reasons []string
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../signals/") {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found := call.FindAllStringSubmatch(string(code), -1)
		assert.Len(t, found, strings.Count(string(code), ".Eventf("), path)
		for _, m := range found {
			reasons = append(reasons, m[1])
		}
		return nil
	}))
	known := map[string]string{
		"signals.EventLateResult": EventLateResult, "signals.EventCreated": EventCreated, "signals.EventCordoned": EventCordoned, "signals.EventUncordoned": EventUncordoned,
		"signals.EventDrained": EventDrained, "signals.EventMissed": EventMissed, "signals.EventFailedCreate": EventFailedCreate, "signals.EventOlderCRD": EventOlderCRD,
	}
	listed := map[string]bool{}
	for _, r := range Table() {
		listed[r.Reason] = true
	}
	assert.NotEmpty(t, reasons)
	for _, reason := range reasons {
		assert.Contains(t, known, reason)
		assert.True(t, listed[known[reason]], reason)
	}
}
