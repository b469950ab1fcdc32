package deliver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// sandboxed makes a standing run whose Pod a Sandbox made, with a harness. Nothing is pinned yet.
func (w *world) sandboxed(name string) *target {
	w.t.Helper()
	w.backend = hearthv1.BackendSandbox
	x := w.placeholder(name)
	w.backend = ""
	x.boot(harness.Options{})
	x.ready()
	return x
}

// pin is what the run controller writes once it has seen the Pod.
func (x *target) pin() {
	x.w.t.Helper()
	require.NoError(x.w.t, x.w.kube.Get(x.w.t.Context(), kube.ObjectKeyFromObject(x.run), x.run))
	x.run.Status.PodName, x.run.Status.PodUID = x.pod.Name, x.pod.UID
	require.NoError(x.w.t, x.w.kube.Status().Update(x.w.t.Context(), x.run))
}

// R13: the Pod of a Sandbox is a target from when its run's status pins it, and its Link opens then.
func TestAPodOfASandboxIsATargetOnceItIsPinned(t *testing.T) {
	w := newWorld(t)
	x := w.sandboxed("reviewer-1")
	w.controller()
	run := w.deliver("run", goal)
	w.reasonIs(run, hearthv1.ReasonTargetNotReady)
	assert.Empty(t, x.harness.Runner.Started())
	x.pin()
	got := w.ended(run)
	assert.Equal(t, []any{hearthv1.PhaseSucceeded, x.pod.UID}, []any{got.Status.Phase, got.Status.PodUID})
}

// Row 23, R13: a Sandbox's Pod comes back by itself, under the same name and at the same IP, while work is reserved on the old one.
// The run is lost, and the new Pod gets nothing: not what was on the old one, and nothing else before another run pins it.
func TestASandboxsPodThatCameBackGetsNothingOfTheOldOnes(t *testing.T) {
	w := newWorld(t)
	x := w.sandboxed("reviewer-1")
	x.pin()
	w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	x.remove()
	x.makePod()
	x.boot(harness.Options{})
	x.ready()
	assert.Equal(t, hearthv1.ReasonTargetLost, w.ended(run).Status.Reason)
	next := w.deliver("next", goal)
	w.reasonIs(next, hearthv1.ReasonTargetNotReady)
	assert.Empty(t, x.harness.Runner.Started(), "it is no target, and was sent nothing")

	x.run.Status.CompletionTime, x.run.Status.Phase = ptr.To(metav1.NewMicroTime(time.Now())), hearthv1.PhaseFailed
	require.NoError(t, w.kube.Status().Update(t.Context(), x.run))
	y := w.sandboxed("reviewer-2")
	y.pin()
	assert.Equal(t, y.pod.UID, w.ended(next).Status.PodUID)
	assert.Empty(t, x.harness.Runner.Started())
}
