package room

import (
	"context"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
)

func runtime() v1alpha1.AgentRuntime {
	return v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: v1alpha1.AgentContainer, Image: "registry/agent:1", Ports: []corev1.ContainerPort{{Name: "debug", ContainerPort: 6060}}}}}}
}

// Agent makes one that keeps a standing run and is delivered to, unless it is changed.
func (r *Room) Agent(name string, changes ...func(*v1alpha1.Agent)) *v1alpha1.Agent {
	r.t.Helper()
	a := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name},
		Spec:       v1alpha1.AgentSpec{Goal: "You review changes.", GoalTemplate: "Review ${change}.", Runtime: runtime(), Template: template()},
	}
	a.Spec.Runtime.Delivery = &v1alpha1.DeliveryRuntime{}
	for _, change := range changes {
		change(a)
	}
	require.NoError(r.t, r.Create(r.t.Context(), a))
	return a
}

// OneShot makes a run as admission stores one of a Task Agent.
func (r *Room) OneShot(name string, changes ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	r.t.Helper()
	run := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name},
		Spec: v1alpha1.AgentRunSpec{
			AgentRef: v1alpha1.AgentRef{Name: "task", UID: "agent-uid", Generation: 1}, Goal: "Review PR 17.", Runtime: ptr.To(runtime()), Template: ptr.To(template()),
			ActiveDeadlineSeconds: ptr.To[int64](1800), StartingDeadlineSeconds: ptr.To[int64](600),
		},
	}
	for _, change := range changes {
		change(run)
	}
	require.NoError(r.t, r.Create(r.t.Context(), run))
	return run
}

// Run waits for a run of that name for which ok holds, and shows how it is when it never does.
func (r *Room) Run(name string, ok func(*v1alpha1.AgentRun) bool) *v1alpha1.AgentRun {
	r.t.Helper()
	var run v1alpha1.AgentRun
	defer func() {
		if r.t.Failed() {
			r.t.Logf("run %s: %+v", name, run.Status)
		}
	}()
	r.Eventually("run "+name, func(ctx context.Context) bool {
		run = v1alpha1.AgentRun{}
		return r.Get(ctx, r.Key(name), &run) == nil && ok(&run)
	})
	return &run
}

// Exists holds for every run.
func Exists(*v1alpha1.AgentRun) bool { return true }

// HasPod holds for a run whose Pod is noted.
func HasPod(r *v1alpha1.AgentRun) bool { return r.Status.PodUID != "" }

// IsListening holds for a run that a client may dial.
func IsListening(r *v1alpha1.AgentRun) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionACPReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonListening
}

// Says holds for a run that has this text in the message of Succeeded.
func Says(text string) func(*v1alpha1.AgentRun) bool {
	return func(r *v1alpha1.AgentRun) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
		return c != nil && strings.Contains(c.Message, text)
	}
}

// Listens is what kubelet says of a Pod that is Ready.
func Listens(s *corev1.PodStatus) {
	s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, "10.77.0.9", []corev1.PodIP{{IP: "10.77.0.9"}}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.AgentContainer, Ready: true, Image: "i", ImageID: "i", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
}

// Idle are Loads of harnesses that answer and have nothing to do.
type Idle struct{}

// Load implements agent.Loads.
func (Idle) Load(context.Context, *v1alpha1.AgentRun) (agent.Load, error) {
	return agent.Load{Link: agent.LinkVerified, Empty: true}, nil
}

// Changes implements agent.Loads.
func (Idle) Changes() source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request]) error { return nil })
}
