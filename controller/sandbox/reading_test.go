package sandbox_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
	double "github.com/hearthdev/hearth/test/sandbox"
)

const runUID = "run-uid"

var runOwns = []metav1.OwnerReference{{APIVersion: "hearth.dev/v1alpha1", Kind: "AgentRun", Name: "reviewer-1", UID: runUID, Controller: ptr.To(true)}}

func theRun(podUID types.UID) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "reviewer-1", UID: runUID}, Status: v1alpha1.AgentRunStatus{PodUID: podUID}}
}

// ours is the run's Sandbox as its controller leaves it.
func ours(conditions ...metav1.Condition) *sandbox.Sandbox {
	return &sandbox.Sandbox{
		ObjectMeta: metav1.ObjectMeta{Name: "reviewer-1", UID: "sandbox-uid", OwnerReferences: runOwns},
		Status:     sandbox.Status{Conditions: conditions},
	}
}

// itsPod listens.
func itsPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "reviewer-1", UID: "pod-uid", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: "reviewer-1", UID: "sandbox-uid", Controller: ptr.To(true)}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.77.0.9", PodIPs: []corev1.PodIP{{IP: "10.77.0.9"}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// The fields are those of the real API (agents.x-k8s.io/v1beta1); the labels are on the template, because only those reach the Pod.
func TestBuildMakesThePodsSandbox(t *testing.T) {
	p := itsPod()
	p.Namespace, p.Labels, p.Annotations, p.OwnerReferences = "team", map[string]string{"hearth.dev/run": "reviewer-1", "app": "a"}, map[string]string{"note": "kept"}, runOwns
	p.Spec.Containers = []corev1.Container{{Name: "agent", Image: "i"}}
	s := sandbox.Build(p)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var got struct {
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
			OwnerReferences []struct{ UID string }
		}
		Spec map[string]any
	}
	require.NoError(t, json.Unmarshal(text, &got))
	assert.Equal(t, []any{"reviewer-1", "team", "reviewer-1", runUID}, []any{got.Metadata.Name, got.Metadata.Namespace, got.Metadata.Labels["hearth.dev/run"], got.Metadata.OwnerReferences[0].UID})
	assert.Equal(t, map[string]any{
		"service": true,
		"podTemplate": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"hearth.dev/run": "reviewer-1", "app": "a"}, "annotations": map[string]any{"note": "kept"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "i", "resources": map[string]any{}}}},
		},
	}, got.Spec)
	assert.NotContains(t, s.Labels, "app")
	s.Spec.PodTemplate.Metadata.Labels["hearth.dev/run"] = "another"
	assert.Equal(t, "reviewer-1", s.Labels["hearth.dev/run"], "nothing is shared")
	assert.Equal(t, "reviewer-1", p.Labels["hearth.dev/run"])
}

// A Pod is the run's only if the Sandbox that the run owns controls it; once one is pinned, it is that one alone.
func TestOwnIsThePinnedPod(t *testing.T) {
	for name, c := range map[string]struct {
		run  *v1alpha1.AgentRun
		s    *sandbox.Sandbox
		p    *corev1.Pod
		mine bool
	}{
		"none":                         {theRun(""), ours(), nil, false},
		"its first":                    {theRun(""), ours(), itsPod(), true},
		"the pinned one":               {theRun("pod-uid"), ours(), itsPod(), true},
		"the pinned one, Sandbox gone": {theRun("pod-uid"), nil, itsPod(), true},
		"back under the same name":     {theRun("pod-uid"), ours(), itsPod(func(p *corev1.Pod) { p.UID = "another" }), false},
		"no Sandbox, never pinned":     {theRun(""), nil, itsPod(), false},
		"of a Sandbox before":          {theRun(""), ours(), itsPod(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "an earlier Sandbox" }), false},
		"of nobody":                    {theRun(""), ours(), itsPod(func(p *corev1.Pod) { p.OwnerReferences = nil }), false},
		"of another's Sandbox": {theRun(""), func() *sandbox.Sandbox {
			s := ours()
			s.OwnerReferences = nil
			return s
		}(), itsPod(), false},
	} {
		assert.Equal(t, c.mine, sandbox.Own(c.run, c.s, c.p) != nil, name)
	}
}

