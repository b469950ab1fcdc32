package agent

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
)

// standing is a standing run of the Agent: complete, so that nothing of it is looked up later, and owned, so that it ends with
// the Agent. The owner reference does not block the Agent's deletion.
func standing(agent *v1alpha1.Agent, name string) *v1alpha1.AgentRun {
	run := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: agent.Namespace, Name: name,
			Labels:      map[string]string{v1alpha1.LabelAgent: agent.Name},
			Annotations: map[string]string{v1alpha1.AnnotationGeneration: strconv.FormatInt(agent.Generation, 10)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Agent", Name: agent.Name, UID: agent.UID, Controller: ptr.To(true)}},
		},
		Spec: standingSpec(agent),
	}
	shard.Stamp(run.Labels, agent.Labels)
	return run
}

// standingSpec has no deadline and no budget: those are of delivered runs (SPEC.md, Lifecycle, Clocks).
func standingSpec(agent *v1alpha1.Agent) v1alpha1.AgentRunSpec {
	return v1alpha1.AgentRunSpec{
		AgentRef: v1alpha1.AgentRef{Name: agent.Name, UID: agent.UID, Generation: agent.Generation},
		Goal:     agent.Spec.Goal,
		Runtime:  agent.Spec.Runtime.DeepCopy(),
		Template: agent.Spec.Template.DeepCopy(),
		Backend:  agent.Spec.Backend,
	}
}
