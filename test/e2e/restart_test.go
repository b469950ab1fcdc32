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

const rolled = "rolled"

// TestControllerKilled is fault rows 4 to 6: the controller gets SIGKILL while two runs run. One ends while nobody leads, the other
// after the next controller looked at it. Each is recorded once and has one side effect. So does a Task's run whose Pod ends meanwhile;
// and a standing run that was cordoned stays so, and finishes what it has.
func TestControllerKilled(t *testing.T) {
	r := newRoom(t, "killed")
	r.agent(reviewer, func(spec *hearthv1.AgentSpec) { spec.Runtime.Delivery.Concurrency = 2 })
	r.agent(rolled, nil)
	r.task(worker, nil)
	for _, name := range []string{reviewer, rolled, worker} {
		r.waitReady(name)
	}
	held := r.hold(reviewer, "early", "late")
	oneShot := r.hold(worker, "one-shot")
	inFlight := r.hold(rolled, "in-flight")
	old := inFlight[0].Status.PodName
	r.changeTemplate(rolled)
	cordoned := r.await(old, "to be cordoned", patiently, func(run *hearthv1.AgentRun) bool { return run.Status.CordonedAt != nil }).Status.CordonedAt

	holder := r.holder(t.Context())
	started := r.killController()
	r.openTheGate("one-shot") // at once: the lease runs out in 15 seconds, and kubelet may take ten of them to start the next controller
	r.openTheGate("early")
	r.wait("the one-shot Pod to end", shortly, func(ctx context.Context) (bool, string, error) {
		var pod corev1.Pod
		err := suite.Client.Get(ctx, r.key("one-shot"), &pod)
		return err == nil && pod.Status.Phase == corev1.PodSucceeded, string(pod.Status.Phase), err
	})
	unrecorded := r.await("one-shot", "to be there", shortly, func(*hearthv1.AgentRun) bool { return true })
	if r.holder(t.Context()) == holder { // or a slow machine let the lease run out before the Pod's end was seen
		assert.Nil(t, unrecorded.Status.CompletionTime, "its Pod ended while nobody led")
	}
	started()
	early := r.ended("early", patiently)
	late := r.await("late", "to be still there", shortly, func(*hearthv1.AgentRun) bool { return true })
	assert.Nil(t, late.Status.CompletionTime, "its gate is closed")
	r.openTheGate("late")
	late = r.ended("late", patiently)

	for _, run := range []*hearthv1.AgentRun{early, late} {
		r.isDone(run, held[0].Status.PodUID)
		assert.EqualValues(t, 1, run.Status.Delivery.Attempt)
		assert.Zero(t, run.Status.Delivery.Losses, "a restart of the controller loses nothing")
	}
	r.isDone(r.ended("one-shot", patiently), oneShot[0].Status.PodUID)
	require.NoError(t, suite.WaitAdmission(t.Context())) // one may lead before kubelet has seen that it is ready
	run := r.ask("to-the-new", rolled, "say: hello")
	assert.NotEqual(t, old, r.ended(run.Name, patiently).Status.PodName, "the old one is cordoned")
	still := r.await(old, "to be there", shortly, func(*hearthv1.AgentRun) bool { return true })
	assert.Equal(t, cordoned, still.Status.CordonedAt, "a cordon survives the controller")
	r.openTheGate("in-flight")
	r.isDone(r.ended("in-flight", patiently), inFlight[0].Status.PodUID)
	r.waitGone("the old standing run", r.livingOf([]string{old}))
}

// killController ends the controller's process as the kernel would, or where the node is another machine its Pod without grace; started
// waits until kubelet has started the next one.
func (r *room) killController() (started func()) {
	r.t.Helper()
	pods := r.controllers(r.t.Context())
	require.NotEmpty(r.t, pods, "no controller runs")
	for _, pod := range pods {
		r.kill(&pod)
	}
	return func() {
		r.t.Helper()
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
}

// kill ends a controller's process as the kernel would, or where the node is another machine its Pod without grace.
func (r *room) kill(pod *corev1.Pod) {
	r.t.Helper()
	if pid := mainProcess(pod, pod.Spec.Containers[0].Name); pid != 0 {
		r.t.Logf("SIGKILL to process %d of %s", pid, pod.Name)
		kill(r.t, pid)
		return
	}
	r.t.Logf("the node is another machine: %s is deleted without grace", pod.Name)
	require.NoError(r.t, suite.Client.Delete(r.t.Context(), pod, client.GracePeriodSeconds(0)))
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
