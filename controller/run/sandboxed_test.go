package run

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/sandbox"
	double "github.com/hearthdev/hearth/test/sandbox"
)

const sandboxUID = "sandbox-uid"

// sandboxed is the same run, backed by a Sandbox whose controller has looked at the same Pod. A Pod that was the run's own is its
// Sandbox's; one of another UID is what the Sandbox made of it again.
func sandboxed(o Observed) Observed {
	o.Run = o.Run.DeepCopy()
	o.Run.Spec.Backend = v1alpha1.BackendSandbox
	if o.Pod != nil {
		o.Pod = o.Pod.DeepCopy()
		if ip := o.Pod.Status.PodIP; ip != "" {
			o.Pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
		}
		if pod.OwnedBy(o.Pod, o.Run.UID) {
			o.Pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: o.Run.Name, UID: sandboxUID, Controller: ptr.To(true)}}
		}
	}
	if o.Pod != nil && o.Blocked == "" {
		o.Sandbox = theSandbox(o.Run, double.Conditions(o.Pod, &corev1.Service{}, nil)...)
	}
	return o
}

// theSandbox is the run's own, with these conditions.
func theSandbox(run *v1alpha1.AgentRun, conditions ...metav1.Condition) *sandbox.Sandbox {
	s := sandbox.Build(BuildPod(run))
	s.UID, s.CreationTimestamp = sandboxUID, metav1.NewTime(begin.Add(-time.Minute))
	s.Status.Conditions = conditions
	return s
}

// waitsForPod is a run whose Sandbox was seen, and no Pod of it.
func waitsForPod(changes ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	run := standingRun()
	run.Spec.Backend = v1alpha1.BackendSandbox
	run.Status.PodName = run.Name
	for _, change := range changes {
		change(run)
	}
	return run
}

func cancelled(r *v1alpha1.AgentRun) { r.Spec.Cancel = true }

