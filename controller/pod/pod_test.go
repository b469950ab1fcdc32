package pod_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/controller/pod"
)

func listening() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "reviewer-1", Namespace: "team", UID: "pod-uid"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.77.0.9",
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
}

// SPEC.md, "Which Pod counts as ready", and R4: each clause alone decides.
func TestListeningNeedsEveryClause(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	for _, c := range []struct {
		name    string
		change  func(*corev1.Pod)
		ok      bool
		message string
	}{
		{"all of them", func(*corev1.Pod) {}, true, "listening on 10.77.0.9:4000"},
		{"an IPv6 address", func(p *corev1.Pod) { p.Status.PodIP = "fd00::9" }, true, "listening on [fd00::9]:4000"},
		{"terminating though Ready", func(p *corev1.Pod) { p.DeletionTimestamp = &deleted }, false, "Pod reviewer-1 is terminating"},
		{"phase Pending though Ready", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false, "Pod exists with phase: Pending"},
		{"phase Failed though Ready", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
		}, false, "Evicted: low on memory"},
		{"not Ready, with the Pod's own words", func(p *corev1.Pod) {
			p.Status.Conditions[0].Status, p.Status.Conditions[0].Message = corev1.ConditionFalse, "containers with unready status: [agent]"
		}, false, "containers with unready status: [agent]"},
		{"Ready unknown, without words", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionUnknown }, false, "Pod is Running but not Ready"},
		{"no Ready condition", func(p *corev1.Pod) { p.Status.Conditions = nil }, false, "Pod is Running but not Ready"},
		{"no IP", func(p *corev1.Pod) { p.Status.PodIP = "" }, false, "Pod is Ready but has no IP yet"},
		{"another container runs, the agent does not", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "sidecar" }, false, "container agent is not running"},
		{"the harness ended and says why", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "harness: no such agent\n"}}
		}, false, "container agent: Error, exit code 1: harness: no such agent"},
		{"the harness ended, and waits to be started again", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
			p.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "one\nno such agent\n"}}
		}, false, "container agent: CrashLoopBackOff: back-off 10s; it had ended: Error, exit code 1: one no such agent"},
		{"the agent waits to be restarted", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
		}, false, "container agent: CrashLoopBackOff: back-off 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listening()
			c.change(p)
			ok, message := pod.Listening(p)
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.message, message)
		})
	}
	ok, message := pod.Listening(nil)
	assert.False(t, ok)
	assert.Equal(t, "Pod does not exist", message)
}

// R7: kubelet's and the scheduler's own reasons are what the user reads.
func TestNotRunningUsesTheReasonsOfKubeletAndScheduler(t *testing.T) {
	waits := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	for _, c := range []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{"fresh", corev1.PodStatus{}, "Pod exists with phase: Pending"},
		{"unschedulable", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}}, "Unschedulable: 0/1 nodes"},
		{"unscheduled without words", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}, "Pod is not scheduled"},
		{"image", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("agent", "ImagePullBackOff", "no such image")}}, "container agent: ImagePullBackOff: no such image"},
		{"trouble before the normal course", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("sidecar", "ContainerCreating", ""), waits("agent", "CreateContainerConfigError", "secret not found")}}, "container agent: CreateContainerConfigError: secret not found"},
		{"normal course", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("agent", "ContainerCreating", "")}}, "container agent: ContainerCreating"},
		{"init container", corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waits("setup", "InvalidImageName", "bad")}, ContainerStatuses: []corev1.ContainerStatus{waits("agent", "PodInitializing", "")}}, "container setup: InvalidImageName: bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, pod.NotRunning(&corev1.Pod{Status: c.status}))
		})
	}
	assert.Equal(t, "Pod does not exist", pod.NotRunning(nil))
}

