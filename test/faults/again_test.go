//go:build faults

package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 54: a controller is frozen between reserving and sending. Another takes the attempt over, it is carried out and recorded, its result is
// dropped or not, and the harness restarts; then the first one goes on, learns of the new boot, and sends. That is neither accepted nor carried
// out again. It has no lease, as a leader that has not noticed yet that it leads no more: with one it would end before it sends.
func TestRow54_AFrozenLeaderSendsWhatWasRecordedAndForgotten(t *testing.T) {
	t.Parallel()
	// Of results that are recorded one is kept, and a mark goes to the disk with the next write: two more and a third's writes drop the first.
	for name, later := range map[string]int{"recorded": 0, "recorded and forgotten": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			frozen := w.Controller("--leader-elect=false")
			w.Agent("reviewer", variable("HEARTH_KEEP", "1"))
			pod := w.Ready("reviewer", 1)[0]
			hold := w.Hold(crashpoint.AfterReserve)
			run := w.Run("reviewer", "say: hello")
			hit := hold.Wait()
			frozen.Freeze()
			w.Controller("--leader-elect=false")
			got := w.Ended(run)
			once(t, w, got)
			w.Eventually("it is told that it is recorded", func() bool { return pod.Reached(crashpoint.AfterWrite("recorded")) > 0 })
			pod.Kill()
			w.Eventually("the harness is back", func() bool { return pod.Restarts() == 1 && pod.Ready() })
			w.Eventually("it is told again, as a mark is lost with its process", func() bool { return pod.Reached(crashpoint.AfterWrite("recorded")) > 1 })
			for range later + 1 {
				works(t, w, "reviewer")
			}
			proofs := func() int { return strings.Count(frozen.Log(), "the Pod proved who it is") }
			before := proofs()
			w.Hold(crashpoint.AfterCancelSeen) // or it may void the attempt, as one of a run that is over, before it sends it
			frozen.Thaw()
			w.Eventually("it knows the new boot", func() bool { return proofs() > before })
			sent, accepts := pod.Reached(crashpoint.BeforeReply("deliver")), pod.Reached(crashpoint.BeforeWrite("accept"))
			hit.Go()
			w.Eventually("it has sent", func() bool { return pod.Reached(crashpoint.BeforeReply("deliver")) > sent })
			assert.Equal(t, accepts, pod.Reached(crashpoint.BeforeWrite("accept")), "a known attempt is not accepted again")
			works(t, w, "reviewer") // behind it, if it were
			once(t, w, w.Get(run))
			assert.Equal(t, got.Status, w.Get(run).Status)
		})
	}
}

// Row 55: the reply to the accept is lost, and when the harness is asked again it drains: a new delivery is refused there. The run stays
// with its Pod, though another one is free.
func TestRow55_TheAcceptsReplyIsLostAndTheHarnessDrains(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 2, rig.Options{})
	before := w.Hold(crashpoint.AfterReserve)
	goal, open := held(t)
	run := w.Run("reviewer", goal)
	reserving := before.Wait()
	reserved := w.Get(run)
	pod := pods[0]
	if pods[1].UID == reserved.Status.Delivery.PodUID {
		pod = pods[1]
	}
	hold := pod.Hold(crashpoint.AfterWrite("accept"))
	reserving.Go()
	hit := hold.Wait()
	pod.Proxy.Set(netfault.Refuse) // the reply finds no way
	hit.Go()
	begun(t, w, run)
	pod.Delete(90 * time.Second)
	w.Eventually("it drains", func() bool { return strings.Contains(pod.Log(), "msg=draining") })
	pod.Proxy.Heal()
	got := w.Await(run, hearthv1.ReasonRunning)
	assert.Equal(t, reserved.Status.Delivery.PodUID, got.Status.PodUID)
	open()
	got = w.Ended(run)
	once(t, w, got)
	assert.Equal(t, reserved.Status.Delivery.PodUID, got.Status.PodUID)
}
