//go:build faults

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 54: a controller stands between its reservation and its send while another one delivers the same attempt, records it, and the harness
// is restarted. Then the first one goes on and sends. The attempt is never run again, and the record stays.
func TestRow54_SentAgainAfterItWasRecorded(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller("--leader-elect=false")
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: once")
	hit := hold.Wait()
	w.Controller("--leader-elect=false")
	record := w.Await(run, succeeded)
	w.Eventually("that the harness was told", func() bool { return w.Reached(crashpoint.AfterRecorded) > 0 })
	pod.Kill()
	w.Eventually("the harness's return", func() bool { return pod.Restarts() > 0 && pod.Ready() })
	hit.Go()
	works(t, w, "reviewer")
	works(t, w, "reviewer")
	assert.Len(t, w.EffectsOf(run), 1)
	assert.Equal(t, record.Status, w.Get(run).Status)
}

// Row 55: the harness took the attempt and its answer is lost; then the Pod drains, so that it refuses what it does not know. The attempt
// is not given back: it is resolved on the same Pod, as what had been taken.
func TestRow55_TheAnswerIsLostAndThenItDrains(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	hold := pod.Hold(crashpoint.BeforeReply("deliver"))
	run := w.Run("reviewer", "slow: 4 ;; say: taken")
	hit := hold.Wait()
	pod.Proxy.Set(netfault.Refuse)
	pod.Proxy.Cut()
	hit.Go()
	begun(t, w, run)
	pod.Delete(90 * time.Second)
	pod.Proxy.Heal()
	got := w.Await(run, succeeded)
	assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	assert.Equal(t, pod.UID, got.Status.Delivery.PodUID)
	assert.Zero(t, got.Status.Delivery.Losses)
	assert.Len(t, w.EffectsOf(run), 1)
}
