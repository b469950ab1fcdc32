//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	missingImage = "localhost/hearth-no-such-image:none"
	// startingSeconds is time for kubelet to fail twice to pull an image, on a busy machine.
	startingSeconds = 40
)

// notStarting are Pods that kubelet or the scheduler does not get to run, and what the run is to say of them.
var notStarting = map[string]struct {
	change func(*corev1.PodSpec)
	// says is what kubelet or the scheduler calls it, and what it is about.
	says []string
	// starts: its container is started again and again, so the Pod's phase is Running.
	starts bool
	// expires: a one-shot run of it has a short starting deadline.
	expires bool
}{
	"image-never-pulled": {
		change: func(pod *corev1.PodSpec) {
			pod.Containers[0].Image, pod.Containers[0].ImagePullPolicy = missingImage, corev1.PullNever
		},
		says: []string{"ErrImageNeverPull", missingImage},
	},
	"image-pull-fails": {
		change: func(pod *corev1.PodSpec) { pod.Containers[0].Image = missingImage },
		says:   []string{"ImagePullBackOff", missingImage}, expires: true,
	},
	"image-name-invalid": {
		change: func(pod *corev1.PodSpec) { pod.Containers[0].Image = "localhost/No:Such:Name" },
		says:   []string{"InvalidImageName", "localhost/No:Such:Name"},
	},
	"secret-key-missing": {
		change: func(pod *corev1.PodSpec) {
			pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: "MINE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "no-such-secret"}, Key: "key"}}})
		},
		says: []string{"CreateContainerConfigError", "no-such-secret"},
	},
	"no-node": {
		change: func(pod *corev1.PodSpec) { pod.NodeSelector = map[string]string{"no-such-label": "none"} },
		says:   []string{"Unschedulable", "didn't match Pod's node affinity/selector"}, expires: true,
	},
	"crashes": {
		change: func(pod *corev1.PodSpec) {
			pod.Containers[0].Command = []string{"sh", "-c", "echo no licence; exit 7"}
		},
		says:   []string{"CrashLoopBackOff", "it had ended: Error, exit code 7: no licence"},
		starts: true,
	},
}

// TestKubeletsReasons is R7: a standing run stays, with the reason of kubelet or the scheduler in words, where a person looks. A
// one-shot run has the same until its starting deadline ends it.
func TestKubeletsReasons(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "reasons")
	for name, c := range notStarting {
		r.agent(name, func(spec *hearthv1.AgentSpec) { c.change(&spec.Template.Spec) })
		r.task(name+"-task", func(spec *hearthv1.AgentSpec) {
			c.change(&spec.Template.Spec)
			if c.expires {
				spec.StartingDeadlineSeconds = startingSeconds
			}
		})
		r.ask(name+"-run", name+"-task", "say: never")
	}
	for name, c := range notStarting {
		t.Run(name, func(t *testing.T) {
			r := &room{t: t, namespace: r.namespace, watched: r.watched}
			defer r.oneShotSays(name+"-run", c.says, c.starts, c.expires)
			run := r.await(r.standing(name).Name, "to say why nobody listens", patiently, func(run *hearthv1.AgentRun) bool {
				require.Nil(t, run.Status.CompletionTime, run.Status.Message)
				return containsAll(acpReady(run).Message, c.says)
			})
			assert.Equal(t, metav1.ConditionFalse, acpReady(run).Status)
			assert.Equal(t, hearthv1.ReasonNotListening, acpReady(run).Reason)
			assert.Equal(t, metav1.ConditionUnknown, succeeded(run).Status)
			if c.starts {
				assert.Equal(t, hearthv1.PhaseRunning, run.Status.Phase)
				assert.Positive(t, run.Status.Restarts, "R8: restarts are counted")
				return
			}
			assert.Equal(t, hearthv1.PhasePending, run.Status.Phase)
			assert.Equal(t, hearthv1.ReasonPodNotRunning, succeeded(run).Reason)
			assert.True(t, containsAll(succeeded(run).Message, c.says), succeeded(run).Message)
			assert.Nil(t, run.Status.StartTime, "it has not started")
		})
	}
}

// oneShotSays: a one-shot run waits with the same words. One that crashes is not started again; one whose starting deadline is short
// ends by it, and its Pod with it.
func (r *room) oneShotSays(name string, says []string, crashes, expires bool) {
	r.t.Helper()
	if crashes {
		run := r.ended(name, patiently)
		assert.Equal(r.t, hearthv1.ReasonPodFailed, run.Status.Reason, run.Status.Message)
		assert.Contains(r.t, run.Status.Message, "exit code 7")
		assert.Zero(r.t, run.Status.Restarts)
		return
	}
	_, err := r.watched.first(r.t.Context(), patiently, func(run *hearthv1.AgentRun) bool {
		return run.Name == name && succeeded(run).Reason == hearthv1.ReasonPodNotRunning && containsAll(succeeded(run).Message, says)
	})
	require.NoError(r.t, err, "it never said %v", says)
	if !expires {
		return
	}
	run := r.ended(name, patiently)
	assert.Equal(r.t, hearthv1.ReasonStartingDeadlineExceeded, run.Status.Reason, run.Status.Message)
	assert.Equal(r.t, hearthv1.ReasonFinished, acpReady(run).Reason)
	assert.GreaterOrEqual(r.t, run.Status.CompletionTime.Sub(run.CreationTimestamp.Time), startingSeconds*time.Second)
	r.podEnds(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: run.Status.PodUID}})
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
