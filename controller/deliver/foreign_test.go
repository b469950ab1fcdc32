package deliver_test

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver/room"
	"github.com/hearthdev/hearth/test/harness"
)

// R31: Pods of somebody's own that carry our labels, and one that even claims the run as its owner, are never called, however ready
// they are: a target is the Pod that has the run's name and is the run's.
func TestAPodOfSomebodysOwnIsNoTarget(t *testing.T) {
	w := newWorld(t)
	x := w.placeholder("reviewer-1")
	called := map[string]*atomic.Int32{}
	for name, owners := range map[string][]metav1.OwnerReference{"labelled": nil, "claimed": owned("AgentRun", x.run)} {
		forged := &target{w: w, ip: room.NewIP(), pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns, OwnerReferences: owners,
				Labels: map[string]string{hearthv1.LabelRun: "reviewer-1", hearthv1.LabelAgent: "reviewer"}},
			Spec: template().Spec,
		}}
		called[name] = listenAt(t, forged.address())
		require.NoError(t, w.kube.Create(t.Context(), forged.pod))
		forged.ready()
	}
	w.controller()
	run := w.deliver("work", goal)
	w.reasonIs(run, hearthv1.ReasonTargetNotReady)
	x.boot(harness.Options{})
	x.ready()
	assert.Equal(t, x.pod.UID, w.ended(run).Status.PodUID)
	for name, calls := range called {
		assert.Zero(t, calls.Load(), name)
	}
}

// listenAt counts who calls an address.
func listenAt(t *testing.T, address string) *atomic.Int32 {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	calls, over := &atomic.Int32{}, make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-over })
	return calls
}