// What only a Sandbox does (R13).
func TestStatusFollowsTheSandbox(t *testing.T) {
	const unknown, yes, no = metav1.ConditionUnknown, metav1.ConditionTrue, metav1.ConditionFalse
	service := &corev1.Service{}
	live := sandboxed(Observed{Run: runWith(seen), Pod: livePod()})
	with := func(change func(o *Observed)) Observed {
		o := live
		change(&o)
		return o
	}
	finished := func(phase corev1.PodPhase) *sandbox.Sandbox {
		return theSandbox(waitsForPod(), double.Conditions(podWith(func(p *corev1.Pod) { p.Status.Phase = phase }), service, nil)...)
	}
	for _, c := range []struct {
		name      string
		o         Observed
		phase     v1alpha1.Phase
		succeeded metav1.ConditionStatus
		reason    string
		says      string
		acpSays   string
	}{
		{"the kind is missing", Observed{Run: waitsForPod(func(r *v1alpha1.AgentRun) { r.Status.PodName = "" }), Blocked: sandbox.Missing}, "Pending", unknown, "PodNotRunning", sandbox.Missing, sandbox.Missing},
		{"nobody has looked at it", Observed{Run: waitsForPod(), Sandbox: theSandbox(waitsForPod())}, "Pending", unknown, "PodNotRunning",
			"Pod does not exist; Sandbox: Sandbox reviewer-1 has no condition yet: is its controller running?", "Pod does not exist; Sandbox: Sandbox reviewer-1 has no condition yet: is its controller running?"},
		{"no Pod yet", Observed{Run: waitsForPod(), Sandbox: theSandbox(waitsForPod(), double.Conditions(nil, service, nil)...)}, "Pending", unknown, "PodNotRunning", "Pod does not exist; Service Exists", "Pod does not exist; Service Exists"},
		{"a foreign Pod has the name", Observed{Run: waitsForPod(), Pod: podWith(func(p *corev1.Pod) { p.OwnerReferences = nil }),
			Sandbox: theSandbox(waitsForPod(), double.Conditions(nil, nil, errors.New("cannot adopt"))...)}, "Pending", unknown, "PodNotRunning", "Pod does not exist; Sandbox: Error seen: cannot adopt", "Pod does not exist; Sandbox: Error seen: cannot adopt"},
		{"a reconciler's error ends nothing", with(func(o *Observed) {
			o.Sandbox = theSandbox(o.Run, double.Conditions(o.Pod, service, errors.New("try again"))...)
		}), "Running", unknown, "Running", "", "Error seen: try again"},
		{"terminating keeps the Sandbox Ready, not the run (R4)", with(func(o *Observed) {
			o.Pod = o.Pod.DeepCopy()
			o.Pod.DeletionTimestamp = &metav1.Time{Time: now}
			require.True(t, meta.IsStatusConditionTrue(o.Sandbox.Status.Conditions, "Ready"))
		}), "Running", unknown, "Running", "", "Pod reviewer-1 is terminating"},
		{"the Service is missing", with(func(o *Observed) { o.Sandbox = theSandbox(o.Run, double.Conditions(o.Pod, nil, nil)...) }), "Running", unknown, "Running", "", "Pod is Ready; Service does not exist"},
		{"Ready of a Pod that the cache does not have yet", with(func(o *Observed) { o.Run, o.Pod = waitsForPod(), nil }), "Pending", unknown, "PodNotRunning", "Pod does not exist", "Pod does not exist"},
		{"the Sandbox is gone, its Pod not yet", with(func(o *Observed) { o.Sandbox = nil }), "Running", unknown, "Running", "", "Sandbox does not exist"},
		{"both are gone", with(func(o *Observed) { o.Sandbox, o.Pod, o.Gone = nil, nil, true }), "Failed", no, "PodFailed", "the Pod was deleted", "the run has ended"},
		{"the Sandbox is gone before a Pod was seen", Observed{Run: waitsForPod(), Gone: true}, "Failed", no, "PodFailed", "the Sandbox was deleted", "the run has ended"},
		{"a Pod of it is left", Observed{Run: waitsForPod(), Pod: live.Pod}, "Pending", unknown, "PodNotRunning", "Pod does not exist", "Pod does not exist"},
		{"the Pod failed and was removed at once", Observed{Run: waitsForPod(), Sandbox: finished(corev1.PodFailed), Gone: true}, "Failed", no, "PodFailed", "Pod failed", "the run has ended"},
		{"the Pod succeeded and was removed at once", Observed{Run: waitsForPod(), Sandbox: finished(corev1.PodSucceeded), Gone: true}, "Succeeded", yes, "Completed", "Pod completed successfully", "the run has ended"},
		{"Finished of a Pod that the cache shows alive", with(func(o *Observed) { o.Sandbox = finished(corev1.PodFailed) }), "Running", unknown, "Running", "", "Pod failed"},
		{"cancelled, the Sandbox is still there (R9)", Observed{Run: waitsForPod(cancelled), Sandbox: theSandbox(waitsForPod())}, "Pending", unknown, "Cancelling", "waiting for the Pod to end",
			"Pod does not exist; Sandbox: Sandbox reviewer-1 has no condition yet: is its controller running?"},
		{"cancelled, a Pod of it is left", Observed{Run: waitsForPod(cancelled), Pod: live.Pod}, "Pending", unknown, "Cancelling", "waiting for the Pod to end", "Pod does not exist"},
		{"cancelled, all gone", Observed{Run: waitsForPod(cancelled), Gone: true}, "Failed", no, "Cancelled", "cancelled", "the run has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Now = now
			s := Status(c.o)
			succeeded := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionSucceeded)
			acp := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionACPReady)
			assert.Equal(t, []any{c.phase, c.succeeded, c.reason, c.says}, []any{s.Phase, succeeded.Status, succeeded.Reason, succeeded.Message})
			assert.Equal(t, []any{metav1.ConditionFalse, c.acpSays}, []any{acp.Status, acp.Message})
			assert.Equal(t, c.succeeded != unknown, s.CompletionTime != nil)
			assert.Empty(t, s.Address)
		})
	}
}

// R3: the Sandbox's creation where neither the container nor the Pod says when it started.
func TestStartTimeFallsBackToTheSandboxsCreation(t *testing.T) {
	o := sandboxed(Observed{Run: standingRun(), Now: now, Pod: podWith(func(p *corev1.Pod) { p.Status.ContainerStatuses, p.Status.StartTime = nil, nil })})
	assert.Equal(t, begin.Add(-time.Minute), Status(o).StartTime.Time)
	o = sandboxed(Observed{Run: standingRun(), Now: now, Pod: livePod()})
	assert.Equal(t, begin, Status(o).StartTime.Time)
	gone := Observed{Run: waitsForPod(), Now: now, Gone: true, Sandbox: theSandbox(waitsForPod(), double.Conditions(podWith(fails), nil, nil)...)}
	assert.Equal(t, begin.Add(-time.Minute), Status(gone).StartTime.Time)
}

