//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	ticks   = workDir + "/ticks"
	endless = "shell: while :; do echo tick >> " + ticks + "; sleep 0.2; done"
)

// TestTaskWaitsAndEnds: deadlines, cancel, a Pod that is lost, an image that is none of ours, and what ttl removes (R7 to R9, R11).
func TestTaskWaitsAndEnds(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "task-ends")
	for name, change := range map[string]func(*hearthv1.AgentSpec){
		"foreign": func(spec *hearthv1.AgentSpec) {
			spec.Template.Spec.Containers[0].Command = []string{"sh", "-c", `printf 'seventeen rows\n\377' > /dev/termination-log`}
		},
		"foreign-fails": func(spec *hearthv1.AgentSpec) {
			spec.Template.Spec.Containers[0].Command = []string{"sh", "-c", `printf 'no rows' > /dev/termination-log; exit 7`}
		},
		"hasty":   func(spec *hearthv1.AgentSpec) { spec.ActiveDeadlineSeconds = 2 },
		"nowhere": func(spec *hearthv1.AgentSpec) { notStarting["no-node"].change(&spec.Template.Spec) },
		"brief":   func(spec *hearthv1.AgentSpec) { spec.TTLSecondsAfterFinished = ptr.To[int64](2) },
		worker:    nil,
	} {
		r.task(name, change)
	}
	for name, with := range map[string][]string{
		"of-foreign": {"foreign", "say: x"}, "of-foreign-fails": {"foreign-fails", "say: x"}, "too-long": {"hasty", endless}, "pending": {"nowhere", "say: x"},
		"short-lived": {"brief", "say: x"}, "cancelled": {worker, endless}, "deleted": {worker, endless}, "lost": {worker, endless},
	} {
		r.ask(name, with[0], with[1:]...)
	}
	each := func(name string, test func(*room)) {
		t.Run(name, func(t *testing.T) { test(&room{t: t, namespace: r.namespace, watched: r.watched}) })
	}
	each("an image that has no harness", func(r *room) {
		run := r.ended("of-foreign", patiently)
		assert.Equal(r.t, metav1.ConditionTrue, succeeded(run).Status, run.Status.Message)
		assert.Equal(r.t, hearthv1.ReasonCompleted, run.Status.Reason)
		assert.Contains(r.t, run.Status.TerminationData, "seventeen rows")
		run = r.ended("of-foreign-fails", patiently)
		assert.Equal(r.t, metav1.ConditionFalse, succeeded(run).Status)
		assert.Equal(r.t, "no rows", run.Status.TerminationData)
		assert.Contains(r.t, run.Status.Message, "exit code 7")
		for _, seen := range append(r.watched.of("of-foreign"), r.watched.of("of-foreign-fails")...) {
			assert.NotEqual(r.t, metav1.ConditionTrue, acpReady(seen.run).Status, "R8: nobody ever listened")
		}
	})
	each("own time over", func(r *room) {
		run := r.ended("too-long", patiently)
		assert.Equal(r.t, hearthv1.ReasonDeadlineExceeded, run.Status.Reason, run.Status.Message)
		assert.Equal(r.t, hearthv1.ReasonDeadlineExceeded, string(r.envelopeIn(run, 2).Reason))
	})
	each("cancelled while Pending", func(r *room) {
		r.await("pending", "to wait for a node", shortly, func(run *hearthv1.AgentRun) bool {
			return containsAll(succeeded(run).Message, notStarting["no-node"].says)
		})
		r.cancel("pending")
		run := r.ended("pending", patiently)
		assert.Equal(r.t, hearthv1.ReasonCancelled, run.Status.Reason, run.Status.Message)
		assert.Nil(r.t, run.Status.StartTime)
		r.podEnds(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pending", Namespace: r.namespace, UID: run.Status.PodUID}})
	})
	each("cancelled while it runs a tool", func(r *room) {
		pod := r.toolRuns("cancelled")
		r.cancel("cancelled")
		run := r.ended("cancelled", patiently)
		assert.Equal(r.t, hearthv1.ReasonCancelled, run.Status.Reason, run.Status.Message)
		r.podEnds(pod)
	})
	each("deleted while it runs a tool", func(r *room) {
		pod := r.toolRuns("deleted")
		require.NoError(r.t, suite.Client.Delete(r.t.Context(), r.sparse("deleted", worker, nil)))
		r.podEnds(pod)
	})
	each("its Pod deleted by somebody", func(r *room) {
		pod := r.toolRuns("lost")
		require.NoError(r.t, suite.Client.Delete(r.t.Context(), pod, client.GracePeriodSeconds(0)))
		run := r.ended("lost", patiently)
		assert.Equal(r.t, metav1.ConditionFalse, succeeded(run).Status)
		r.podEnds(pod)
	})
	each("ttl", func(r *room) {
		_, err := r.watched.first(r.t.Context(), patiently, func(run *hearthv1.AgentRun) bool {
			return run.Name == "short-lived" && run.Status.Reason == hearthv1.ReasonCompleted
		})
		require.NoError(r.t, err, "there was a record")
		r.wait("the end of the record and of what it owned", patiently, func(ctx context.Context) (bool, string, error) {
			left := 0
			for _, list := range []client.ObjectList{&hearthv1.AgentRunList{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
				if err := suite.Client.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
					return false, "", err
				}
				err := meta.EachListItem(list, func(item runtime.Object) error {
					object, err := meta.Accessor(item)
					if err == nil && strings.HasPrefix(object.GetName(), "short-lived") {
						left++
					}
					return err
				})
				if err != nil {
					return false, "", err
				}
			}
			return left == 0, fmt.Sprintf("%d objects", left), nil
		})
	})
}

func (r *room) cancel(name string) {
	r.t.Helper()
	require.NoError(r.t, suite.Client.Patch(r.t.Context(), r.sparse(name, worker, nil), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))))
}

// toolRuns waits until the shell of a one-shot run's agent is at work, and returns the Pod.
func (r *room) toolRuns(name string) *corev1.Pod {
	r.t.Helper()
	r.running(name)
	var pod corev1.Pod
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(name), &pod))
	r.waitLines(&pod, ticks, 2)
	return &pod
}

// podEnds waits until a Pod is gone, with every process that was in it.
func (r *room) podEnds(pod *corev1.Pod) {
	r.t.Helper()
	r.wait("the end of Pod "+pod.Name, patiently, func(ctx context.Context) (bool, string, error) {
		var now corev1.Pod
		err := suite.Client.Get(ctx, r.key(pod.Name), &now)
		gone, left := apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, len(podProcesses(pod))
		return gone && left == 0, fmt.Sprintf("%s, %d processes on this machine", now.Status.Phase, left), client.IgnoreNotFound(err)
	})
}
