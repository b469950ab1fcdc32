package admission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

func reviewer() *v1alpha1.Agent {
	return &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Name: "reviewer", Namespace: "team", UID: "agent-uid", Generation: 4},
		Spec: v1alpha1.AgentSpec{
			Mode: v1alpha1.AgentModeService, Goal: "You review changes.", GoalTemplate: "Review ${change} for ${concern}.",
			Parameters: []v1alpha1.Parameter{{Name: "change"}, {Name: "concern", Default: ptr.To("correctness")}},
			Runtime: v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Permissions: v1alpha1.Permissions{Policy: v1alpha1.PermissionDeny},
				Delivery: &v1alpha1.DeliveryRuntime{Port: 4100, Concurrency: 1, Queue: ptr.To[int32](1)}},
			Template:              corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
			ActiveDeadlineSeconds: 1800, StartingDeadlineSeconds: 3600, BackoffLimit: 2,
		},
	}
}

func sparse(parameters map[string]string) v1alpha1.AgentRunSpec {
	return v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "reviewer"}, Parameters: parameters}
}

// R21: the snapshot is complete, so that nothing is looked up again.
func TestResolveMakesACompleteSnapshot(t *testing.T) {
	agent := reviewer()
	spec, refusals := Resolve(agent, sparse(map[string]string{"change": "PR 17"}))
	require.Empty(t, refusals)
	assert.Equal(t, v1alpha1.AgentRunSpec{
		AgentRef:   v1alpha1.AgentRef{Name: "reviewer", UID: "agent-uid", Generation: 4},
		Parameters: map[string]string{"change": "PR 17", "concern": "correctness"},
		Goal:       "Review PR 17 for correctness.",
		Delivery:   &v1alpha1.DeliverySpec{Port: 4100},
		Runtime:    &agent.Spec.Runtime, ActiveDeadlineSeconds: ptr.To[int64](1800), StartingDeadlineSeconds: ptr.To[int64](3600), BackoffLimit: ptr.To[int32](2),
	}, spec)
	agent.Spec.Runtime.Command[0] = "other"
	assert.Equal(t, "goose", spec.Runtime.Command[0], "a snapshot shares nothing with its Agent")

	again, refusals := Resolve(reviewer(), Sparse(spec))
	require.Empty(t, refusals)
	spec.Runtime.Command[0] = "goose"
	assert.Equal(t, spec, again, "the validating webhook recomputes the same")
}

func TestResolveTakesParametersFromTheTemplateWhenNoneAreDeclared(t *testing.T) {
	agent := reviewer()
	agent.Spec.Parameters = nil
	spec, refusals := Resolve(agent, sparse(map[string]string{"change": "PR 17", "concern": "${change}"}))
	require.Empty(t, refusals)
	assert.Equal(t, "Review PR 17 for ${change}.", spec.Goal, "values are not expanded again")

	agent.Spec.GoalTemplate = "Always the same, $${literally}."
	spec, refusals = Resolve(agent, sparse(nil))
	require.Empty(t, refusals)
	assert.Equal(t, "Always the same, ${literally}.", spec.Goal)
}

