package deliver

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
)

// pool is everything an Agent could deliver to now: its standing runs' Pods, from the cache, with what their Links know. The
// endpoints are those Pods', by UID.
func (c *courier) pool(ctx context.Context, agent *hearthv1.Agent) (delivery.Pool, map[string]endpoint, error) {
	pool := delivery.Pool{By: c.self}
	if ready := meta.FindStatusCondition(agent.Status.Conditions, hearthv1.AgentConditionReady); ready != nil && ready.Reason == hearthv1.ReasonRecasting {
		pool.Recasting, pool.Message = true, ready.Message
	}
	none := agent.Spec.Replicas != nil && *agent.Spec.Replicas == 0 // what finishes its work then is replaced by nothing
	var standing hearthv1.AgentRunList
	err := c.kube.List(ctx, &standing, kube.InNamespace(agent.Namespace), kube.MatchingFields{indexStanding: agent.Name}, kube.UnsafeDisableDeepCopy)
	if err != nil {
		return pool, nil, fmt.Errorf("list standing runs: %w", err)
	}
	ends := make(map[string]endpoint, len(standing.Items))
	for i := range standing.Items {
		run := &standing.Items[i]
		if !metav1.IsControlledBy(run, agent) || none && run.Status.CordonedAt != nil {
			continue
		}
		t, end, err := c.target(ctx, run)
		if err != nil {
			return pool, nil, err
		}
		ends[t.PodUID] = end
		pool.Targets = append(pool.Targets, t)
	}
	return pool, ends, nil
}

// target is a standing run's Pod as a candidate, whether or not it can take anything.
func (c *courier) target(ctx context.Context, run *hearthv1.AgentRun) (delivery.Target, endpoint, error) {
	t := delivery.Target{PodName: run.Name, Cordoned: run.DeletionTimestamp != nil || run.Status.CordonedAt != nil, Generation: generation(run)}
	var p corev1.Pod
	err := c.kube.Get(ctx, kube.ObjectKeyFromObject(run), &p, kube.UnsafeDisableDeepCopy) // of each target, at each pass
	if apierrors.IsNotFound(err) || (err == nil && !pod.Of(&p, run)) {
		t.Message = "Pod " + run.Name + " does not exist yet"
		return t, endpoint{message: t.Message}, nil
	}
	if err != nil {
		return t, endpoint{}, fmt.Errorf("read Pod %s: %w", run.Name, err)
	}
	t.PodUID = string(p.UID)
	t.Listening, t.Message = pod.Listening(&p)
	end := endpoint{listening: t.Listening, message: t.Message, address: pod.Address(&p)}
	link, open := c.links.Get(t.PodUID)
	if !open {
		return t, end, nil
	}
	s := link.Status()
	t.Link, t.LinkMessage, t.Journal, t.Agent, t.Capacity = usable(s), s.Message, s.Journal, s.Agent.State, s.Capacity
	t.BackoffUntil = c.memory.backoffUntil(t.PodUID)
	for _, r := range c.reservedOn(ctx, t.PodUID) {
		d := r.Status.Delivery
		// One that the harness told us of is in its capacity, or has ended.
		if a, _ := link.Snapshot(client.Key{RunUID: string(r.UID), Attempt: d.Attempt}); a.Seen == nil {
			t.Reserved++
		}
	}
	return t, end, nil
}

// generation is that of the Agent a standing run was made from.
func generation(run *hearthv1.AgentRun) int64 {
	if n, err := strconv.ParseInt(run.Annotations[hearthv1.AnnotationGeneration], 10, 64); err == nil {
		return n
	}
	return run.Spec.AgentRef.Generation
}
