package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func reviewer() *v1alpha1.Agent {
	return &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer", UID: "agent-uid", Generation: 4},
		Spec: v1alpha1.AgentSpec{
			Mode: v1alpha1.AgentModeService, Goal: "You review.", GoalTemplate: "Review ${change}.",
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{Port: 4100}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i:1"}}}},
		},
	}
}

// aRun is a standing run of the Agent, made that long ago.
func aRun(name string, age time.Duration, changes ...func(*v1alpha1.AgentRun)) v1alpha1.AgentRun {
	r := standing(reviewer(), name)
	r.CreationTimestamp = metav1.NewTime(now.Add(-age))
	for _, change := range changes {
		change(r)
	}
	return *r
}

func ended(ago time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now.Add(-ago)))
		r.Status.RecordedAt = r.Status.CompletionTime
		r.Status.Reason, r.Status.Message = v1alpha1.ReasonPodFailed, "Evicted"
	}
}

// nodeAhead is what the clock of the ended run's node had in advance of the controller's.
func nodeAhead(d time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(r.Status.RecordedAt.Add(d)))
	}
}

func listening(since time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionACPReady, Status: metav1.ConditionTrue,
			Reason: v1alpha1.ReasonListening, LastTransitionTime: metav1.NewTime(now.Add(-since))})
	}
}

func deleted(r *v1alpha1.AgentRun) { r.DeletionTimestamp = &metav1.Time{Time: now} }

func outdated(r *v1alpha1.AgentRun) { r.Spec.Template.Spec.Containers[0].Image = "i:0" }

func withoutSecret(r *v1alpha1.AgentRun) {
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionCredentialReady, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonCredentialLost})
}

func names(runs []v1alpha1.AgentRun) []string {
	var all []string
	for _, r := range runs {
		all = append(all, r.Name)
	}
	return all
}

func TestDecideKeepsExactlyOneStandingRun(t *testing.T) {
	recast := func(at time.Duration, backoff int32) func(*v1alpha1.Agent) {
		return func(a *v1alpha1.Agent) {
			a.Status.LastRecastTime, a.Status.RecastBackoffSeconds, a.Status.Recasts = ptr.To(metav1.NewMicroTime(now.Add(-at))), backoff, 3
		}
	}
	for _, c := range []struct {
		name    string
		agent   func(*v1alpha1.Agent)
		runs    []v1alpha1.AgentRun
		create  bool
		recast  bool
		deletes []string
		after   time.Duration
		backoff int32
	}{
		{name: "none yet", create: true},
		{name: "one", runs: []v1alpha1.AgentRun{aRun("r-1", time.Minute)}},
		{name: "two, after a race: the older stays", runs: []v1alpha1.AgentRun{aRun("r-2", time.Minute), aRun("r-1", time.Hour)}, deletes: []string{"r-2"}},
		{name: "two of one second: the lower name stays", runs: []v1alpha1.AgentRun{aRun("r-2", time.Minute), aRun("r-1", time.Minute)}, deletes: []string{"r-2"}},
		{name: "one is being deleted", runs: []v1alpha1.AgentRun{aRun("r-1", time.Minute, deleted)}, create: true},
		{name: "the template changed", runs: []v1alpha1.AgentRun{aRun("r-1", time.Minute, outdated)}, deletes: []string{"r-1"}},
		{name: "the new one stands, the old one goes", runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, outdated), aRun("r-2", time.Minute)}, deletes: []string{"r-1"}},
		{name: "its Secret was lost (rows 36, 48)", runs: []v1alpha1.AgentRun{aRun("r-1", time.Minute, listening(time.Minute), withoutSecret)}, deletes: []string{"r-1"}},
		{name: "its Secret was lost, and the next one stands", runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, withoutSecret), aRun("r-2", time.Minute)}, deletes: []string{"r-1"}},
		{name: "an invalid template ends nothing", agent: func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostPID = true }, runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour)}},
		{name: "an invalid template makes nothing", agent: func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostPID = true }},
		{name: "the Agent is being deleted", agent: func(a *v1alpha1.Agent) { a.DeletionTimestamp = &metav1.Time{Time: now} }},

		{name: "ended just now: waits a second", runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(0))}, after: time.Second},
		{name: "ended a second ago: recast", runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(time.Second))}, create: true, recast: true, backoff: 2},
		{name: "again: waits longer", agent: recast(time.Minute, 8), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(5*time.Second))}, after: 3 * time.Second, backoff: 8},
		{name: "again: doubles", agent: recast(time.Minute, 8), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(8*time.Second))}, create: true, recast: true, backoff: 16},
		{name: "doubling ends at a minute", agent: recast(2*time.Hour, 32), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(time.Hour))}, create: true, recast: true, backoff: 60},
		{name: "and stays there", agent: recast(2*time.Hour, 60), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(time.Hour))}, create: true, recast: true, backoff: 60},
		{name: "counted, not made yet: made at once, not counted twice", agent: recast(time.Second, 4), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(2*time.Second))}, create: true, backoff: 4},
		{name: "the node's clock is an hour ahead: the backoff is not", runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(time.Second), nodeAhead(time.Hour))}, create: true, recast: true, backoff: 2},
		{name: "the node's clock is an hour behind: it is counted all the same", agent: recast(time.Minute, 8), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, ended(5*time.Second), nodeAhead(-time.Hour))}, after: 3 * time.Second, backoff: 8},
		{name: "the latest end counts", runs: []v1alpha1.AgentRun{aRun("r-2", time.Hour, ended(time.Minute)), aRun("r-1", time.Hour, ended(0))}, after: time.Second},

		{name: "healthy for nine minutes", agent: recast(time.Hour, 8), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, listening(9*time.Minute))}, after: time.Minute, backoff: 8},
		{name: "healthy for ten: forgotten (R29)", agent: recast(time.Hour, 8), runs: []v1alpha1.AgentRun{aRun("r-1", time.Hour, listening(10*time.Minute))}},
		{name: "three ended ones are kept beside a living one", runs: []v1alpha1.AgentRun{aRun("r-5", time.Minute), aRun("r-1", time.Hour, ended(4*time.Minute)), aRun("r-2", time.Hour, ended(3*time.Minute)),
			aRun("r-3", time.Hour, ended(2*time.Minute)), aRun("r-4", time.Hour, ended(time.Minute))}, deletes: []string{"r-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := reviewer()
			if c.agent != nil {
				c.agent(agent)
			}
			before := agent.DeepCopy()
			p := Decide(Observed{Agent: agent, Runs: c.runs, Now: now})
			assert.Equal(t, before, agent, "what was observed is not touched")
			assert.Equal(t, c.create, p.Create)
			assert.Equal(t, c.recast, p.Recast)
			assert.Equal(t, c.deletes, names(p.Delete))
			assert.Equal(t, c.after, p.After)
			assert.Equal(t, c.backoff, p.Status.RecastBackoffSeconds)
			if c.recast {
				assert.Equal(t, before.Status.Recasts+1, p.Status.Recasts)
				assert.Equal(t, now, p.Status.LastRecastTime.Time)
			} else {
				assert.Equal(t, before.Status.Recasts, p.Status.Recasts)
			}
		})
	}
}