// R21: every code, with the field and without any value.
func TestResolveRefusesWithACodeAndTheField(t *testing.T) {
	const canary = "canary-value"
	full := map[string]string{"change": canary}
	for _, c := range []struct {
		name   string
		agent  func(*v1alpha1.Agent) *v1alpha1.Agent
		asked  v1alpha1.AgentRunSpec
		code   v1alpha1.RefusalCode
		field  string
		expect string
	}{
		{"no Agent", func(*v1alpha1.Agent) *v1alpha1.Agent { return nil }, sparse(full), v1alpha1.RefusalMissingAgent, "spec.agentRef.name", `there is no "reviewer"`},
		{"another mode", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.Mode = "Scheduled"; return a }, sparse(full), v1alpha1.RefusalWrongMode, "spec.agentRef.name", "mode Scheduled"},
		{"no delivery", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.Runtime.Delivery = nil; return a }, sparse(full), v1alpha1.RefusalDeliveryDisabled, "spec.agentRef.name", "spec.runtime.delivery"},
		{"no port", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.Runtime.Delivery.Port = 0; return a }, sparse(full), v1alpha1.RefusalInvalidDelivery, "spec.agentRef.name", "a port other than 4000"},
		{"the ACP port", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.Runtime.Delivery.Port = 4000; return a }, sparse(full), v1alpha1.RefusalInvalidDelivery, "spec.agentRef.name", "a port other than 4000"},
		{"no template", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.GoalTemplate = ""; return a }, sparse(full), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "it is empty"},
		{"a broken template", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.GoalTemplate = "${"; return a }, sparse(full), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "byte 0"},
		{"an undeclared placeholder", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.GoalTemplate = "${change} ${other}"; return a }, sparse(full), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", `"other"`},
		{"a missing parameter", nil, sparse(nil), v1alpha1.RefusalMissingParameters, "spec.parameters", `values for "change"`},
		{"an unused parameter", nil, sparse(map[string]string{"change": canary, "chnage": canary}), v1alpha1.RefusalUnusedParameters, "spec.parameters", `none named "chnage"`},
		{"a goal of 300 KiB", nil, sparse(map[string]string{"change": strings.Repeat("x", 300<<10)}), v1alpha1.RefusalInvalidDelivery, "spec.parameters.change", "at most 262144 bytes"},
		{"an empty goal", func(a *v1alpha1.Agent) *v1alpha1.Agent { a.Spec.GoalTemplate = " ${change}"; return a }, sparse(map[string]string{"change": "\n"}), v1alpha1.RefusalInvalidDelivery, "spec.parameters", "it is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := reviewer()
			if c.agent != nil {
				agent = c.agent(agent)
			}
			spec, refusals := Resolve(agent, c.asked)
			require.Len(t, refusals, 1)
			assert.Equal(t, c.code, refusals[0].Code)
			assert.Equal(t, c.field, refusals[0].Field)
			assert.Contains(t, refusals[0].Expected, c.expect)
			assert.True(t, strings.HasPrefix(refusals[0].String(), "["+string(c.code)+"] "), refusals[0].String())
			assert.NotContains(t, refusals[0].String(), canary, "a message repeats no values")
			assert.Empty(t, spec)
		})
	}
}

// SPEC.md, Endpoints: goal and parameters together, in bytes, to the byte.
func TestGoalAndParametersHaveABound(t *testing.T) {
	agent := reviewer()
	agent.Spec.Parameters, agent.Spec.GoalTemplate = nil, "${change}"
	fits := (v1alpha1.MaxGoalBytes - len("change")) / 2
	_, refusals := Resolve(agent, sparse(map[string]string{"change": strings.Repeat("x", fits)}))
	require.Empty(t, refusals)
	_, refusals = Resolve(agent, sparse(map[string]string{"change": strings.Repeat("x", fits+1)}))
	require.Len(t, refusals, 1)
	assert.Equal(t, "spec.parameters.change", refusals[0].Field)
	agent.Spec.GoalTemplate = strings.Repeat("${change}", 1<<14)
	_, refusals = Resolve(agent, sparse(map[string]string{"change": strings.Repeat("x", 100<<10)}))
	require.Len(t, refusals, 1, "a gigabyte is refused without being made")
}

// R31: each resolved field alone is a forgery.
func TestResolveRefusesEachPresetField(t *testing.T) {
	for field, set := range map[string]func(*v1alpha1.AgentRunSpec){
		"spec.agentRef.uid":            func(s *v1alpha1.AgentRunSpec) { s.AgentRef.UID = types.UID("u") },
		"spec.agentRef.generation":     func(s *v1alpha1.AgentRunSpec) { s.AgentRef.Generation = 1 },
		"spec.goal":                    func(s *v1alpha1.AgentRunSpec) { s.Goal = "x" },
		"spec.delivery":                func(s *v1alpha1.AgentRunSpec) { s.Delivery = &v1alpha1.DeliverySpec{} },
		"spec.runtime":                 func(s *v1alpha1.AgentRunSpec) { s.Runtime = &v1alpha1.AgentRuntime{} },
		"spec.template":                func(s *v1alpha1.AgentRunSpec) { s.Template = &corev1.PodTemplateSpec{} },
		"spec.activeDeadlineSeconds":   func(s *v1alpha1.AgentRunSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1) },
		"spec.startingDeadlineSeconds": func(s *v1alpha1.AgentRunSpec) { s.StartingDeadlineSeconds = ptr.To[int64](1) },
		"spec.backoffLimit":            func(s *v1alpha1.AgentRunSpec) { s.BackoffLimit = ptr.To[int32](0) },
	} {
		asked := sparse(map[string]string{"change": "x"})
		set(&asked)
		_, refusals := Resolve(reviewer(), asked)
		require.Len(t, refusals, 1, field)
		assert.Equal(t, v1alpha1.RefusalConflictingFields, refusals[0].Code, field)
		assert.Equal(t, field, refusals[0].Field)

		other := sparse(map[string]string{"change": "x"})
		assert.Equal(t, []string{strings.TrimSuffix(strings.TrimSuffix(field, ".uid"), ".generation")}, changed(&other, &asked), "changed sees every field that preset sees")
	}
}

