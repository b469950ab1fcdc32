//go:build faults

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 39: the Agent's template changes while a run is at work, one is queued in the same harness and one waits. The old Pod ends what it
// has; what waited goes to the new one. What comes then waits for the new one, too, when that is full and the old one has room.
func TestRow39_RecastWithWorkAtHand(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	old := w.Ready("reviewer", 1)[0]
	goal, open := held(t)
	running := w.Run("reviewer", goal)
	begun(t, w, running)
	second, openSecond := held(t)
	queued := w.Run("reviewer", second)
	w.Await(queued, hearthv1.ReasonQueued)
	waits := w.Run("reviewer", "say: waited")
	w.Await(waits, hearthv1.ReasonTargetBusy)
	change(t, w, "reviewer", variable("CHANGED", "1"))
	got := w.Ended(waits)
	once(t, w, got)
	assert.NotEqual(t, old.UID, got.Status.PodUID)
	third, openThird := held(t)
	busy := w.Run("reviewer", third)
	begun(t, w, busy)
	behind := w.Run("reviewer", "say: behind it")
	w.Await(behind, hearthv1.ReasonQueued)
	late := w.Run("reviewer", "say: late")
	w.Await(late, hearthv1.ReasonTargetBusy)
	open()
	begun(t, w, queued)
	latest := w.Run("reviewer", "say: latest") // when it is told that all are busy, the one before it was considered, too
	w.Await(latest, hearthv1.ReasonTargetBusy)
	assert.Empty(t, w.Get(late).Status.PodUID, "the old one has room, and gets nothing")
	openSecond()
	openThird()
	for _, run := range []*hearthv1.AgentRun{running, queued, busy, behind, late, latest} {
		got := w.Ended(run)
		once(t, w, got)
		assert.Equal(t, run == running || run == queued, old.UID == got.Status.PodUID, run.Name)
	}
	w.Eventually("the old one goes", old.Gone)
}

// Row 39, without the time for it: what is at work is cancelled by the drain, and says so; what had not begun goes to the new one, and no
// loss is counted.
func TestRow39_RecastThatDoesNotWait(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1), func(a *hearthv1.Agent) {
		a.Spec.DrainTimeoutSeconds = ptr.To[int64](1)
		a.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](36) // one second to drain
	})
	old := w.Ready("reviewer", 1)[0]
	running := w.Run("reviewer", endless)
	begun(t, w, running)
	queued := w.Run("reviewer", "say: queued")
	w.Await(queued, hearthv1.ReasonQueued)
	change(t, w, "reviewer", variable("CHANGED", "1"))
	got := w.Ended(running)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason)
	assert.Contains(t, got.Status.Message, "the harness was drained before the run ended")
	got = w.Ended(queued)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase, "%s: %s", got.Status.Reason, got.Status.Message)
	assert.NotEqual(t, old.UID, got.Status.PodUID)
	assert.Zero(t, got.Status.Delivery.Losses)
	assert.Len(t, w.EffectsOf(queued), 1)
	w.Eventually("the old one goes", old.Gone)
}

// Row 39: the run is reserved and nothing was sent when the controller is killed and the Agent changes. The next controller has it done once,
// by the Pod that it is reserved for: an assignment under way is waited for, and that one goes afterwards.
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
	got := w.Await(run, succeeded)
	once(t, w, got)
	assert.Equal(t, []types.UID{old.UID, old.UID}, []types.UID{got.Status.PodUID, got.Status.Delivery.PodUID})
	for _, e := range w.EffectsOf(run) {
		assert.Equal(t, old.UID, e.PodUID)
	}
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
	run := w.Run("reviewer", goal)
	w.Await(run, hearthv1.ReasonRunning)
	queued := w.Run("reviewer", "say: by the next")
	w.Await(queued, hearthv1.ReasonQueued)
	pod.Delete(90 * time.Second)
	// The harness has begun to drain and has given back what waited; what would be cancelled then, is cancelled by now.
	w.Eventually("what waited to be given back", func() bool { return w.Get(queued).Status.PodUID != pod.UID })
	release()
	got := w.Await(run, succeeded)
	assert.Equal(t, "released", got.Status.Output.Value)
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
