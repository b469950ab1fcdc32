//go:build faults

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 39: the Agent changes while one run works, one waits in the harness and one waits for a target. All three are done, each once; what
// worked finishes where it was, and what had no target goes to the new Pod.
func TestRow39_RecastWhileRunsAreRunningQueuedAndWaiting(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	old := w.Ready("reviewer", 1)[0]
	goal, release := held(t)
	runs := w.Run("reviewer", goal+" ;; say: finished")
	w.Await(runs, hearthv1.ReasonRunning)
	queued := w.Run("reviewer", "say: it was queued")
	w.Await(queued, hearthv1.ReasonQueued)
	waits := w.Run("reviewer", "say: it waited")
	w.Await(waits, hearthv1.ReasonTargetBusy)
	change(t, w, "reviewer", variable("AGENT_NAME", "another"))
	release()
	assert.Equal(t, old.UID, w.Await(runs, succeeded).Status.Delivery.PodUID)
	w.Await(queued, succeeded)
	w.Await(waits, succeeded)
	for _, run := range []*hearthv1.AgentRun{runs, queued, waits} {
		assert.Len(t, w.EffectsOf(run), 1, run.Name)
	}
	w.Eventually("the end of the old Pod", old.Gone)
}

// Row 39: the run is reserved and nothing was sent when the controller is killed and the Agent changes. The next controller does it, once.
func TestRow39_RecastWhileARunIsReserved(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	old := w.Ready("reviewer", 1)[0]
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: done")
	hold.Wait().Kill()
	change(t, w, "reviewer", variable("AGENT_NAME", "another"))
	w.Controller()
	w.Await(run, succeeded)
	assert.Len(t, w.EffectsOf(run), 1)
	w.Eventually("the end of the old Pod", old.Gone)
	works(t, w, "reviewer")
}

// Row 38: the Pod is deleted while it works and holds one more. What needs less than the grace period is handed over; what waited is done by
// the next Pod.
func TestRow38_ADrainThatIsLongEnough(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	pod := w.Ready("reviewer", 1)[0]
	goal, release := held(t)
	run := w.Run("reviewer", goal+" ;; say: handed over")
	w.Await(run, hearthv1.ReasonRunning)
	queued := w.Run("reviewer", "say: by the next")
	w.Await(queued, hearthv1.ReasonQueued)
	pod.Delete(90 * time.Second)
	w.Eventually("the beginning of the drain", func() bool { return pod.Object().DeletionTimestamp != nil })
	release()
	got := w.Await(run, succeeded)
	assert.Contains(t, got.Status.Output.Value, "handed over")
	assert.Equal(t, pod.UID, got.Status.Delivery.PodUID)
	assert.NotEqual(t, pod.UID, w.Await(queued, succeeded).Status.Delivery.PodUID)
	assert.Len(t, w.EffectsOf(run), 1)
	assert.Len(t, w.EffectsOf(queued), 1)
}

// Row 38: what needs more than the grace period is cancelled by the drain, and the record says so.
func TestRow38_ADrainThatIsTooShort(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", func(a *hearthv1.Agent) {
		a.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](38)
	})
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", endless)
	w.Await(run, hearthv1.ReasonRunning)
	pod.Delete(38 * time.Second)
	got := w.Ended(run)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason)
	assert.NotEmpty(t, got.Status.Message)
	assert.Equal(t, "Cancelled", got.Status.Outcome, "handed over by the harness, not concluded from its silence")
	works(t, w, "reviewer")
	assert.Len(t, w.EffectsOf(run), 1)
}
