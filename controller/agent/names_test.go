package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// SPEC.md, Names; R23: every standing run of an Agent of the longest name can be named after it, and its Pod, Service, Sandbox and host
// as it is. What the controller makes itself it also refuses when somebody else makes it, so the name is its own.
func TestEveryStandingRunOfTheLongestNamedAgentHasAName(t *testing.T) {
	agent := reviewer()
	agent.Spec.Parameters = []v1alpha1.Parameter{{Name: "change"}}
	agent.Name = strings.Repeat("a", v1alpha1.MaxAgentName)
	assert.Empty(t, admission.AgentRefusals(agent), "the longest name that is admitted")
	assert.Empty(t, validation.IsValidLabelValue(agent.Name))
	seen := map[string]bool{}
	for n := 1; n <= maxNumber; n++ {
		run := standing(agent, nameOf(agent.Name, n))
		seen[run.Name] = true
		if problems := validation.IsDNS1035Label(run.Name); len(problems) > 0 || run.Name != wire.Hostname(run.Name) {
			t.Fatalf("%s: %v; host %s", run.Name, problems, wire.Hostname(run.Name))
		}
		assert.Equal(t, agent.Name, run.Labels[v1alpha1.LabelAgent])
	}
	assert.Len(t, seen, maxNumber)
}
