package schedule

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
)

// nameOf is the name of the run of a time: whoever makes one for that time makes this one, so there is one at most. Eight digits
// last until the year 2160.
func nameOf(agent *v1alpha1.Agent, at time.Time) string {
	return fmt.Sprintf("%s-%08d", agent.Name, at.Unix()/60)
}

// runOf is the run of a time, complete, and without an owner: its record outlives the Agent (R32).
func runOf(agent *v1alpha1.Agent, at time.Time) (*v1alpha1.AgentRun, []admission.Refusal) {
	spec, refusals := admission.ResolveScheduled(agent)
	run := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: agent.Namespace, Name: nameOf(agent, at),
			Labels:      map[string]string{v1alpha1.LabelAgent: agent.Name},
			Annotations: map[string]string{v1alpha1.AnnotationScheduledAt: at.UTC().Format(time.RFC3339)},
		},
		Spec: spec,
	}
	shard.Stamp(run.Labels, agent.Labels)
	return run, refusals
}

// isRunOf tells whether a run that has the name is the one of that Agent and that time.
func isRunOf(run *v1alpha1.AgentRun, agent *v1alpha1.Agent, at time.Time) bool {
	of, ok := TimeOf(run)
	return ok && of.Equal(at) && run.Spec.AgentRef.UID == agent.UID
}

// problemOf is why no run of the Agent could be made, empty when one can.
func problemOf(agent *v1alpha1.Agent) string {
	refusals := admission.AgentRefusals(agent)
	if len(refusals) == 0 {
		_, refusals = admission.ResolveScheduled(agent)
	}
	if len(refusals) == 0 {
		return ""
	}
	return refusals[0].String()
}
