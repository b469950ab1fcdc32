package deliver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// Rows 22 and 46, R45: the Pod goes away while it has the run. Without a backoffLimit the run ends; with one it goes elsewhere.
func TestALostTargetEndsTheRunOrHasItTriedElsewhere(t *testing.T) {
	for name, limit := range map[string]int32{"no second start": 0, "one more attempt": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x := w.standing("reviewer-1", harness.Options{})
			w.controller()
			run := w.deliver("run", harness.HoldPrefix+goal, func(r *hearthv1.AgentRun) { r.Spec.BackoffLimit = ptr.To(limit) })
			w.reasonIs(run, hearthv1.ReasonRunning)
			y := w.standing("reviewer-2", harness.Options{})
			x.remove()
			if limit == 0 {
				got := w.ended(run)
				assert.Equal(t, hearthv1.ReasonTargetLost, got.Status.Reason)
				assert.Equal(t, 0, effects(run, y), "it may have run: it is not started again")
				return
			}
			w.until(run, "on the second Pod", func(r *hearthv1.AgentRun) bool {
				return r.Status.Delivery != nil && r.Status.Delivery.PodUID == y.pod.UID && reason(r) == hearthv1.ReasonRunning
			})
			y.harness.Runner.Release(string(run.UID))
			got := w.ended(run)
			assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
			assert.Equal(t, int64(2), got.Status.Delivery.Attempt)
			assert.Equal(t, int32(1), got.Status.Delivery.Losses)
		})
	}
}

// Row 22, before anything but the reservation was written: that it had been sent is remembered although its Link is closed.
func TestATargetLostRightAfterTheAcceptIsNotTakenForUnsent(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	start := time.Now()
	w.controllerAt(func() time.Time { return start }) // never a second later, so Running is never written
	run := w.deliver("run", harness.HoldPrefix+goal)
	require.True(t, w.eventually(func() bool { return effects(run, x) == 1 }))
	got, err := w.get(run)
	require.NoError(t, err)
	require.Nil(t, got.Status.Delivery.AcceptedAt)
	y := w.standing("reviewer-2", harness.Options{})
	x.remove()
	assert.Equal(t, hearthv1.ReasonTargetLost, w.ended(run).Status.Reason)
	assert.Equal(t, 0, effects(run, y), "it may have run: it is not started again")
}

// Row 47: an evicted Pod (phase Failed, the object still there) is lost at once.
func TestAnEvictedTargetIsLostAtOnce(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	x.harness.Stop()
	x.pod.Status.Phase, x.pod.Status.Reason = corev1.PodFailed, "Evicted"
	require.NoError(t, w.kube.Status().Update(t.Context(), x.pod))
	assert.Equal(t, hearthv1.ReasonTargetLost, w.ended(run).Status.Reason)
}

// Row 51: our label is taken from a live Pod. It vanishes from the cache and is not taken for gone.
func TestAPodWithoutItsLabelIsNotTakenForGone(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	delete(x.pod.Labels, hearthv1.LabelRun)
	require.NoError(t, w.kube.Update(t.Context(), x.pod))
	x.harness.Runner.Release(string(run.UID))
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(run).Status.Phase)
}

// Row 23: another Pod under the same name and at the same IP gets nothing of the old one's.
func TestAReplacedPodGetsNothingOfTheOldOnes(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	x.remove()
	x.makePod()
	x.boot(harness.Options{})
	x.ready()
	assert.Equal(t, hearthv1.ReasonTargetLost, w.ended(run).Status.Reason)
	assert.Empty(t, x.harness.Runner.Started())
	next := w.deliver("next", goal)
	assert.Equal(t, x.pod.UID, w.ended(next).Status.PodUID, "the new Pod has a Link of its own")
}

// Row 18: the journal is lost while it has the run: what happened is not known, and silence is not taken for "never accepted".
func TestALostJournalIsNotTakenForNeverAccepted(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	x.harness.Stop()
	x.harness.LoseJournal()
	x.harness.Boot()
	assert.Equal(t, hearthv1.ReasonOutcomeUnknown, w.ended(run).Status.Reason)
	assert.Equal(t, 1, effects(run, x))
}

// Row 16: the harness is killed while it runs: Interrupted, and no second start.
func TestAHarnessKilledWhileRunningIsInterrupted(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	x.harness.Stop()
	x.harness.Boot()
	got := w.ended(run)
	assert.Equal(t, hearthv1.ReasonInterrupted, got.Status.Reason)
	assert.Equal(t, 1, effects(run, x))
}
