package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

func condition(t *testing.T, s v1alpha1.AgentStatus, kind string) *metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(s.Conditions, kind)
	require.NotNil(t, c)
	return c
}

func TestStatusSaysWhatTheAgentWaitsFor(t *testing.T) {
	waits := func(r *v1alpha1.AgentRun) {
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionSucceeded, Status: metav1.ConditionUnknown,
			Reason: v1alpha1.ReasonPodNotRunning, Message: "container agent: ImagePullBackOff"})
	}
	ok := listening(0)
	invalid := func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${" }
	silent := map[string]Load{"r-1": {Link: LinkFailed, Reason: v1alpha1.ReasonTargetUnauthenticated, Message: "401", Running: 1}}
	type runs = []v1alpha1.AgentRun
	for _, c := range []struct {
		name     string
		agent    []func(*v1alpha1.Agent)
		runs     runs
		loads    map[string]Load
		ready    string
		says     string
		progress string
		because  string
		counts   [4]int32
	}{
		{name: "nothing yet", ready: "False/NoStandingRun", says: "a standing run is being made", progress: "True/NoStandingRun", because: "being made"},
		{name: "one that was not looked at", runs: runs{aRun("r-1", 0)}, ready: "False/NotListening", says: "r-1: not looked at yet", progress: "True/NotListening", because: "not looked at", counts: [4]int32{1}},
		{name: "one that cannot start", runs: runs{aRun("r-1", 0, waits)}, ready: "False/NotListening", says: "r-1: container agent: ImagePullBackOff", progress: "True/NotListening", because: "ImagePullBackOff", counts: [4]int32{1}},
		{name: "one that listens", runs: runs{aRun("r-1", 0, ok)}, ready: "True/Standing", progress: "False/Standing", counts: [4]int32{1, 1}},
		{name: "one that ended", runs: runs{aRun("r-1", 0, ended(0))}, ready: "False/Recasting", says: "r-1 ended (PodFailed: Evicted); replaced at 2026-11-29T12:00:01Z", progress: "True/Recasting", because: "replaced at"},
		{name: "one of two ended", agent: on(replicas(2)), runs: runs{aRun("r-1", 0, ended(0)), aRun("r-2", 0, ok)}, ready: "True/Standing", says: "1 of 2 can take work; r-1 ended (PodFailed: Evicted); replaced at", progress: "True/Recasting", because: "replaced at", counts: [4]int32{1, 1}},
		{name: "an invalid template", agent: on(invalid), ready: "False/InvalidTemplate", says: "[InvalidTemplate] spec.goalTemplate", progress: "False/InvalidTemplate", because: "spec.goalTemplate"},
		{name: "an invalid template, and one that listens", agent: on(invalid), runs: runs{aRun("r-1", 0, ok)}, ready: "True/Standing", progress: "False/InvalidTemplate", because: "spec.goalTemplate", counts: [4]int32{1, 1}},

		{name: "one that listens, and its delivery port cannot be talked to", runs: runs{aRun("r-1", 0, ok)}, loads: silent,
			ready: "False/TargetUnauthenticated", says: "r-1 listens, and its delivery port cannot be talked to: 401", progress: "True/TargetUnauthenticated", because: "401", counts: [4]int32{1, 0, 1}},
		{name: "one that listens, and its Link is not open", runs: runs{aRun("r-1", 0, ok)}, loads: map[string]Load{"r-1": {}},
			ready: "False/NotListening", says: "r-1 listens, and its delivery port has not proved yet", progress: "True/NotListening", because: "has not proved", counts: [4]int32{1}},
		{name: "the same of two, one of which is good", agent: on(replicas(2)), runs: runs{aRun("r-1", 0, ok), aRun("r-2", 0, ok)}, loads: silent,
			ready: "True/Standing", says: "1 of 2 can take work; r-1 listens, and", progress: "True/TargetUnauthenticated", because: "401", counts: [4]int32{2, 1, 1}},
		{name: "without deliveries nobody asks", agent: on(func(a *v1alpha1.Agent) { a.Spec.Runtime.Delivery, a.Spec.GoalTemplate = nil, "" }),
			runs: runs{aRun("r-1", 0, ok, func(r *v1alpha1.AgentRun) { r.Spec.Runtime.Delivery = nil })}, loads: silent, ready: "True/Standing", progress: "False/Standing", counts: [4]int32{1, 1}},

		{name: "what they hold", agent: on(replicas(2)), runs: runs{aRun("r-1", 0, ok), aRun("r-2", 0, ok)}, loads: map[string]Load{"r-1": {Link: LinkVerified, Running: 2, Queued: 1, Reserved: 1}, "r-2": {Link: LinkVerified, Running: 1}},
			ready: "True/Standing", progress: "False/Standing", counts: [4]int32{2, 2, 3, 1}},

		{name: "the template changed", runs: runs{aRun("r-1", time.Hour, ok, outdated)}, ready: "True/Standing", progress: "True/Rolling",
			because: "0 of 1 are made from the present template and can take work, 1 of an earlier one take work still", counts: [4]int32{1, 1}},
		{name: "the new one cannot start", runs: runs{aRun("r-1", time.Hour, ok, outdated), aRun("r-2", 0, waits)}, ready: "True/Standing", progress: "True/Rolling", because: "; r-2: container agent: ImagePullBackOff", counts: [4]int32{2, 1}},
		{name: "the new one ended", runs: runs{aRun("r-1", time.Hour, ok, outdated), aRun("r-2", 0, ended(0))}, ready: "True/Standing", progress: "True/Rolling", because: "; r-2 ended", counts: [4]int32{1, 1}},
		{name: "the old one drains", runs: runs{aRun("r-1", time.Hour, ok, outdated, cordoned(0)), aRun("r-2", 0, ok)}, loads: map[string]Load{"r-1": {Link: LinkVerified, Running: 1}},
			ready: "True/Standing", progress: "True/Draining", because: "r-1 until 2026-11-29T12:30:00Z", counts: [4]int32{2, 1, 1}},
		{name: "its Secret was lost: it can take no work", runs: runs{aRun("r-1", time.Hour, ok, withoutSecret)}, ready: "False/NoStandingRun", says: "being made", progress: "True/NoStandingRun", because: "being made", counts: [4]int32{1}},
		{name: "scaled to zero", agent: on(replicas(0)), ready: "False/ScaledToZero", says: "spec.replicas is 0", progress: "False/ScaledToZero", because: "spec.replicas"},
		{name: "scaled to zero, one drains", agent: on(replicas(0)), runs: runs{aRun("r-1", time.Hour, ok, cordoned(0))}, loads: map[string]Load{"r-1": {Link: LinkVerified, Running: 1}},
			ready: "False/ScaledToZero", says: "spec.replicas is 0", progress: "True/Draining", because: "r-1 until", counts: [4]int32{1, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := reviewer()
			for _, change := range c.agent {
				change(agent)
			}
			o := observed(agent, c.loads, c.runs...)
			s := Decide(o).Status
			ready, progress := condition(t, s, v1alpha1.AgentConditionReady), condition(t, s, v1alpha1.AgentConditionProgressing)
			assert.Equal(t, c.ready, string(ready.Status)+"/"+ready.Reason)
			assert.Contains(t, ready.Message, c.says)
			if c.says == "" {
				assert.Empty(t, ready.Message)
			}
			assert.Equal(t, c.progress, string(progress.Status)+"/"+progress.Reason)
			assert.Contains(t, progress.Message, c.because)
			counts := [4]int32{s.Replicas, s.ReadyReplicas, s.Busy, s.Queued}
			assert.Equal(t, c.counts, counts)
			assert.Equal(t, int64(4), s.ObservedGeneration)

			agent.Status = s
			o.Now = now.Add(100 * time.Millisecond)
			assert.Equal(t, s, Decide(o).Status, "nothing is written when nothing changed")
		})
	}
}

