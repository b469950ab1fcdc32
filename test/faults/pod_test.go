//go:build faults

package faults_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Somebody else answers at the Pod's address as the Pod would, in the middle of a run and for new ones, and says of both that they failed. Over
// TLS it hears nothing, as its key is another one; where plain HTTP is spoken it hears a challenge. It is not believed: the running one goes on,
// the new one waits and says so, and both are recorded once the Pod is back.
func TestRow27_AStrangerAtTheAddressHearsNothingAndIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, scheme := range []hearthv1.DeliveryScheme{hearthv1.DeliveryHTTPS, hearthv1.DeliveryHTTP} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			w.Controller()
			w.Agent("reviewer", func(a *hearthv1.Agent) { a.Spec.Runtime.Delivery.Scheme = scheme })
			pod := w.Ready("reviewer", 1)[0]
			home := net.JoinHostPort(pod.IP, "14100")
			goal, open := held(t)
			running := w.Run("reviewer", goal)
			stranger := newStranger(t, pod, w.Await(running, hearthv1.ReasonRunning), scheme)

			pod.Proxy.Retarget(stranger.addr)
			pod.Proxy.Cut()
			waiting := w.Run("reviewer", "say: second-goal")
			w.Await(waiting, hearthv1.ReasonTargetUnreachable)
			open()
			assert.Nil(t, w.Get(running).Status.CompletionTime)
			assert.NotZero(t, stranger.met.Load())
			heard := stranger.heard()
			assert.Equal(t, scheme == hearthv1.DeliveryHTTP, strings.Contains(heard, wire.ChallengePath))
			assert.Equal(t, scheme == hearthv1.DeliveryHTTPS, heard == "", "nothing is said before its key is known: %q", heard)
			for _, word := range []string{"second-goal", wire.RunsPath, "token"} {
				assert.NotContains(t, heard, word)
			}
			pod.Proxy.Retarget(home)
			pod.Proxy.Cut()
			for _, run := range []*hearthv1.AgentRun{running, waiting} {
				w.Await(run, succeeded)
				assert.Len(t, w.EffectsOf(run), 1)
			}
		})
	}
}

// The Pod is evicted in the middle of a run: its object is still there, Failed. The run ends with that, not with its deadline.
func TestRow47_AnEvictedPodsRunIsLostAtOnce(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", "mute:")
	w.Await(run, hearthv1.ReasonRunning)
	from := time.Now()
	pod.Evict()
	got := w.Await(run, "TargetLost")
	assert.Less(t, time.Since(from), 30*time.Second)
	assert.Equal(t, pod.UID, got.Status.Delivery.PodUID)
	assert.Len(t, w.EffectsOf(run), 1)
	next := w.Await(w.Run("reviewer", "say: next"), "Succeeded")
	assert.NotEqual(t, pod.UID, next.Status.Delivery.PodUID)
}
