package schedule_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/test/apiserver"
)

// config/samples: what a newcomer copies is taken by the API server as it is, and a run can be made of it.
func TestTheSamplesAreTaken(t *testing.T) {
	root, err := apiserver.Root()
	require.NoError(t, err)
	c, namespace := server.Client(t), server.Namespace(t)
	for file, parameters := range map[string]map[string]string{"agent.yaml": {"change": "PR 17"}, "task.yaml": {"issue": "42"}, "scheduled.yaml": nil} {
		text, err := os.ReadFile(filepath.Join(root, "config", "samples", file)) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		var agent v1alpha1.Agent
		require.NoError(t, yaml.UnmarshalStrict(text, &agent), file)
		agent.Namespace = namespace
		require.NoError(t, c.Create(t.Context(), &agent), file)
		assert.Empty(t, admission.AgentRefusals(&agent), file)
		var refusals []admission.Refusal
		if agent.Spec.Mode == v1alpha1.AgentModeScheduled {
			_, refusals = admission.ResolveScheduled(&agent)
		} else {
			_, refusals = admission.Resolve(&agent, v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: agent.Name}, Parameters: parameters})
		}
		assert.Empty(t, refusals, file)
	}
}