func TestAPodThatASandboxOfTheNameLeft(t *testing.T) {
	assert.True(t, sandbox.Left(theRun(""), itsPod()))
	assert.False(t, sandbox.Left(theRun(""), nil))
	for name, change := range map[string]func(*metav1.OwnerReference){
		"a Pod's own run": func(o *metav1.OwnerReference) { *o = runOwns[0] },
		"another group":   func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1beta1" },
		"another name":    func(o *metav1.OwnerReference) { o.Name = "other" },
	} {
		assert.False(t, sandbox.Left(theRun(""), itsPod(func(p *corev1.Pod) { change(&p.OwnerReferences[0]) })), name)
	}
	assert.False(t, sandbox.Left(theRun(""), itsPod(func(p *corev1.Pod) { p.OwnerReferences = nil })))
}

// R4, R7, R13: True only if the Sandbox is Ready and its Pod listens; else in the words of both.
func TestListeningIsTheSandboxAndThePod(t *testing.T) {
	service := &corev1.Service{}
	pending := func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	for _, c := range []struct {
		name   string
		s      *sandbox.Sandbox
		p      *corev1.Pod
		listen bool
		says   string
	}{
		{"no Sandbox", nil, nil, false, "Pod does not exist"},
		{"nobody looked at it", ours(), nil, false, "Pod does not exist; Sandbox: Sandbox reviewer-1 has no condition yet: is its controller running?"},
		{"no Pod", ours(double.Conditions(nil, service, nil)...), nil, false, "Pod does not exist; Service Exists"},
		{"pending", ours(double.Conditions(itsPod(pending), service, nil)...), itsPod(pending), false, "Pod exists with phase: Pending; Service Exists"},
		{"not ready", ours(double.Conditions(itsPod(notReady), service, nil)...), itsPod(notReady), false, "Pod is Running but not Ready; Service Exists"},
		{"ready", ours(double.Conditions(itsPod(), service, nil)...), itsPod(), true, "listening on 10.77.0.9:4000"},
		{"its Service is missing", ours(double.Conditions(itsPod(), nil, nil)...), itsPod(), false, "Pod is Ready; Service does not exist"},
		{"ReconcilerError for once", ours(double.Conditions(itsPod(), service, errors.New("try again"))...), itsPod(), false, "Error seen: try again"},
		{"terminating, and still Ready", ours(double.Conditions(itsPod(), service, nil)...), itsPod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), false, "Pod reviewer-1 is terminating"},
		{"Ready of the Pod before", ours(double.Conditions(itsPod(), service, nil)...), nil, false, "Pod does not exist"},
		{"the Sandbox is gone, the Pod is not yet", nil, itsPod(), false, "Sandbox does not exist"},
		{"suspended by somebody", ours(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SandboxSuspended"}), nil, false, "Pod does not exist; Sandbox: Sandbox is not Ready: SandboxSuspended"},
	} {
		listen, says := sandbox.Listening(c.s, c.p)
		assert.Equal(t, c.listen, listen, c.name)
		assert.Equal(t, c.says, says, c.name)
	}
	stuck := itsPod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}}
	})
	assert.Equal(t, "container agent: ImagePullBackOff; Sandbox: Pod exists with phase: Pending; Service Exists", sandbox.NotRunning(ours(double.Conditions(stuck, service, nil)...), stuck), "R7: kubelet's own reason")
}

func TestFinishedIsTheSandboxsWord(t *testing.T) {
	service := &corev1.Service{}
	for phase, says := range map[corev1.PodPhase]string{corev1.PodSucceeded: "Pod completed successfully", corev1.PodFailed: "Pod failed", corev1.PodRunning: ""} {
		p := itsPod(func(p *corev1.Pod) { p.Status.Phase = phase })
		got, message := sandbox.Finished(ours(double.Conditions(p, service, nil)...))
		assert.Equal(t, says, message, phase)
		assert.Equal(t, says != "", got == phase, phase)
	}
	got, _ := sandbox.Finished(nil)
	assert.Empty(t, got)
	for _, c := range []metav1.Condition{{Type: "Finished", Status: metav1.ConditionFalse, Reason: "PodFailed"}, {Type: "Finished", Status: metav1.ConditionTrue, Reason: "AWordOfTomorrow"}} {
		got, _ = sandbox.Finished(ours(c))
		assert.Empty(t, got)
	}
}
