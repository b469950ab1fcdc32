package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
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

// SPEC.md, Shards: a name that the API server says is taken, by a run that this controller does not see, is not tried again at once.
func TestANameThatWasRefusedIsLeftAloneForAWhile(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).Build(), Now: func() time.Time { return now }}
	agent := reviewer()
	free := func() string {
		names, err := r.free(t.Context(), agent, nil)
		require.NoError(t, err)
		return names[0]
	}
	assert.Equal(t, nameOf(agent.Name, 1), free())
	r.refuse(client.ObjectKey{Namespace: agent.Namespace, Name: nameOf(agent.Name, 1)})
	assert.Equal(t, nameOf(agent.Name, 2), free())
	now = now.Add(refusedFor)
	assert.Equal(t, nameOf(agent.Name, 1), free())
	assert.Empty(t, r.names, "what is over is not kept")
}
