//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/cluster"
)

// TestRestricted: the namespaces of agents and of the controller enforce the restricted Pod security standard, the cluster really does,
// and a standing Pod whose template says nothing about it runs there.
func TestRestricted(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "restricted")
	for _, name := range []string{r.namespace, cluster.SystemNamespace} {
		var namespace corev1.Namespace
		require.NoError(t, suite.Client.Get(t.Context(), client.ObjectKey{Name: name}, &namespace))
		assert.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"], name)
	}
	plain := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "plain", Namespace: r.namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: agentImage}}},
	}
	require.ErrorContains(t, suite.Client.Create(t.Context(), plain, client.DryRunAll), "violates PodSecurity")

	r.readyAgent(reviewer, nil)
	assert.NotEqual(t, "0", strings.TrimSpace(r.sh(t.Context(), r.pod(reviewer), "id -u")), "it runs as root")
	assert.Contains(t, r.sh(t.Context(), r.pod(reviewer), "touch /etc/x 2>&1 || true"), "Read-only file system")
}
