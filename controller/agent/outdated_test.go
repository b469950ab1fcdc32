package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// SPEC.md, Shards: a standing run has its Agent's shard, and no other label of it; without it no controller would see it.
func TestAStandingRunHasTheShardOfItsAgent(t *testing.T) {
	agent := reviewer()
	agent.Labels = map[string]string{v1alpha1.LabelShard: "blue", "team": "payments"}
	assert.Equal(t, map[string]string{v1alpha1.LabelAgent: "reviewer", v1alpha1.LabelShard: "blue"}, standing(agent, "reviewer-1").Labels)
	agent.Labels = nil
	assert.Equal(t, map[string]string{v1alpha1.LabelAgent: "reviewer"}, standing(agent, "reviewer-1").Labels)
}

// SPEC.md, Standing runs: what the harness is started with replaces the standing run when it changes, and nothing else does.
func TestAStandingRunIsOutdatedByWhatItsHarnessIsStartedWith(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*v1alpha1.AgentSpec)
		outdated bool
	}{
		"nothing":      {func(*v1alpha1.AgentSpec) {}, false},
		"goalTemplate": {func(s *v1alpha1.AgentSpec) { s.GoalTemplate = "Look at ${change}." }, false},
		"deadline":     {func(s *v1alpha1.AgentSpec) { s.ActiveDeadlineSeconds = 7 }, false},
		"goal":         {func(s *v1alpha1.AgentSpec) { s.Goal = "You read." }, true},
		"image": {func(s *v1alpha1.AgentSpec) {
			s.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "i:2"}}
		}, true},
		"endpoint":        {func(s *v1alpha1.AgentSpec) { s.Runtime.Endpoint = "ws://127.0.0.1:4001/acp" }, true},
		"output":          {func(s *v1alpha1.AgentSpec) { s.Runtime.Output.MediaType = v1alpha1.MediaTypeJSON }, true},
		"policy":          {func(s *v1alpha1.AgentSpec) { s.Runtime.Permissions.Policy = v1alpha1.PermissionAsk }, true},
		"time for people": {func(s *v1alpha1.AgentSpec) { s.Runtime.Permissions.AskTimeoutSeconds = ptr.To[int32](9) }, true},
		"steering":        {func(s *v1alpha1.AgentSpec) { s.Runtime.Steering = v1alpha1.SteeringSteer }, true},
		"session":         {func(s *v1alpha1.AgentSpec) { s.Runtime.Session = v1alpha1.SessionStanding }, true},
	} {
		run, changed := aRun("r-1", 0), reviewer()
		c.change(&changed.Spec)
		assert.Equal(t, c.outdated, !upToDate(&run, changed), name)
	}
}
