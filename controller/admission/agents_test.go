package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// SPEC.md, Admission: an Agent none of whose runs could ever be made is refused, by what its mode needs.
func TestAnAgentThatCannotWorkIsRefusedByItsMode(t *testing.T) {
	const service, task, scheduled = v1alpha1.AgentModeService, v1alpha1.AgentModeTask, v1alpha1.AgentModeScheduled
	of := func(mode v1alpha1.AgentMode) *v1alpha1.Agent {
		if mode == service {
			return reviewer()
		}
		return digest(mode)
	}
	for _, mode := range []v1alpha1.AgentMode{service, task, scheduled} {
		assert.Empty(t, AgentRefusals(of(mode)), mode)
		sandboxed := of(mode)
		sandboxed.Spec.Backend = v1alpha1.BackendSandbox
		assert.Empty(t, AgentRefusals(sandboxed), "%s: a Sandbox holds the same Pod", mode)
	}
	all := []v1alpha1.AgentMode{service, task, scheduled}
	oneShot := []v1alpha1.AgentMode{task, scheduled}
	large := strings.Repeat("😀", v1alpha1.MaxGoalBytes/4+1)
	for name, c := range map[string]struct {
		modes  []v1alpha1.AgentMode
		change func(*v1alpha1.Agent)
		code   v1alpha1.RefusalCode
		field  string
	}{
		"a name too long":         {all, func(a *v1alpha1.Agent) { a.Name = strings.Repeat("a", 51) }, codeInvalid, "metadata.name"},
		"a dot in the name":       {all, func(a *v1alpha1.Agent) { a.Name = "a.b" }, codeInvalid, "metadata.name"},
		"the host's network":      {all, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostNetwork = true }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.hostNetwork"},
		"a restart of one-shots":  {oneShot, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.restartPolicy"},
		"no restart of a Service": {[]v1alpha1.AgentMode{service}, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.restartPolicy"},
		"a broken template":       {all, func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${" }, v1alpha1.RefusalInvalidTemplate, "spec.goalTemplate"},
		"an undeclared parameter": {all, func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${other}" }, v1alpha1.RefusalInvalidTemplate, "spec.goalTemplate"},
		"a template too large":    {all, func(a *v1alpha1.Agent) { a.Spec.GoalTemplate, a.Spec.Parameters = large, nil }, codeInvalid, "spec.goalTemplate"},
		"a template of nothing":   {all, func(a *v1alpha1.Agent) { a.Spec.GoalTemplate, a.Spec.Parameters = " \n", nil }, codeInvalid, "spec.goalTemplate"},
		"a goal too large":        {oneShot, func(a *v1alpha1.Agent) { a.Spec.Goal, a.Spec.GoalTemplate, a.Spec.Parameters = large, "", nil }, codeInvalid, "spec.goal"},
		"a role too large":        {[]v1alpha1.AgentMode{service}, func(a *v1alpha1.Agent) { a.Spec.Goal = large }, codeInvalid, "spec.goal"},
		"a goal of nothing":       {oneShot, func(a *v1alpha1.Agent) { a.Spec.Goal, a.Spec.GoalTemplate, a.Spec.Parameters = " ", "", nil }, codeInvalid, "spec.goal"},
		"neither":                 {oneShot, func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "" }, v1alpha1.RefusalInvalidTemplate, "spec.goal"},
		"a required parameter":    {[]v1alpha1.AgentMode{scheduled}, func(a *v1alpha1.Agent) { a.Spec.Parameters[0].Default = nil }, v1alpha1.RefusalMissingParameters, "spec.parameters"},
		"a placeholder as one":    {[]v1alpha1.AgentMode{scheduled}, func(a *v1alpha1.Agent) { a.Spec.Parameters = nil }, v1alpha1.RefusalMissingParameters, "spec.parameters"},
		"defaults too large":      {[]v1alpha1.AgentMode{scheduled}, func(a *v1alpha1.Agent) { a.Spec.Parameters[0].Default = new(strings.Repeat("x", 200<<10)) }, codeInvalid, "spec.parameters"},
		"defaults that make no goal": {[]v1alpha1.AgentMode{scheduled}, func(a *v1alpha1.Agent) {
			a.Spec.GoalTemplate, a.Spec.Parameters = "${a}", []v1alpha1.Parameter{{Name: "a", Default: new(" ")}}
		}, codeInvalid, "spec.parameters"},
	} {
		for _, mode := range c.modes {
			agent := of(mode)
			c.change(agent)
			refusals := AgentRefusals(agent)
			if assert.Len(t, refusals, 1, "%s: %s: %v", mode, name, refusals) {
				assert.Equal(t, c.code, refusals[0].Code, "%s: %s", mode, name)
				assert.Equal(t, c.field, refusals[0].Field, "%s: %s", mode, name)
				assert.Contains(t, refusals[0].Expected, "expected ", "%s: %s", mode, name)
				assert.Less(t, len(refusals[0].Expected), 512, "%s: %s", mode, name)
			}
		}
	}
	for name, change := range map[string]func(*v1alpha1.Agent){ // runs can be made of it, or an operator wants it so
		"required parameters of a Task": func(a *v1alpha1.Agent) { a.Spec.Parameters[0].Default = nil },
		"a default that a run replaces": func(a *v1alpha1.Agent) { a.Spec.Parameters[0].Default = new(strings.Repeat("x", 300<<10)) },
	} {
		agent := digest(task)
		change(agent)
		assert.Empty(t, AgentRefusals(agent), name)
	}
}

func TestAParameterThatNoGoalUsesIsAWarning(t *testing.T) {
	agent := digest(v1alpha1.AgentModeTask)
	assert.Empty(t, agentWarnings(agent))
	agent.Spec.Goal, agent.Spec.GoalTemplate = "Tidy up.", ""
	assert.Equal(t, []string{`spec.parameters: goalTemplate does not use "change", "concern"`}, agentWarnings(agent))
}
