//go:build faults

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// The reply to the POST is dropped, or its connection cut or closed by half: the harness has the attempt. It is looked up, and neither
// sent again nor made into another one.
func TestRow10_ALostReplyIsLookedUpAndNotSentAgain(t *testing.T) {
	for name, lose := range map[string]func(*netfault.Proxy){
		"dropped":        func(p *netfault.Proxy) { p.Set(netfault.DropReplies) },
		"cut":            func(p *netfault.Proxy) { p.Cut() },
		"closed by half": func(p *netfault.Proxy) { p.Set(netfault.HalfClose) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			w.Controller()
			w.Agent("reviewer")
			pod := w.Ready("reviewer", 1)[0]
			hold := pod.Hold(crashpoint.BeforeReply("deliver"))
			run := w.Run("reviewer", "slow: 1 ;; say: done")
			hit := hold.Wait()
			lose(pod.Proxy)
			hit.Go()
			w.Eventually("the reply to be lost", func() bool { return pod.Reached(crashpoint.AfterReply("deliver")) == 1 })
			pod.Proxy.Heal()
			got := w.Await(run, "Succeeded")
			assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
			assert.Len(t, w.EffectsOf(run), 1)
			assert.Equal(t, 1, pod.Reached(crashpoint.BeforeReply("deliver")), "it was asked for, not sent again")
			assert.NotZero(t, pod.Reached(crashpoint.BeforeReply("attempt")))
			assert.Zero(t, w.Reached(crashpoint.AfterAccepted), "no answer to a POST was ever heard")
		})
	}
}

// A delivery that stands still between its reservation and its sending may not be taken for one that was never sent: while it stands its
// target is lost from sight and comes back, and when it goes on at last there is one effect, not one of each of two attempts.
func TestRow13_AReservationWhoseSendingStandsStillGoesNowhereElse(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", func(a *hearthv1.Agent) { a.Spec.Replicas = ptrTo(int32(2)) })
	pods := w.Ready("reviewer", 2)
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: done")
	hit := hold.Wait()
	reserved := w.Get(run)
	pod := pods[0]
	if pods[1].UID == reserved.Status.Delivery.PodUID {
		pod = pods[1]
	}
	challenged := pod.Reached(crashpoint.AfterReply("challenge"))
	pod.Proxy.Set(netfault.Refuse)
	moved := comesTo(3*time.Second, func() bool { return w.Get(run).Status.Delivery.Attempt > 1 || w.Get(run).Status.CompletionTime != nil })
	assert.False(t, moved, "nobody may say that it was not sent")
	pod.Proxy.Heal()
	w.Eventually("the target to be known again", func() bool { return pod.Reached(crashpoint.AfterReply("challenge")) > challenged })
	hit.Go()
	w.Await(run, "Succeeded")
	assert.Len(t, w.EffectsOf(run), 1)
}

// The same for a cancel: what is recorded as cancelled before it was sent is not sent.
func TestRow13_ACancelWaitsForASendingThatStandsStill(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "mute:")
	hit := hold.Wait()
	w.Cancel(run)
	assert.False(t, comesTo(2*time.Second, func() bool { return w.Get(run).Status.CompletionTime != nil }), "nobody may say that it was not sent")
	hit.Go()
	got := w.Await(run, hearthv1.ReasonCancelled)
	assert.Equal(t, 1, pod.Reached(crashpoint.AfterReply("deliver")))
	assert.NotContains(t, got.Status.Message, "before it was sent")
}

// A delivery arrives after its attempt was voided, from a controller that stood still meanwhile: 410, and nothing runs.
func TestRow13_ADeliveryThatComesAfterItsVoidIsRefused(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	frozen := w.Controller("--leader-elect=false")
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: done")
	hit := hold.Wait()
	frozen.Freeze()
	w.Cancel(run)
	w.Controller("--leader-elect=false")
	record := w.Await(run, hearthv1.ReasonCancelled)
	assert.Zero(t, pod.Reached(crashpoint.AfterReply("deliver")))
	assert.NotZero(t, pod.Reached(crashpoint.AfterWrite("void")))
	hit.Go()
	frozen.Thaw()
	w.Eventually("the delivery to arrive", func() bool { return pod.Reached(crashpoint.AfterReply("deliver")) == 1 })
	w.Await(w.Run("reviewer", "say: next"), "Succeeded")
	assert.Empty(t, w.EffectsOf(run))
	assert.Equal(t, record.Status, w.Get(run).Status)
}

// comesTo tells whether a condition came to hold in a time that something must not happen in.
func comesTo(d time.Duration, holds func() bool) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

func ptrTo[T any](v T) *T { return &v }
