//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const (
	reviewer = "reviewer"
	effects  = workDir + "/effects"
)

// TestDelivery: a sparse run is carried out by real goose in the standing Pod and recorded once (R21, R22, R27).
func TestDelivery(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "delivery")
	agent := r.readyAgent(reviewer, nil)
	r.ask("review", reviewer, "shell: echo counted | tee -a "+effects, "say: no findings")
	run := r.ended("review", shortly)

	assert.Equal(t, metav1.ConditionTrue, succeeded(run).Status, run.Status.Message)
	assert.Equal(t, hearthv1.ReasonCompleted, succeeded(run).Reason)
	delivered := cluster.Condition(run.Status.Conditions, hearthv1.AgentRunConditionDelivered)
	assert.Equal(t, metav1.ConditionTrue, delivered.Status)
	assert.Equal(t, hearthv1.ReasonAccepted, delivered.Reason)
	assert.Equal(t, metav1.ConditionFalse, acpReady(run).Status)
	assert.Equal(t, hearthv1.ReasonFinished, acpReady(run).Reason, "R4: on every path that ends it")
	assert.Equal(t, hearthv1.PhaseSucceeded, run.Status.Phase)
	assert.Equal(t, "Succeeded", run.Status.Outcome)
	require.NotNil(t, run.Status.Output)
	assert.Contains(t, run.Status.Output.Value, "counted")
	assert.Contains(t, run.Status.Output.Value, "no findings")
	require.NotNil(t, run.Status.Usage, "the model reports usage")
	require.NotNil(t, run.Status.Usage.TotalTokens)
	assert.Positive(t, *run.Status.Usage.TotalTokens)

	assert.Equal(t, "shell: echo counted | tee -a "+effects+" ;; say: no findings", run.Spec.Goal, "admission resolved it")
	assert.Equal(t, agent.UID, run.Spec.AgentRef.UID)
	assert.Equal(t, agent.Generation, run.Spec.AgentRef.Generation)
	assert.Empty(t, run.Finalizers)
	assert.Empty(t, run.OwnerReferences, "the record outlives the Agent")

	standing := r.standing(reviewer)
	assert.Equal(t, standing.Name, run.Status.PodName)
	require.NotNil(t, run.Status.Delivery)
	assert.EqualValues(t, 1, run.Status.Delivery.Attempt)
	assert.Equal(t, standing.Status.PodUID, run.Status.Delivery.PodUID)
	r.inOrder(run)
	r.ownsNoPod(run)
	assert.Equal(t, []string{"counted"}, r.lines(t.Context(), r.pod(reviewer), effects), "I1: one side effect")
}

// inOrder: the times that a person would subtract are there, with fractions of a second, and in order.
func (r *room) inOrder(run *hearthv1.AgentRun) {
	r.t.Helper()
	s := run.Status
	times := []struct {
		name string
		at   *metav1.MicroTime
	}{
		{"reservedAt", s.Delivery.ReservedAt}, {"acceptedAt", s.Delivery.AcceptedAt}, {"startTime", s.StartTime},
		{"completionTime", s.CompletionTime}, {"recordedAt", s.RecordedAt},
	}
	fractions := 0
	for i, t := range times {
		require.NotNil(r.t, t.at, t.name)
		if t.at.Nanosecond() != 0 {
			fractions++
		}
		if i > 0 {
			assert.False(r.t, t.at.Before(times[i-1].at), "%s %s is before %s %s", t.name, t.at, times[i-1].name, times[i-1].at)
		}
	}
	assert.False(r.t, s.Delivery.ReservedAt.Time.Before(run.CreationTimestamp.Time), "reserved before it was created")
	assert.Greater(r.t, fractions, 2, "times of whole seconds only")
}

// ownsNoPod: a delivered run never has a Pod of its own (R22).
func (r *room) ownsNoPod(run *hearthv1.AgentRun) {
	r.t.Helper()
	var pods corev1.PodList
	require.NoError(r.t, suite.Client.List(r.t.Context(), &pods, client.InNamespace(r.namespace)))
	assert.Len(r.t, pods.Items, 1)
	for _, pod := range pods.Items {
		assert.False(r.t, metav1.IsControlledBy(&pod, run), "Pod %s belongs to the delivered run", pod.Name)
	}
}

// succeeds is the proof that the room still works: one more run, carried out once.
func (r *room) succeeds(name, agent string) {
	r.t.Helper()
	file := workDir + "/" + name
	r.ask(name, agent, "shell: echo once >> "+file, "say: it works")
	run := r.ended(name, patiently)
	require.Equal(r.t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s", succeeded(run).Reason, run.Status.Message)
	assert.Contains(r.t, run.Status.Output.Value, "it works")
	assert.Equal(r.t, []string{"once"}, r.lines(r.t.Context(), r.pod(agent), file), "I1: one side effect")
}

// waitLines waits until a file in the Pod has that many lines.
func (r *room) waitLines(pod *corev1.Pod, file string, count int) {
	r.t.Helper()
	r.wait("the side effects in "+file, shortly, func(ctx context.Context) (bool, string, error) {
		lines := r.lines(ctx, pod, file)
		return len(lines) >= count, fmt.Sprintf("%d of %d lines", len(lines), count), nil
	})
}
