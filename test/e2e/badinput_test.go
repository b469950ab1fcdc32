//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

var pullReason = regexp.MustCompile(`ErrImageNeverPull|ErrImagePull|ImagePullBackOff`)

// TestRefusedRuns: each wrong run gets its code and the name of the field, nothing of it is stored, and the next correct one works (R21, R31).
func TestRefusedRuns(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "refused")
	r.readyAgent(reviewer, func(spec *hearthv1.AgentSpec) {
		spec.GoalTemplate = "${task}${more}"
		spec.Parameters = withDefault("more", "")
	})
	task := func(value string) map[string]string { return map[string]string{"task": value} }
	for name, c := range map[string]struct {
		change func(*hearthv1.AgentRun)
		code   string
		names  string
	}{
		"missing-agent":      {func(run *hearthv1.AgentRun) { run.Spec.AgentRef.Name = "nobody" }, "[MissingAgent]", "spec.agentRef.name"},
		"missing-parameters": {func(run *hearthv1.AgentRun) { run.Spec.Parameters = nil }, "[MissingParameters]", "task"},
		"unused-parameters":  {func(run *hearthv1.AgentRun) { run.Spec.Parameters["colour"] = "red" }, "[UnusedParameters]", "colour"},
		"huge-goal":          {func(run *hearthv1.AgentRun) { run.Spec.Parameters = task(strings.Repeat("x", 300<<10)) }, "[InvalidDelivery]", "spec.parameters.task"},
		"forged-goal":        {func(run *hearthv1.AgentRun) { run.Spec.Goal = "mine" }, "[ConflictingFields]", "spec.goal"},
		reviewer + "-7":      {func(*hearthv1.AgentRun) {}, "[ReservedName]", "name"},
	} {
		run := r.sparse(name, reviewer, task("say: hello"))
		c.change(run)
		err := suite.Client.Create(t.Context(), run)
		require.ErrorContains(t, err, c.code, name)
		assert.ErrorContains(t, err, c.names, name)
		assert.Less(t, len(err.Error()), 2048, "%s: a refusal never repeats what was sent", name)
		assert.Empty(t, r.watched.of(name), "%s was stored", name)
	}
	r.succeeds("correct", reviewer)
}

func withDefault(name, value string) []hearthv1.Parameter {
	return []hearthv1.Parameter{{Name: "task"}, {Name: name, Default: &value}}
}

// TestImageCannotBePulled is R7: kubelet's own reason is on the standing run, a run for that Agent waits and says why, and is
// carried out when the image was put right.
func TestImageCannotBePulled(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "image")
	r.agent("broken", func(spec *hearthv1.AgentSpec) {
		spec.Template.Spec.Containers[0].Image = missingImage
	})
	standing := r.standing("broken").Name
	run := r.await(standing, "to have kubelet's reason", shortly, func(run *hearthv1.AgentRun) bool {
		return succeeded(run).Reason == hearthv1.ReasonPodNotRunning && pullReason.MatchString(succeeded(run).Message)
	})
	assert.Equal(t, hearthv1.PhasePending, run.Status.Phase)
	assert.Equal(t, metav1.ConditionFalse, acpReady(run).Status)

	r.ask("waits", "broken", "say: hello")
	waiting := r.await("waits", "to say why it waits", shortly, func(run *hearthv1.AgentRun) bool {
		reason := succeeded(run).Reason
		return reason == hearthv1.ReasonTargetNotReady || reason == hearthv1.ReasonWaitingForService
	})
	assert.Equal(t, metav1.ConditionUnknown, succeeded(waiting).Status)
	assert.Equal(t, hearthv1.PhasePending, waiting.Status.Phase)

	// The image is put right: the next standing run starts and the run that waited is carried out.
	var agent hearthv1.Agent
	require.NoError(t, suite.Client.Get(t.Context(), r.key("broken"), &agent))
	before := agent.DeepCopy()
	agent.Spec.Template.Spec.Containers[0].Image = agentImage
	require.NoError(t, suite.Client.Patch(t.Context(), &agent, client.MergeFrom(before)))
	ended := r.ended("waits", patiently)
	assert.Equal(t, metav1.ConditionTrue, succeeded(ended).Status, "%s: %s", succeeded(ended).Reason, ended.Status.Message)
	assert.Equal(t, agent.Generation, ended.Status.Delivery.TargetGeneration, "the audit names the generation that did the work")
}
