package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// digest is a Task Agent, or with a schedule a Scheduled one.
func digest(mode v1alpha1.AgentMode) *v1alpha1.Agent {
	a := reviewer()
	a.Name, a.Spec.Mode, a.Spec.Goal, a.Spec.Runtime.Delivery, a.Spec.BackoffLimit = "digest", mode, "", nil, 0
	a.Spec.Parameters[0].Default = new("HEAD")
	a.Spec.TTLSecondsAfterFinished, a.Spec.Budget = new(int64(600)), &v1alpha1.Budget{Tokens: new(int64(1000)), Cost: &v1alpha1.Cost{Amount: "5", Currency: "USD"}}
	if mode == v1alpha1.AgentModeScheduled {
		a.Spec.Schedule = &v1alpha1.Schedule{Cron: "@daily"}
	}
	return a
}

func askDigest(parameters map[string]string) v1alpha1.AgentRunSpec {
	return v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "digest"}, Parameters: parameters}
}

// snapshotOf is everything that a one-shot run of digest has.
func snapshotOf(agent *v1alpha1.Agent) v1alpha1.AgentRunSpec {
	return v1alpha1.AgentRunSpec{
		AgentRef:   v1alpha1.AgentRef{Name: "digest", UID: "agent-uid", Generation: 4},
		Parameters: map[string]string{"change": "HEAD", "concern": "correctness"},
		Goal:       "Review HEAD for correctness.",
		Runtime:    agent.Spec.Runtime.DeepCopy(), Template: agent.Spec.Template.DeepCopy(), Backend: v1alpha1.BackendPod,
		ActiveDeadlineSeconds: new(int64(1800)), StartingDeadlineSeconds: new(int64(3600)), TTLSecondsAfterFinished: new(int64(600)),
		Budget: agent.Spec.Budget.DeepCopy(),
	}
}

// R21, R34: a run of a Task Agent, and one that a schedule makes, have a Pod of their own and nothing of a delivery.
func TestAOneShotSnapshotIsComplete(t *testing.T) {
	task := digest(v1alpha1.AgentModeTask)
	spec, refusals := Resolve(task, askDigest(nil))
	require.Empty(t, refusals)
	assert.Equal(t, snapshotOf(task), spec)

	again, refusals := Resolve(task, Sparse(spec))
	require.Empty(t, refusals)
	assert.Equal(t, spec, again, "the validating webhook recomputes the same")

	*task.Spec.TTLSecondsAfterFinished, *task.Spec.Budget.Tokens, task.Spec.Template.Spec.Containers[0].Image = 1, 1, "other"
	assert.Equal(t, snapshotOf(digest(v1alpha1.AgentModeTask)), spec, "a snapshot shares nothing with its Agent")

	scheduled := digest(v1alpha1.AgentModeScheduled)
	spec, refusals = ResolveScheduled(scheduled)
	require.Empty(t, refusals)
	assert.Equal(t, snapshotOf(scheduled), spec)

	scheduled.Spec.Backend = v1alpha1.BackendSandbox
	spec, refusals = ResolveScheduled(scheduled)
	require.Empty(t, refusals)
	assert.Equal(t, v1alpha1.BackendSandbox, spec.Backend)
}

// R20: a Task Agent has a goal or a goalTemplate; a goal stands for itself.
func TestAOneShotGoalIsTheGoalOrTheFilledTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		goal, template string
		declared       []v1alpha1.Parameter
		given          map[string]string
		want           string
	}{
		"a goal":                      {goal: "Tidy up ${literally}, $${twice}.", want: "Tidy up ${literally}, $${twice}."},
		"a template without values":   {template: "Tidy up $${literally}.", want: "Tidy up ${literally}."},
		"the template's placeholders": {template: "Look at ${a} and ${b}.", given: map[string]string{"a": "${b}", "b": "$${a}"}, want: "Look at ${b} and $${a}."},
		"a declared default":          {template: "Look at ${a}.", declared: []v1alpha1.Parameter{{Name: "a", Default: new("x")}}, want: "Look at x."},
		"a default of nothing":        {template: "Look${a}.", declared: []v1alpha1.Parameter{{Name: "a", Default: new("")}}, want: "Look."},
		"a value over a default":      {template: "Look at ${a}.", declared: []v1alpha1.Parameter{{Name: "a", Default: new("x")}}, given: map[string]string{"a": "y"}, want: "Look at y."},
	} {
		task := digest(v1alpha1.AgentModeTask)
		task.Spec.Goal, task.Spec.GoalTemplate, task.Spec.Parameters = c.goal, c.template, c.declared
		spec, refusals := Resolve(task, askDigest(c.given))
		require.Empty(t, refusals, name)
		assert.Equal(t, c.want, spec.Goal, name)
	}
}

