//go:build faults

package faults_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

func TestRow01_KilledBeforeTheReservation(t *testing.T) {
	t.Parallel()
	w, _, _ := reviewers(t, 1, rig.Options{})
	hold := w.Hold(crashpoint.BeforeReserve)
	run := w.Run("reviewer", "say: hello")
	hold.Wait().Kill()
	assert.Nil(t, w.Get(run).Status.Delivery)
	w.Controller()
	once(t, w, w.Ended(run))
}

func TestRow02_KilledAfterTheReservation(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 2, rig.Options{})
	before, hold := w.Hold(crashpoint.BeforeReserve), w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: hello")
	hit := before.Wait()
	w.API.HoldWatches("agentruns") // or who hears of the reservation sends it
	hit.Go()
	hit = hold.Wait()
	reserved := w.Until(run, "its reservation", func(r *hearthv1.AgentRun) bool { return r.Status.Delivery != nil })
	hit.Kill()
	w.API.ReleaseWatches()
	assert.Zero(t, pods[0].Reached(crashpoint.BeforeReply("deliver"))+pods[1].Reached(crashpoint.BeforeReply("deliver")), "nothing was sent")
	w.Controller()
	got := w.Ended(run)
	once(t, w, got)
	assert.Equal(t, reserved.Status.Delivery.PodUID, got.Status.Delivery.PodUID, "the same Pod")
}

func TestRow03_KilledAfterTheBytesLeft(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	hold := w.Hold(crashpoint.AfterBytesSent)
	goal, open := held(t)
	run := w.Run("reviewer", goal)
	hold.Wait().Kill()
	assert.Equal(t, 1, pods[0].Reached(crashpoint.AfterWrite("accept")), "the harness has it")
	assert.NotEqual(t, hearthv1.PhaseRunning, w.Get(run).Status.Phase, "it was not told")
	w.Controller()
	w.Await(run, hearthv1.ReasonRunning)
	open()
	once(t, w, w.Ended(run))
	assert.Equal(t, 1, pods[0].Reached(crashpoint.AfterWrite("accept")), "a known attempt is not accepted again")
}

// What the next controller finds may have been sent, so it goes nowhere else while its Pod cannot be asked.
func TestRow03_KilledAfterTheBytesLeftAndItsPodIsOutOfReach(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 2, rig.Options{})
	hold := w.Hold(crashpoint.AfterBytesSent)
	goal, open := held(t)
	run := w.Run("reviewer", goal)
	hold.Wait().Kill()
	reserved := w.Get(run).Status.Delivery
	for _, p := range pods {
		if p.UID == reserved.PodUID {
			p.Proxy.Set(netfault.Refuse)
			defer p.Proxy.Heal()
		}
	}
	w.Controller()
	w.Await(run, hearthv1.ReasonTargetUnreachable)
	open()
	for _, p := range pods {
		p.Proxy.Heal()
	}
	got := w.Ended(run)
	once(t, w, got)
	assert.Equal(t, reserved.PodUID, got.Status.Delivery.PodUID)
}

func TestRow04_KilledAfterTheAcceptWasTold(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	hold := w.Hold(crashpoint.AfterAccepted)
	goal, open := held(t)
	run := w.Run("reviewer", goal)
	hold.Wait().Kill()
	w.Controller()
	w.Await(run, hearthv1.ReasonRunning)
	open()
	once(t, w, w.Ended(run))
	assert.Equal(t, 1, pods[0].Reached(crashpoint.AfterWrite("accept")))
}

// Row 5 for ten minutes is a matter of clocks; here the whole work is done while nobody is there.
func TestRow05_NoControllerWhileItRuns(t *testing.T) {
	t.Parallel()
	w, c, pods := reviewers(t, 1, rig.Options{})
	goal, open := held(t)
	run := w.Run("reviewer", goal)
	w.Await(run, hearthv1.ReasonRunning)
	c.Kill()
	open()
	w.Eventually("the result on disk", func() bool { return pods[0].Reached(crashpoint.AfterWrite("finish")) == 1 })
	assert.Equal(t, hearthv1.PhaseRunning, w.Get(run).Status.Phase)
	w.Controller()
	got := w.Ended(run)
	once(t, w, got)
	assert.Equal(t, "released", got.Status.Output.Value)
}

func TestRow06_KilledBetweenResultAndRecord(t *testing.T) {
	t.Parallel()
	for _, point := range []crashpoint.Point{crashpoint.AfterResult, crashpoint.AfterTerminal} {
		t.Run(filepath.Base(string(point)), func(t *testing.T) {
			t.Parallel()
			w, _, pods := reviewers(t, 1, rig.Options{})
			hold := w.Hold(point)
			run := w.Run("reviewer", "say: hello")
			hold.Wait().Kill()
			assert.Equal(t, point == crashpoint.AfterTerminal, w.Get(run).Status.CompletionTime != nil)
			w.Controller()
			once(t, w, w.Ended(run))
			w.Eventually("the harness to be told", func() bool { return pods[0].Reached(crashpoint.AfterWrite("recorded")) == 1 })
		})
	}
}

func TestRow07_TwoControllersAtOnce(t *testing.T) {
	t.Parallel()
	const runs = 24
	w := rig.New(t, rig.Options{})
	w.Controller("--leader-elect=false")
	w.Controller("--leader-elect=false")
	w.Agent("reviewer", func(a *hearthv1.Agent) {
		two, queue := int32(2), int32(runs)
		a.Spec.Replicas, a.Spec.Runtime.Delivery.Queue = &two, &queue
	})
	w.Ready("reviewer", 2)
	var all []*hearthv1.AgentRun
	for range runs {
		all = append(all, w.Run("reviewer", "say: hello"))
	}
	for _, run := range all {
		once(t, w, w.Ended(run))
	}
}

// frozenAt stops the leader at a point, lets another lead for as long as it takes, and then lets the first go on as if nothing had been.
func frozenAt(t *testing.T, point crashpoint.Point) {
	t.Helper()
	w, first, _ := reviewers(t, 1, rig.Options{KeepLease: true})
	w.Controller()
	hold := w.Hold(point)
	run := w.Run("reviewer", "say: hello")
	hit := hold.Wait()
	require.Same(t, first, hit.Controller, "who leads is who does it")
	frozen := time.Now()
	first.Freeze()
	once(t, w, w.Ended(run))
	assert.Greater(t, time.Since(frozen), 10*time.Second, "another one leads only when the lease has run out")
	record := w.Get(run)
	hit.Go()
	first.Thaw()
	first.Wait()
	assert.Contains(t, first.Log(), "leader election lost")
	assert.Equal(t, record.Status, w.Get(run).Status)
	once(t, w, w.Get(run))
}

func TestRow08_TheLeaderIsFrozenLongerThanItsLease(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, point := range []crashpoint.Point{crashpoint.BeforeReserve, crashpoint.AfterReserve, crashpoint.AfterAccepted, crashpoint.AfterResult} {
		t.Run(filepath.Base(string(point)), func(t *testing.T) {
			t.Parallel()
			frozenAt(t, point)
		})
	}
}