// R23: nine thousand names taken by others are no error to be tried again for ever.
func TestAnAgentWhoseNamesAreAllTakenSaysSo(t *testing.T) {
	o := observed(reviewer(), nil)
	o.Free = nil
	p := Decide(o)
	assert.Empty(t, p.Create)
	assert.Equal(t, namesAgain, p.After)
	ready, progress := condition(t, p.Status, v1alpha1.AgentConditionReady), condition(t, p.Status, v1alpha1.AgentConditionProgressing)
	assert.Equal(t, "NoFreeName", ready.Reason)
	assert.Equal(t, []any{metav1.ConditionFalse, "NoFreeName"}, []any{progress.Status, progress.Reason})
	assert.Equal(t, "expected one of reviewer-1 to reviewer-9999 to be free: each is the name of a run or a Pod", ready.Message)
	assert.False(t, Decide(withFree(observed(reviewer(), nil, aRun("r-1", time.Hour, ended(time.Hour))))).Recast, "what cannot be made is not counted")
}

func withFree(o Observed, names ...string) Observed {
	o.Free = names
	return o
}

// A controller that has just started has not asked anybody yet. That is no news about those who listen, and not for long.
func TestAStartOfTheControllerDoesNotMakeAnAgentUnready(t *testing.T) {
	agent := reviewer()
	run := aRun("r-1", time.Hour, listening(time.Hour))
	agent.Status = Decide(observed(agent, map[string]Load{"r-1": {Link: LinkVerified, Running: 1, Queued: 2}}, run)).Status
	opening := Decide(observed(agent, map[string]Load{"r-1": {}}, run)).Status
	assert.Equal(t, "Standing", condition(t, opening, v1alpha1.AgentConditionReady).Reason)
	assert.Equal(t, []int32{1, 1, 2}, []int32{opening.ReadyReplicas, opening.Busy, opening.Queued})

	agent.Status = opening
	failed := Decide(observed(agent, map[string]Load{"r-1": {Link: LinkFailed, Message: "connection refused"}}, run)).Status
	assert.Equal(t, "TargetUnreachable", condition(t, failed, v1alpha1.AgentConditionReady).Reason)
	assert.Equal(t, []int32{0, 0, 0}, []int32{failed.ReadyReplicas, failed.Busy, failed.Queued})

	agent.Status = opening
	down := Decide(observed(agent, map[string]Load{"r-1": {}}, aRun("r-1", time.Hour))).Status
	assert.Equal(t, "NotListening", condition(t, down, v1alpha1.AgentConditionReady).Reason)

	agent.Status = opening
	lost := Decide(observed(agent, map[string]Load{"r-1": {}}, aRun("r-1", time.Hour, listening(time.Hour), withoutSecret, cordoned(0)))).Status
	assert.Equal(t, "NoStandingRun", condition(t, lost, v1alpha1.AgentConditionReady).Reason, "its Link cannot open")
	assert.Equal(t, []int32{0, 0, 0}, []int32{lost.ReadyReplicas, lost.Busy, lost.Queued})

	agent.Status = opening
	drains := Decide(observed(agent, map[string]Load{"r-1": {}}, aRun("r-1", time.Hour, listening(time.Hour), cordoned(0)))).Status
	assert.Equal(t, []int32{0, 1, 2}, []int32{drains.ReadyReplicas, drains.Busy, drains.Queued}, "cordoned, it takes no work; what it has is not known yet")
}

func TestATaskAgentIsReadyWhenRunsCanBeMadeFromIt(t *testing.T) {
	agent := reviewer()
	agent.Spec.Mode, agent.Spec.Goal, agent.Spec.Runtime.Delivery = v1alpha1.AgentModeTask, "", nil
	s := taskStatus(agent, now)
	ready := condition(t, s, v1alpha1.AgentConditionReady)
	assert.Equal(t, []any{metav1.ConditionTrue, "AcceptsRuns", ""}, []any{ready.Status, ready.Reason, ready.Message})
	assert.Len(t, s.Conditions, 1)
	assert.Equal(t, int64(4), s.ObservedGeneration)
	agent.Status = s
	assert.Equal(t, s, taskStatus(agent, now.Add(time.Hour)), "nothing is written when nothing changed")

	agent.Spec.GoalTemplate = "${"
	ready = condition(t, taskStatus(agent, now), v1alpha1.AgentConditionReady)
	assert.Equal(t, []any{metav1.ConditionFalse, "InvalidTemplate"}, []any{ready.Status, ready.Reason})
	assert.Contains(t, ready.Message, "spec.goalTemplate")
}