// R21: the codes for a Task Agent. Without a delivery there is no DeliveryDisabled and no InvalidDelivery.
func TestAOneShotRunIsRefusedWithACodeAndTheField(t *testing.T) {
	const canary = "canary-value"
	for name, c := range map[string]struct {
		change func(*v1alpha1.Agent)
		asked  v1alpha1.AgentRunSpec
		code   v1alpha1.RefusalCode
		field  string
		expect string
	}{
		"Scheduled":               {func(a *v1alpha1.Agent) { a.Spec.Mode = v1alpha1.AgentModeScheduled }, askDigest(nil), v1alpha1.RefusalWrongMode, "spec.agentRef.name", "its runs are made by its schedule alone"},
		"a preset template":       {nil, v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "digest"}, Template: &digest(v1alpha1.AgentModeTask).Spec.Template}, v1alpha1.RefusalConflictingFields, "spec.template", "write spec.agentRef.name and spec.parameters only"},
		"a broken template":       {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${" }, askDigest(nil), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "byte 0"},
		"neither":                 {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "" }, askDigest(nil), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "it is empty"},
		"an undeclared one":       {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${other}" }, askDigest(nil), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", `"other"`},
		"a Pod that cannot be":    {func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostNetwork = true }, askDigest(nil), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "spec.template.spec.hostNetwork"},
		"a missing parameter":     {func(a *v1alpha1.Agent) { a.Spec.Parameters[0].Default = nil }, askDigest(nil), v1alpha1.RefusalMissingParameters, "spec.parameters", `values for "change"`},
		"an unused parameter":     {nil, askDigest(map[string]string{"chnage": canary}), v1alpha1.RefusalUnusedParameters, "spec.parameters", `none named "chnage"`},
		"one where there is none": {func(a *v1alpha1.Agent) { a.Spec.Goal, a.Spec.GoalTemplate, a.Spec.Parameters = "Tidy ${up}.", "", nil }, askDigest(map[string]string{"up": canary}), v1alpha1.RefusalUnusedParameters, "spec.parameters", `none named "up"`},
		"a goal of 300 KiB":       {nil, askDigest(map[string]string{"change": strings.Repeat("x", 300<<10)}), codeInvalid, "spec.parameters.change", "at most 262144 bytes"},
		"an empty goal":           {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = " ${change}" }, askDigest(map[string]string{"change": "\n"}), codeInvalid, "spec.parameters", "it is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			task := digest(v1alpha1.AgentModeTask)
			if c.change != nil {
				c.change(task)
			}
			spec, refusals := Resolve(task, c.asked)
			require.Len(t, refusals, 1)
			assert.Equal(t, c.code, refusals[0].Code)
			assert.Equal(t, c.field, refusals[0].Field)
			assert.Contains(t, refusals[0].Expected, c.expect)
			assert.NotContains(t, refusals[0].String(), canary, "a message repeats no values")
			assert.Empty(t, spec)
		})
	}
}

// What the schedule controller asks for is refused in words for the Agent's Ready condition, never made by halves.
func TestAScheduledRunThatCannotBeMadeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Agent)
		code   v1alpha1.RefusalCode
	}{
		"another mode":        {func(a *v1alpha1.Agent) { a.Spec.Mode = v1alpha1.AgentModeTask }, v1alpha1.RefusalWrongMode},
		"no default":          {func(a *v1alpha1.Agent) { a.Spec.Parameters[1].Default = nil }, v1alpha1.RefusalMissingParameters},
		"a broken template":   {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${" }, v1alpha1.RefusalInvalidTemplate},
		"a Pod that can't be": {func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostPID = true }, v1alpha1.RefusalInvalidTemplate},
		"too large":           {func(a *v1alpha1.Agent) { a.Spec.Parameters[0].Default = new(strings.Repeat("x", 300<<10)) }, codeInvalid},
	} {
		scheduled := digest(v1alpha1.AgentModeScheduled)
		c.change(scheduled)
		spec, refusals := ResolveScheduled(scheduled)
		require.Len(t, refusals, 1, name)
		assert.Equal(t, c.code, refusals[0].Code, name)
		assert.Empty(t, spec, name)
	}
}
