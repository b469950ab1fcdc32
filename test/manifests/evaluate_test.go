package manifests_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpoint is a Pod in a namespace, which has no label but the name that Kubernetes gives it.
type endpoint struct {
	namespace string
	pod       *corev1.Pod
}

// admits evaluates policies as Kubernetes defines them: a Pod that a policy selects for ingress gets what some rule of some policy
// lets through, any other Pod gets everything.
func admits(t *testing.T, policies []*networkingv1.NetworkPolicy, c call) bool {
	t.Helper()
	selected := false
	for _, p := range policies {
		if p.Namespace != c.to.namespace || !selects(t, &p.Spec.PodSelector, c.to.pod.Labels) ||
			!slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		selected = true
		for _, rule := range p.Spec.Ingress {
			if isFrom(t, p.Namespace, rule.From, c.from) && isTo(t, rule.Ports, c.to.pod, c.port) {
				return true
			}
		}
	}
	return !selected
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(labels.Set(of))
}

// isFrom: no peers are all; a peer without a namespace selector is in the policy's own namespace.
func isFrom(t *testing.T, own string, peers []networkingv1.NetworkPolicyPeer, from endpoint) bool {
	t.Helper()
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		require.Nil(t, peer.IPBlock, "addresses are not evaluated here")
		in := from.namespace == own
		if peer.NamespaceSelector != nil {
			in = selects(t, peer.NamespaceSelector, map[string]string{corev1.LabelMetadataName: from.namespace})
		}
		return in && (peer.PodSelector == nil || selects(t, peer.PodSelector, from.pod.Labels))
	})
}

// isTo: no ports are all; a name is that of a port of the Pod that is called.
func isTo(t *testing.T, ports []networkingv1.NetworkPolicyPort, to *corev1.Pod, number int32) bool {
	t.Helper()
	return len(ports) == 0 || slices.ContainsFunc(ports, func(port networkingv1.NetworkPolicyPort) bool {
		require.NotNil(t, port.Port)
		require.Nil(t, port.EndPort, "ranges are not evaluated here")
		require.Equal(t, corev1.ProtocolTCP, *port.Protocol)
		if port.Port.Type == intstr.Int {
			return port.Port.IntVal == number
		}
		for _, c := range to.Spec.Containers {
			if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Port.StrVal && p.ContainerPort == number }) {
				return true
			}
		}
		return false
	})
}
