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

// TestControllerKilled is fault rows 4 to 6: the controller gets SIGKILL while two runs run. One ends while nobody leads, the other
// after the next controller looked at it. Each is recorded once and has one side effect.
func TestControllerKilled(t *testing.T) {
	r := newRoom(t, "killed")
	r.readyAgent(reviewer, func(spec *hearthv1.AgentSpec) { spec.Runtime.Delivery.Concurrency = 2 })
	pod := r.pod(reviewer)
	gate := func(name string) string { return suite.id + "-" + name }
	for _, name := range []string{"early", "late"} {
		r.ask(name, reviewer, "shell: echo "+name+" >> "+effects, "gate: "+gate(name), "say: "+name+" is done")
	}
	for _, name := range []string{"early", "late"} {
		r.running(name)
	}
	r.waitLines(pod, effects, 2)

	r.killController()
	require.NoError(t, suite.OpenGate(t.Context(), suite.modelNamespace, gate("early")))
	early := r.ended("early", patiently)
	late := r.await("late", "to be still there", shortly, func(*hearthv1.AgentRun) bool { return true })
	assert.Nil(t, late.Status.CompletionTime, "its gate is closed")
	require.NoError(t, suite.OpenGate(t.Context(), suite.modelNamespace, gate("late")))
	late = r.ended("late", patiently)

	for name, run := range map[string]*hearthv1.AgentRun{"early": early, "late": late} {
		assert.Equal(t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s %s", name, succeeded(run).Reason, run.Status.Message)
		require.NotNil(t, run.Status.Output)
		assert.Contains(t, run.Status.Output.Value, name+" is done")
		assert.EqualValues(t, 1, run.Status.Delivery.Attempt)
		assert.Zero(t, run.Status.Delivery.Losses, "a restart of the controller loses nothing")
	}
	assert.ElementsMatch(t, []string{"early", "late"}, r.lines(t.Context(), pod, effects), "I1: one side effect each")
	require.NoError(t, suite.WaitAdmission(t.Context()))
}

// killController ends the controller's process as the kernel would, or where the node is another machine its Pod without grace, and
// waits until kubelet started the next one.
func (r *room) killController() {
	r.t.Helper()
	pods := r.controllers(r.t.Context())
	require.NotEmpty(r.t, pods, "no controller runs")
	for _, pod := range pods {
		if pid := mainProcess(&pod, pod.Spec.Containers[0].Name); pid != 0 {
			r.t.Logf("SIGKILL to process %d of %s", pid, pod.Name)
			kill(r.t, pid)
			continue
		}
		r.t.Logf("the node is another machine: %s is deleted without grace", pod.Name)
		require.NoError(r.t, suite.Client.Delete(r.t.Context(), &pod, client.GracePeriodSeconds(0)))
	}
	r.wait("the next controller", patiently, func(ctx context.Context) (bool, string, error) {
		next := 0
		for _, pod := range r.controllers(ctx) {
			id := containerID(&pod, pod.Spec.Containers[0].Name)
			for _, old := range pods {
				if id == containerID(&old, old.Spec.Containers[0].Name) {
					id = ""
				}
			}
			if id != "" {
				next++
			}
		}
		return next >= len(pods), fmt.Sprintf("%d of %d started", next, len(pods)), nil
	})
}

// controllers are the Pods of the controller's Deployments.
func (r *room) controllers(ctx context.Context) []corev1.Pod {
	r.t.Helper()
	var pods corev1.PodList
	require.NoError(r.t, suite.Client.List(ctx, &pods, client.InNamespace(cluster.SystemNamespace)))
	var found []corev1.Pod
	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == "ReplicaSet" && pod.DeletionTimestamp == nil {
			found = append(found, pod)
		}
	}
	return found
}
