package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/shard"
	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// A Secret that was lost breaks nothing once another standing run does the work, and only then.
func TestALostSecretIsAHintOnceAnotherDoesTheWork(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(o *Observed, a *AgentSeen)
		want   int
	}{
		"another does the work":  {func(*Observed, *AgentSeen) {}, ExitOK},
		"the Agent is not ready": {func(_ *Observed, a *AgentSeen) { notReady(a, hearthv1.ReasonNotListening, "") }, ExitBroken},
		"its Pod is not ready": {func(_ *Observed, a *AgentSeen) {
			a.Pods[1].Pod.Value.Status.Conditions[0].Status = corev1.ConditionFalse
		}, ExitBroken},
		"its Secret was lost as well": {func(_ *Observed, a *AgentSeen) { a.Pods[1].Secret = Read[int]{Absent: true} }, ExitBroken},
		"it gets no work either": {func(_ *Observed, a *AgentSeen) {
			cordoned := metav1.NewMicroTime(now)
			a.Pods[1].Run.Status.CordonedAt = &cordoned
		}, ExitBroken},
		"there is no other": {func(_ *Observed, a *AgentSeen) { a.Pods = a.Pods[:1] }, ExitBroken},
	} {
		o := w.healthy()
		secondStands(&o, &o.Agents.Value[0])
		c.change(&o, &o.Agents.Value[0])
		r := Diagnose(o)
		assert.Equal(t, c.want, r.ExitCode(), "%s: %s", name, printed(t, r))
	}
}

// A standing run that is only being made breaks nothing for a while; how long, the API server's clock tells.
func TestAStandingRunInTheMakingIsAHintForAWhile(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		reason string
		since  metav1.Time
		want   int
	}{
		"since 29 s":         {hearthv1.ReasonNoStandingRun, metav1.NewTime(now.Add(-29 * time.Second)), ExitOK},
		"since 30 s":         {hearthv1.ReasonNoStandingRun, metav1.NewTime(now.Add(-30 * time.Second)), ExitBroken},
		"nobody knows since": {hearthv1.ReasonNoStandingRun, metav1.Time{}, ExitBroken},
		"its Pod starts":     {hearthv1.ReasonNotListening, metav1.NewTime(now.Add(-time.Second)), ExitOK},
		"of another reason":  {hearthv1.ReasonNoFreeName, metav1.NewTime(now.Add(-time.Second)), ExitBroken},
	} {
		o := w.healthy()
		a := &o.Agents.Value[0]
		notReady(a, c.reason, "a standing run is being made")
		a.Agent.Value.Status.Conditions[0].LastTransitionTime = c.since
		a.Pods = nil
		r := Diagnose(o)
		assert.Equal(t, c.want, r.ExitCode(), "%s: %s", name, printed(t, r))
	}
}

// SPEC.md, Shards: where several controllers divide the Agents, each that leads is named, and of an Agent the Lease that serves it.
func TestEachShardsLeaderIsNamed(t *testing.T) {
	o := newWorld(t).healthy()
	blue := shard.Of("blue")
	o.led(blue, blue.Without())
	o.Agents.Value[0].Agent.Value.Labels = map[string]string{hearthv1.LabelShard: "blue"}
	o.Agents.Value[0].Pods[0].Run.Labels = map[string]string{hearthv1.LabelShard: "blue"}
	o.Agents.Value[0].Pods[0].Pod.Value.Labels[hearthv1.LabelShard] = "blue"
	r := Diagnose(o)
	assert.Equal(t, ExitOK, r.ExitCode(), printed(t, r))
	assert.Contains(t, printed(t, r), "it is of shard blue, for which hearth-controller-y leads by lease "+blue.Lease())
	assert.Contains(t, printed(t, r), "Agents: those of every named shard but blue, and those without the label")

	green := *o.Deployments.Value[0].DeepCopy()
	green.Name, green.Status.AvailableReplicas = "hearth-controller-green", 0
	green.Spec.Template.Labels = map[string]string{hearthv1.LabelShard: "green"}
	crashed := *o.SystemPods.Value[0].DeepCopy()
	crashed.Name, crashed.Labels = "hearth-controller-green-x", map[string]string{hearthv1.LabelShard: "green"}
	crashed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	o.Deployments.Value, o.SystemPods.Value = append(o.Deployments.Value, green), append(o.SystemPods.Value, crashed)
	r = Diagnose(o)
	assert.Equal(t, ExitOK, r.ExitCode(), "another shard's controller is down, which breaks nothing here: %s", printed(t, r))
	assert.Contains(t, printed(t, r), "hearth-controller-green-x")

	delete(o.Agents.Value[0].Pods[0].Pod.Value.Labels, hearthv1.LabelShard)
	assert.Contains(t, printed(t, Diagnose(o)), "has lost the label hearth.dev/shard")
	o = newWorld(t).healthy()
	o.Agents.Value[0].Agent.Value.Labels = map[string]string{hearthv1.LabelShard: "blue"}
	assert.Contains(t, printed(t, Diagnose(o)), "leads by lease hearth-controller", "one without a selector works for every shard")
	o.Leases = Read[[]coordinationv1.Lease]{Why: "you cannot list leases"}
	assert.Equal(t, ExitOK, Diagnose(o).ExitCode(), "who may not see them is not told that something is broken")
}