func TestMessagesRepeatAFewNamesOnly(t *testing.T) {
	given := map[string]string{"change": "x"}
	for i := range 60 {
		given[strings.Repeat("n", 100)+string(rune('0'+i))] = ""
	}
	_, refusals := Resolve(reviewer(), sparse(given))
	require.Len(t, refusals, 1)
	assert.Contains(t, refusals[0].Expected, "and 52 more")
	assert.Less(t, len(refusals[0].Expected), 1024)
}

// A field that is added to the spec one day must be compared, or it could be forged.
func TestEveryFieldOfASpecIsCompared(t *testing.T) {
	agent := reviewer()
	agent.Spec.TTLSecondsAfterFinished, agent.Spec.Budget = new(int64(60)), &v1alpha1.Budget{Tokens: new(int64(1000))}
	full, refusals := Resolve(agent, sparse(map[string]string{"change": "x"}))
	require.Empty(t, refusals)
	full.Template, full.Backend = &corev1.PodTemplateSpec{}, v1alpha1.BackendPod
	value := reflect.ValueOf(full)
	for i := range value.NumField() {
		if value.Type().Field(i).Name != "Cancel" {
			assert.False(t, value.Field(i).IsZero(), "this test must set %s", value.Type().Field(i).Name)
		}
	}
	assert.Len(t, changed(&v1alpha1.AgentRunSpec{}, &full), value.NumField()-1, "all but cancel")
	for i := range value.NumField() { // and each alone is a forgery, unless it is what a user writes
		asked := sparse(map[string]string{"change": "x"})
		switch name := value.Type().Field(i).Name; name {
		case "Cancel", "Parameters":
		default:
			reflect.ValueOf(&asked).Elem().Field(i).Set(value.Field(i))
			_, refusals := Resolve(agent, asked)
			if assert.NotEmpty(t, refusals, name) {
				assert.Equal(t, v1alpha1.RefusalConflictingFields, refusals[0].Code, name)
			}
		}
	}
}

// A short template and one value can ask for gigabytes: what is resolved is bounded, and what is not is refused without being made.
func TestAResolvedGoalIsBounded(t *testing.T) {
	for _, c := range []struct {
		template, value string
		fits            bool
	}{
		{"${change}", strings.Repeat("x", (v1alpha1.MaxGoalBytes-len("change"))/2), true},
		{"${change}", strings.Repeat("x", v1alpha1.MaxGoalBytes/2), false},
		{strings.Repeat("${change}", 1<<15), strings.Repeat("x", 1<<20), false}, // 32 GiB
		{strings.Repeat("$${change}", 1<<15), "x", false},
		{strings.Repeat("$${x}", 1<<14), "", true},
		{"${change}", strings.Repeat("${change}", 1<<10), true},
	} {
		agent := reviewer()
		agent.Spec.GoalTemplate, agent.Spec.Parameters = c.template, []v1alpha1.Parameter{{Name: "change"}}
		spec, refusals := Resolve(agent, sparse(map[string]string{"change": c.value}))
		assert.Equal(t, c.fits, len(refusals) == 0, "%.20s %d", c.template, len(c.value))
		assert.LessOrEqual(t, len(spec.Goal)+len(spec.Parameters["change"])+len("change"), v1alpha1.MaxGoalBytes)
	}
}