// A container's last words are its own: bounded, valid text, and of a long one the end, where the error is.
func TestTheLastWordsOfAContainerAreBounded(t *testing.T) {
	last := func(message string) string {
		return pod.NotRunning(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}},
		}}}})
	}
	const begins = "container agent: CrashLoopBackOff; it had ended: terminated, exit code 1"
	assert.Equal(t, begins, last(""))
	assert.Equal(t, begins+": bad \uFFFD\uFFFD", last("bad \xff\x00"))
	assert.Equal(t, begins+": [2J red forged", last("\x1b[2J\x07 red\n\u009bforged"))
	for n := range 4 {
		got := last(strings.Repeat("é", 1000) + strings.Repeat("x", n))
		assert.LessOrEqual(t, len(got), len(begins)+600)
		assert.True(t, utf8.ValidString(got))
		assert.True(t, strings.HasSuffix(got, "é"+strings.Repeat("x", n)))
	}
}

func TestEndSaysHowAPodEnded(t *testing.T) {
	exited := []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}}}}
	assert.Equal(t, "Evicted", pod.End(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", ContainerStatuses: exited}}))
	assert.Equal(t, "container agent: Error, exit code 3", pod.End(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: exited}}))
	assert.Equal(t, "Pod ended with phase: Succeeded", pod.End(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}))
}

func TestOwnedByAsksForTheControllersUID(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Name: "run", UID: "a"}, {Name: "run", UID: "b", Controller: ptr.To(true)}}}}
	assert.False(t, pod.OwnedBy(p, "a"))
	assert.True(t, pod.OwnedBy(p, "b"))
	assert.False(t, pod.OwnedBy(&corev1.Pod{}, ""))
}

// R6: only stamped Pods and Services are cached.
func TestCacheOptionsRestrictPodsAndServicesToTheStampedLabel(t *testing.T) {
	options := pod.CacheOptions()
	kinds := map[string]bool{}
	for object, by := range options.ByObject {
		kinds[fmt.Sprintf("%T", object)] = true
		assert.Equal(t, "hearth.dev/run", by.Label.String())
		assert.True(t, by.Label.Matches(labels.Set{"hearth.dev/run": "reviewer-1"}))
		assert.False(t, by.Label.Matches(labels.Set{"app": "reviewer"}))
	}
	assert.Equal(t, map[string]bool{"*v1.Pod": true, "*v1.Service": true}, kinds)
}

// SPEC.md, Shards: a controller's caches hold its own shards' alone.
func TestTheCachesOfAShardHoldWhatHasItsLabel(t *testing.T) {
	for _, by := range pod.CacheOptionsOf(shard.Of("blue")).ByObject {
		assert.True(t, by.Label.Matches(labels.Set{"hearth.dev/run": "reviewer-1", "hearth.dev/shard": "blue"}))
		assert.False(t, by.Label.Matches(labels.Set{"hearth.dev/run": "reviewer-1", "hearth.dev/shard": "green"}))
		assert.False(t, by.Label.Matches(labels.Set{"hearth.dev/run": "reviewer-1"}))
		assert.False(t, by.Label.Matches(labels.Set{"hearth.dev/shard": "blue"}))
	}
}

// P7: each target has a Pod in the cache, and each record as long as that stays. Only what is read of it again is kept.
func TestTheCacheKeepsNextToNothingOfAPodsSpec(t *testing.T) {
	p := listening()
	p.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](7),
		Containers: []corev1.Container{{Name: "agent", Image: "i", Env: []corev1.EnvVar{{Name: "A"}}}, {Name: "beside"}}, Volumes: []corev1.Volume{{Name: "v"}}}
	little := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](7)}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	kept, err := pod.Transform(p.DeepCopy())
	require.NoError(t, err)
	living := little
	living.Containers = []corev1.Container{{Name: "agent"}, {Name: "beside"}} // all that are over: then so is the Pod
	assert.Equal(t, living, kept.(*corev1.Pod).Spec)                          //nolint:forcetypeassert // fails loudly
	assert.Nil(t, kept.(*corev1.Pod).ManagedFields)                           //nolint:forcetypeassert // fails loudly
	p.Status.Phase = corev1.PodFailed
	kept, err = pod.Transform(p.DeepCopy())
	require.NoError(t, err)
	assert.Equal(t, little, kept.(*corev1.Pod).Spec)     //nolint:forcetypeassert // fails loudly
	assert.Equal(t, p.Status, kept.(*corev1.Pod).Status) //nolint:forcetypeassert // fails loudly
	other, err := pod.Transform("a tombstone")
	require.NoError(t, err)
	assert.Equal(t, "a tombstone", other)
}