func TestStatusSaysWhatTheAgentWaitsFor(t *testing.T) {
	waits := func(r *v1alpha1.AgentRun) {
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionSucceeded, Status: metav1.ConditionUnknown,
			Reason: v1alpha1.ReasonPodNotRunning, Message: "container agent: ImagePullBackOff"})
	}
	invalid := func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${" }
	for _, c := range []struct {
		name        string
		agent       func(*v1alpha1.Agent)
		runs        []v1alpha1.AgentRun
		ready       metav1.ConditionStatus
		reason      string
		says        string
		progressing metav1.ConditionStatus
		why         string
		counts      [2]int32
	}{
		{"nothing yet", nil, nil, "False", "NoStandingRun", "a standing run is being made", "True", "NoStandingRun", [2]int32{}},
		{"one that was not looked at", nil, []v1alpha1.AgentRun{aRun("r-1", 0)}, "False", "NotListening", "r-1: not looked at yet", "True", "NotListening", [2]int32{1, 0}},
		{"one that cannot start", nil, []v1alpha1.AgentRun{aRun("r-1", 0, waits)}, "False", "NotListening", "r-1: container agent: ImagePullBackOff", "True", "NotListening", [2]int32{1, 0}},
		{"one that listens", nil, []v1alpha1.AgentRun{aRun("r-1", 0, listening(0))}, "True", "Standing", "", "False", "Standing", [2]int32{1, 1}},
		{"one that listens and is outdated", nil, []v1alpha1.AgentRun{aRun("r-1", 0, listening(0), outdated)}, "True", "Standing", "", "True", "NotListening", [2]int32{1, 1}},
		{"one that ended", nil, []v1alpha1.AgentRun{aRun("r-1", 0, ended(0))}, "False", "Recasting", "r-1 ended (PodFailed: Evicted); replaced at 2026-11-29T12:00:01Z", "True", "Recasting", [2]int32{}},
		{"an invalid template", invalid, nil, "False", "InvalidTemplate", "[InvalidTemplate] spec.goalTemplate", "False", "InvalidTemplate", [2]int32{}},
		{"an invalid template, and one that listens", invalid, []v1alpha1.AgentRun{aRun("r-1", 0, listening(0))}, "True", "Standing", "", "False", "InvalidTemplate", [2]int32{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := reviewer()
			if c.agent != nil {
				c.agent(agent)
			}
			s := Decide(Observed{Agent: agent, Runs: c.runs, Now: now}).Status
			ready := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentConditionReady)
			progressing := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentConditionProgressing)
			require.NotNil(t, ready)
			require.NotNil(t, progressing)
			assert.Equal(t, []any{c.ready, c.reason}, []any{ready.Status, ready.Reason})
			assert.Contains(t, ready.Message, c.says)
			assert.Equal(t, []any{c.progressing, c.why}, []any{progressing.Status, progressing.Reason})
			counts := [2]int32{s.Replicas, s.ReadyReplicas}
			assert.Equal(t, c.counts, counts)
			assert.Equal(t, int64(4), s.ObservedGeneration)

			agent.Status = s
			later := Decide(Observed{Agent: agent, Runs: c.runs, Now: now.Add(100 * time.Millisecond)}).Status
			assert.Equal(t, s, later, "nothing is written when nothing changed")
		})
	}
}