// One run never has two Pods: its Sandbox ends before it makes another (R9, R13).
func TestDecideAboutASandbox(t *testing.T) {
	alive := sandboxed(Observed{Run: runWith(seen), Pod: livePod()})
	with := func(change func(o *Observed)) Observed {
		o := alive
		o.Run, o.Pod, o.Sandbox = o.Run.DeepCopy(), o.Pod.DeepCopy(), alive.Sandbox
		change(&o)
		return o
	}
	ended := func(o *Observed) { o.Run.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now)) }
	for name, c := range map[string]struct {
		o    Observed
		want action
	}{
		"new": {sandboxed(Observed{Run: standingRun()}), actionMake},
		"a foreign Sandbox": {with(func(o *Observed) {
			o.Run, o.Pod, o.Sandbox = waitsForPod(func(r *v1alpha1.AgentRun) { r.Status.PodName = "" }), nil, &sandbox.Sandbox{}
		}), actionMake},
		"made, not in the status yet":  {with(func(o *Observed) { o.Run.Status = v1alpha1.AgentRunStatus{}; o.Pod = nil }), actionNone},
		"made, no Pod yet":             {Observed{Run: waitsForPod(), Sandbox: theSandbox(waitsForPod())}, actionNone},
		"made, and nobody looked live": {Observed{Run: waitsForPod()}, actionNone},
		"made, and deleted by another": {Observed{Run: waitsForPod(), Gone: true}, actionNone},
		"alive":                        {alive, actionNone},
		"its Pod terminates":           {with(func(o *Observed) { o.Pod.DeletionTimestamp = &metav1.Time{Time: now} }), actionEnd},
		"its Pod is back as another":   {with(func(o *Observed) { o.Pod.UID = "another" }), actionEnd},
		"its Pod is gone":              {with(func(o *Observed) { o.Pod, o.Gone = nil, true }), actionEnd},
		"its Pod is not in the cache":  {with(func(o *Observed) { o.Pod = nil }), actionNone},
		"its Sandbox is gone":          {with(func(o *Observed) { o.Sandbox = nil }), actionEnd},
		"being deleted already": {with(func(o *Observed) {
			o.Sandbox = theSandbox(o.Run)
			o.Sandbox.DeletionTimestamp = &metav1.Time{Time: now}
			o.Pod.DeletionTimestamp = &metav1.Time{Time: now}
		}), actionNone},
		"cancelled while pending":      {Observed{Run: waitsForPod(cancelled), Sandbox: theSandbox(waitsForPod())}, actionEnd},
		"cancelled, Sandbox foreign":   {Observed{Run: waitsForPod(cancelled), Sandbox: &sandbox.Sandbox{}}, actionNone},
		"ended, its Pod ended, too":    {with(func(o *Observed) { ended(o); fails(o.Pod) }), actionEnd},
		"ended, its Sandbox is gone":   {with(func(o *Observed) { ended(o); fails(o.Pod); o.Sandbox = nil }), actionNone},
		"not admitted":                 {sandboxed(Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.OwnerReferences = nil })}), actionNone},
		"its Sandbox is another run's": {with(func(o *Observed) { o.Sandbox = &sandbox.Sandbox{} }), actionEnd},
	} {
		assert.Equal(t, c.want, decide(c.o), name)
	}
}

// What the cache does not have is asked of the API server only where it decides something.
func TestUnsure(t *testing.T) {
	pinned := runWith(seen)
	pinned.Spec.Backend = v1alpha1.BackendSandbox
	for name, c := range map[string]struct {
		o    Observed
		want bool
	}{
		"new":                      {sandboxed(Observed{Run: standingRun()}), false},
		"alive":                    {sandboxed(Observed{Run: runWith(seen), Pod: livePod()}), false},
		"no Pod yet":               {Observed{Run: waitsForPod(), Sandbox: theSandbox(waitsForPod())}, false},
		"the Sandbox is missing":   {Observed{Run: waitsForPod()}, true},
		"the Pod is missing":       {Observed{Run: pinned, Sandbox: theSandbox(waitsForPod())}, true},
		"Finished without a Pod":   {Observed{Run: waitsForPod(), Sandbox: theSandbox(waitsForPod(), double.Conditions(podWith(fails), nil, nil)...)}, true},
		"cancelled, nothing there": {Observed{Run: waitsForPod(cancelled)}, true},
	} {
		assert.Equal(t, c.want, c.o.unsure(), name)
	}
}
