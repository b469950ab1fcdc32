package rig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// GoalParameter is the one parameter of a rig's Agents: it is the goal, in the words of the nodes' scripted runner.
const GoalParameter = "goal"

// AgentOptions are what the rig's Agents differ in.
type AgentOptions struct {
	// Replicas is how many standing Pods there are.
	Replicas int
	// Concurrency and Queue are those of each Pod; 0 is the API's default.
	Concurrency int32
	Queue       *int32
}

// Agent makes a Service Agent and waits until all its Pods can take work.
func (r *Rig) Agent(ctx context.Context, namespace, name string, o AgentOptions) error {
	agent := &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: hearthv1.AgentSpec{
			Mode: hearthv1.AgentModeService, Replicas: ptr.To(int32(o.Replicas)),
			GoalTemplate: "${" + GoalParameter + "}",
			Runtime:      hearthv1.AgentRuntime{Command: []string{"scripted"}, Delivery: &hearthv1.DeliveryRuntime{Concurrency: o.Concurrency, Queue: o.Queue}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: hearthv1.AgentContainer, Image: "scripted"}},
			}},
		},
	}
	if err := r.Client.Create(ctx, agent); err != nil {
		return fmt.Errorf("make Agent %s: %w", name, err)
	}
	return r.ready(ctx, agent, o.Replicas)
}

// Scale changes the number of an Agent's Pods, and waits until as many can take work.
func (r *Rig) Scale(ctx context.Context, namespace, name string, replicas int) error {
	agent := &hearthv1.Agent{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, agent); err != nil {
		return fmt.Errorf("scale Agent %s: %w", name, err)
	}
	before := agent.DeepCopy()
	agent.Spec.Replicas = ptr.To(int32(replicas))
	if err := r.Client.Patch(ctx, agent, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("scale Agent %s: %w", name, err)
	}
	return r.ready(ctx, agent, replicas)
}

func (r *Rig) ready(ctx context.Context, agent *hearthv1.Agent, replicas int) error {
	what := fmt.Sprintf("the %d Pods of Agent %s to take work", replicas, agent.Name)
	return r.until(ctx, what, func() bool {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(agent), agent)
		return err == nil && agent.Status.ReadyReplicas == int32(replicas)
	})
}
