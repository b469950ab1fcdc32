package deliver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/test/harness"
)

// agentStatus is what the Agent's own reconciler would write.
func (w *world) agentStatus(status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	w.agent.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentConditionReady, Status: status, Reason: reason, Message: "says the Agent", LastTransitionTime: metav1.Now()}}
	require.NoError(w.t, w.kube.Status().Update(w.t.Context(), w.agent))
}

func (w *world) scale(replicas int32) {
	w.t.Helper()
	w.agent.Spec.Replicas = ptr.To(replicas)
	require.NoError(w.t, w.kube.Update(w.t.Context(), w.agent))
}

// R28, with real objects: one run's wait, from an Agent that is scaled to zero to the one that does the work. Each reason is one write.
func TestARunSaysWhatItWaitsForAtEachMoment(t *testing.T) {
	w := newWorld(t)
	w.scale(0)
	x := w.placeholder("reviewer-1")
	x.run.Status.CordonedAt = ptr.To(metav1.NowMicro())
	require.NoError(t, w.kube.Status().Update(t.Context(), x.run))
	p := w.controllerAt(func() time.Time { return time.Now().Add(delivery.WriteBusyAfter) })
	run := w.deliver("work", goal)
	w.reasonIs(run, hearthv1.ReasonWaitingForService) // nothing replaces what is scaled away
	w.scale(1)
	w.reasonIs(run, hearthv1.ReasonServiceRecasting)
	x.run.Status.CordonedAt = nil
	require.NoError(t, w.kube.Status().Update(t.Context(), x.run))
	w.reasonIs(run, hearthv1.ReasonTargetNotReady)
	x.ready() // and nobody is at its address
	w.reasonIs(run, hearthv1.ReasonTargetUnreachable)
	x.cordon()
	w.reasonIs(run, hearthv1.ReasonServiceRecasting) // why the target is no target counts, not whether it could be reached
	require.NoError(t, w.kube.Delete(t.Context(), x.run))
	require.NoError(t, w.kube.Delete(t.Context(), x.pod, kube.GracePeriodSeconds(0)))
	w.agentStatus(metav1.ConditionFalse, hearthv1.ReasonNoStandingRun)
	w.reasonIs(run, hearthv1.ReasonWaitingForService)
	w.agentStatus(metav1.ConditionFalse, hearthv1.ReasonRecasting)
	w.reasonIs(run, hearthv1.ReasonServiceRecasting)

	y := w.standing("reviewer-2", harness.Options{})
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(run).Status.Phase)
	busy, queued, full := w.deliver("busy", harness.HoldPrefix+goal), w.deliver("queued", harness.HoldPrefix+goal), w.deliver("full", goal)
	w.until(full, "refused or run", func(r *hearthv1.AgentRun) bool {
		reasons := map[string]int{}
		for _, each := range []*hearthv1.AgentRun{busy, queued, full} {
			now, err := w.get(each)
			require.NoError(t, err)
			reasons[reason(now)]++
		}
		return reasons[hearthv1.ReasonRunning] == 1 && reasons[hearthv1.ReasonQueued] == 1 && reasons[hearthv1.ReasonTargetBusy] == 1 || r.Status.CompletionTime != nil
	})
	for _, each := range []*hearthv1.AgentRun{busy, queued} {
		y.harness.Runner.Release(string(each.UID))
	}
	for _, each := range []*hearthv1.AgentRun{busy, queued, full} {
		assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(each).Status.Phase)
	}
	last := ""
	for _, reason := range p.written("work") {
		assert.NotEqual(t, last, reason, "one write a reason")
		last = reason
	}
}

// Row 50: an Agent that was deleted and made again under its name does not inherit what waited for the old one, whether a controller saw it
// happen or not. What is asked of the new one goes on.
func TestANewAgentOfThatNameInheritsNoWaitingRuns(t *testing.T) {
	for name, watched := range map[string]bool{"a controller saw it": true, "no controller ran": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if watched {
				w.controller()
			}
			old := w.deliver("old", goal)
			if watched {
				w.reasonIs(old, hearthv1.ReasonWaitingForService)
			}
			require.NoError(t, w.kube.Delete(t.Context(), w.agent))
			w.agent = &hearthv1.Agent{ObjectMeta: metav1.ObjectMeta{Name: w.agent.Name, Namespace: w.ns}, Spec: w.agent.Spec}
			require.NoError(t, w.kube.Create(t.Context(), w.agent))
			require.NotEqual(t, old.Spec.AgentRef.UID, w.agent.UID)
			x := w.standing("reviewer-1", harness.Options{})
			if !watched {
				w.controller()
			}
			got := w.ended(old)
			assert.Equal(t, hearthv1.ReasonAgentNotFound, got.Status.Reason)
			assert.Equal(t, hearthv1.PhaseFailed, got.Status.Phase)
			fresh := w.deliver("fresh", goal)
			assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(fresh).Status.Phase)
			assert.Equal(t, 0, effects(old, x), "it was started nowhere")
			assert.Equal(t, 1, effects(fresh, x))
		})
	}
}

// R32: a record stays as it was written when its Pod, its standing run and its Agent are gone, for a controller that comes later too.
func TestARecordOutlivesItsAgentAndItsPod(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	first := w.controller()
	run := w.deliver("work", goal)
	record := w.ended(run)
	assert.Empty(t, record.OwnerReferences, "the garbage collector has no reason to take it")
	assert.Empty(t, record.Finalizers)
	waiting := w.deliver("held", harness.HoldPrefix+goal)
	w.reasonIs(waiting, hearthv1.ReasonRunning)
	require.NoError(t, w.kube.Delete(t.Context(), w.agent))
	require.NoError(t, w.kube.Delete(t.Context(), x.run))
	x.remove()
	assert.Equal(t, hearthv1.ReasonTargetLost, w.ended(waiting).Status.Reason, "all of it was noticed")
	first.stop()
	w.controller()
	after := w.deliver("after", goal)
	assert.Equal(t, hearthv1.ReasonAgentNotFound, w.ended(after).Status.Reason, "the next controller has looked")
	now, err := w.get(run)
	require.NoError(t, err)
	assert.Equal(t, record.Status, now.Status)
	assert.Equal(t, record.Spec, now.Spec)
	assert.True(t, apierrors.IsNotFound(w.kube.Get(t.Context(), kube.ObjectKeyFromObject(x.pod), x.pod)))
}

// R28: without a controller nothing happens at all, and the time that went by counts: what is over when one comes is not started any more.
func TestTheTimeWithoutAControllerIsWaitingTime(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	short := w.deliver("short", goal, func(r *hearthv1.AgentRun) { r.Spec.StartingDeadlineSeconds = ptr.To[int64](60) })
	long := w.deliver("long", goal)
	for _, run := range []*hearthv1.AgentRun{short, long} {
		now, err := w.get(run)
		require.NoError(t, err)
		assert.Empty(t, now.Status, "nobody looked at it")
	}
	w.controllerAt(func() time.Time { return time.Now().Add(2 * time.Minute) })
	got := w.ended(short)
	assert.Equal(t, hearthv1.ReasonStartingDeadlineExceeded, got.Status.Reason)
	assert.Nil(t, got.Status.StartTime)
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(long).Status.Phase)
	assert.Equal(t, 0, effects(short, x), "though there was room")
	assert.Equal(t, 1, effects(long, x))
}
