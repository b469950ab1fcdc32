package room

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A controller may write the Pod between kubelet's reading and writing of it: both are kept.
func TestKubeletWritesThoughAControllerDid(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer-1"}}
	r := &Room{t: t, Namespace: p.Namespace, Client: fake.NewClientBuilder().WithObjects(p).WithStatusSubresource(p).Build()}
	calls := 0
	r.Kubelet(p.Name, func(s *corev1.PodStatus) {
		if calls++; calls == 1 {
			r.Touch(p.DeepCopy())
		}
		Listens(s)
	})
	require.NoError(t, r.Get(t.Context(), r.Key(p.Name), p))
	assert.Equal(t, corev1.PodRunning, p.Status.Phase)
	assert.Contains(t, p.Annotations, "test/touched")
	assert.Equal(t, 2, calls)
}

// Wherever a process begins.
func TestEachAddressIsAnotherLoopbackAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 3 * perBlock {
		ip := NewIP()
		at, err := netip.ParseAddr(ip)
		require.NoError(t, err)
		assert.True(t, at.IsLoopback(), ip)
		assert.False(t, seen[ip], ip)
		seen[ip] = true
	}
}
