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

// Row 54: a leader is frozen between reserving and sending. Another takes the attempt over, it is carried out, recorded and forgotten, and the
// harness restarts; then the first one goes on and sends. It is never carried out again.
func TestRow54_AFrozenLeaderSendsWhatWasRecordedAndForgotten(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: hello")
	hit := hold.Wait()
	frozen := hit.Controller
	frozen.Freeze()
	w.DropLease()
	w.Controller()
	got := w.Ended(run)
	once(t, w, got)
	w.Eventually("it is told that it is recorded", func() bool { return pods[0].Reached(crashpoint.AfterWrite("recorded")) > 0 })
	pods[0].Kill()
	w.Eventually("the harness is back", func() bool { return pods[0].Restarts() == 1 && pods[0].Ready() })
	hit.Go()
	frozen.Thaw()
	works(t, w, "reviewer")
	frozen.Wait() // it finds that it leads no more
	once(t, w, w.Get(run))
	assert.Equal(t, got.Status, w.Get(run).Status)
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
