package doctor

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// caller is who would connect: a Pod by its labels, in a namespace with its.
type caller struct {
	namespace       string
	namespaceLabels map[string]string
	labels          map[string]string
}

// cuts are the policies that select a Pod for incoming traffic, if none of them lets the caller in to the port; nil if one does, or none
// selects it. Addresses are not known, so a rule with an address block counts as one that might.
func cuts(policies []networkingv1.NetworkPolicy, to *corev1.Pod, from caller, port int) (selecting []string) {
	for _, p := range policies {
		incoming := len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		if p.Namespace != to.Namespace || !incoming || !selects(&p.Spec.PodSelector, to.Labels) {
			continue
		}
		selecting = append(selecting, p.Name)
		for _, rule := range p.Spec.Ingress {
			if fromIs(p.Namespace, rule.From, from) && portIs(rule.Ports, to, port) {
				return nil
			}
		}
	}
	return selecting
}

func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(of))
}

// fromIs: no peers are all; a peer without a namespace selector is in the policy's own namespace.
func fromIs(own string, peers []networkingv1.NetworkPolicyPeer, from caller) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		if peer.IPBlock != nil {
			return true
		}
		in := from.namespace == own
		if peer.NamespaceSelector != nil {
			in = selects(peer.NamespaceSelector, from.namespaceLabels)
		}
		return in && (peer.PodSelector == nil || selects(peer.PodSelector, from.labels))
	})
}

// portIs: no ports are all; a name is that of a port of the Pod that is called.
func portIs(ports []networkingv1.NetworkPolicyPort, to *corev1.Pod, number int) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(port networkingv1.NetworkPolicyPort) bool {
		switch {
		case ptr.Deref(port.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP:
			return false
		case port.Port == nil:
			return true
		case port.Port.Type == intstr.Int:
			return number >= port.Port.IntValue() && number <= int(ptr.Deref(port.EndPort, port.Port.IntVal))
		}
		return slices.ContainsFunc(to.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Port.StrVal && int(p.ContainerPort) == number })
		})
	})
}
