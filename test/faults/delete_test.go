//go:build faults

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// how is what becomes of the controller around a delete.
type how string

const (
	up        how = "controller up"
	down      how = "controller down"
	restarted how = "restarted between"
)

// Row 31, I4: wherever a run is, and whatever the controller does meanwhile, a delete returns at once and the object is gone; what the
// agent does for it ends, so that its room is free for the next run; and the next run is not touched.
func TestRow31_DeletedAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, h := range []how{up, down, restarted} {
		t.Run(string(h), func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			c := w.Controller()
			w.Agent("idle", func(a *hearthv1.Agent) { a.Spec.Replicas = ptr.To[int32](0) })
			w.Agent("reviewer", room(1, 1))
			w.Ready("reviewer", 1)

			waits := w.Run("idle", "say: never")
			w.Await(waits, hearthv1.ReasonWaitingForService)
			c = around(w, c, h, nil, func() { gone(t, w, waits) })
			assert.Empty(t, w.EffectsOf(waits))

			hold := w.Hold(crashpoint.AfterReserve)
			reserved := w.Run("reviewer", endless)
			c = around(w, c, h, hold.Wait(), func() { gone(t, w, reserved) })
			works(t, w, "reviewer")

			runs := w.Run("reviewer", endless)
			w.Await(runs, hearthv1.ReasonRunning)
			c = around(w, c, h, nil, func() { gone(t, w, runs) })
			works(t, w, "reviewer")

			hold = w.Hold(crashpoint.AfterResult)
			finished := w.Run("reviewer", "say: done")
			around(w, c, h, hold.Wait(), func() { gone(t, w, finished) })
			works(t, w, "reviewer")
			atMostOnce(t, w, waits, reserved, runs, finished)
		})
	}
}

// around deletes while the controller is up, down, or killed before it has done anything about it; hit is where it stands, if it does.
func around(w *rig.World, c *rig.Controller, h how, hit *rig.Hit, remove func()) *rig.Controller {
	switch h {
	case down:
		c.Kill()
		remove()
		return w.Controller()
	case restarted:
		remove()
		c.Kill()
		return w.Controller()
	default:
		remove()
		if hit != nil {
			hit.Go()
		}
		return c
	}
}

// gone deletes a run; the answer comes at once and the object is gone with it.
func gone(t *testing.T, w *rig.World, run *hearthv1.AgentRun) {
	t.Helper()
	start := time.Now()
	w.Delete(run)
	assert.Nil(t, w.Get(run), "no finalizer holds it")
	assert.Less(t, time.Since(start), 10*time.Second)
}

// Row 32: the same name again, while the old work still runs and no controller is there. The old one's result lands nowhere, its work is
// stopped, and the new one's is done.
func TestRow32_TheSameNameAgain(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	c := w.Controller()
	w.Agent("reviewer", room(2, 1))
	w.Ready("reviewer", 1)
	same := func(r *hearthv1.AgentRun) { r.Name = "same" }
	goal, release := held(t)
	defer release()
	old := w.Run("reviewer", "say: the old result ;; "+goal, same)
	w.Await(old, hearthv1.ReasonRunning)
	c.Kill()
	w.Delete(old)
	fresh := w.Run("reviewer", "say: the new result", same)
	require.NotEqual(t, old.UID, fresh.UID)
	w.Controller()
	assert.Equal(t, "the new result", w.Await(fresh, succeeded).Status.Output.Value)
	atMostOnce(t, w, old, fresh)
	works(t, w, "reviewer")
}

// Row 53: the harness is down, and a run that waits in it is deleted. When it is back the run is voided, or stopped if it had started.
func TestRow53_DeletedWhileTheHarnessIsDown(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	pod := w.Ready("reviewer", 1)[0]
	first := w.Run("reviewer", endless)
	w.Await(first, hearthv1.ReasonRunning)
	waits := w.Run("reviewer", endless)
	w.Await(waits, hearthv1.ReasonQueued)
	pod.StayDown()
	w.Delete(waits)
	pod.Up()
	w.Await(first, hearthv1.ReasonInterrupted)
	works(t, w, "reviewer")
	atMostOnce(t, w, first, waits)
}

// Row 53: nobody is there to void it. What waited in the harness past its starting deadline is not started by the harness that comes back.
func TestRow53_TooLateToStartWithoutAController(t *testing.T) {
	t.Parallel()
	const toStart = 20 * time.Second // time for a run to come into the harness on a slow machine, too
	w := rig.New(t, rig.Options{})
	c := w.Controller()
	w.Agent("reviewer", room(1, 1), func(a *hearthv1.Agent) { a.Spec.StartingDeadlineSeconds = int64(toStart.Seconds()) })
	pod := w.Ready("reviewer", 1)[0]
	first := w.Run("reviewer", endless)
	w.Await(first, hearthv1.ReasonRunning)
	waits := w.Run("reviewer", "say: too late")
	w.Await(waits, hearthv1.ReasonQueued)
	c.Kill()
	pod.StayDown()
	w.Eventually("the end of the starting deadline", func() bool { return time.Since(waits.CreationTimestamp.Time) > toStart+2*time.Second })
	pod.Up()
	w.Eventually("the harness's return", func() bool { return pod.Restarts() > 0 && pod.Ready() })
	w.Controller()
	assert.Equal(t, hearthv1.ReasonStartingDeadlineExceeded, w.Ended(waits).Status.Reason)
	assert.Empty(t, w.EffectsOf(waits))
	assert.Equal(t, hearthv1.ReasonInterrupted, w.Ended(first).Status.Reason)
}
