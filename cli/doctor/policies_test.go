package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Policies add up: one that lets the controller in is enough, and one that selects nothing of ours says nothing.
func TestWhetherPoliciesKeepTheControllerOut(t *testing.T) {
	to := runningPod("reviewer-1", "agent")
	from := caller{namespace: "hearth-system", namespaceLabels: map[string]string{corev1.LabelMetadataName: "hearth-system"}, labels: ControllerLabels()}
	ingress := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	policy := func(name string, rules ...networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicy {
		return networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: ingress, Ingress: rules}}
	}
	peer := func(p networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{p}
	}
	on := func(port intstr.IntOrString, end *int32) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Port: &port, EndPort: end}}
	}
	ofUs := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "hearth-system"}},
		PodSelector: &metav1.LabelSelector{MatchLabels: ControllerLabels()}}
	rule := func(from []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: from, Ports: ports}
	}
	deny := policy("deny")
	other, elsewhere, outgoing := policy("other"), policy("elsewhere"), policy("outgoing")
	other.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	elsewhere.Namespace = "another"
	outgoing.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	for name, c := range map[string]struct {
		policies []networkingv1.NetworkPolicy
		cut      []string
	}{
		"none":              {nil, nil},
		"deny all":          {[]networkingv1.NetworkPolicy{deny}, []string{"deny"}},
		"of others":         {[]networkingv1.NetworkPolicy{other, elsewhere, outgoing}, nil},
		"ours beside":       {[]networkingv1.NetworkPolicy{deny, policy("ours", rule(peer(ofUs), on(intstr.FromString("delivery"), nil)))}, nil},
		"by number":         {[]networkingv1.NetworkPolicy{policy("ours", rule(peer(ofUs), on(intstr.FromInt32(4100), nil)))}, nil},
		"by a range":        {[]networkingv1.NetworkPolicy{policy("ours", rule(nil, on(intstr.FromInt32(4000), ptr.To(int32(5000)))))}, nil},
		"another port":      {[]networkingv1.NetworkPolicy{policy("acp", rule(peer(ofUs), on(intstr.FromString("acp"), nil)))}, []string{"acp"}},
		"another namespace": {[]networkingv1.NetworkPolicy{policy("own", rule(peer(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}), nil))}, []string{"own"}},
		"an address":        {[]networkingv1.NetworkPolicy{policy("block", rule(peer(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}), nil))}, nil},
		"UDP":               {[]networkingv1.NetworkPolicy{policy("udp", networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolUDP)}}})}, []string{"udp"}},
	} {
		assert.Equal(t, c.cut, cuts(c.policies, &to, from, 4100), name)
	}
}
