package run

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// BuildSecret is the immutable Secret of a run with a Pod: the root secret, if runs are delivered to it, and the goal.
func BuildSecret(run *v1alpha1.AgentRun, token string) *corev1.Secret {
	data := map[string][]byte{v1alpha1.SecretGoal: []byte(run.Spec.Goal)}
	if !run.OneShot() && run.Spec.Runtime.Delivery != nil {
		data[v1alpha1.SecretToken] = []byte(token)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: run.Namespace, Name: v1alpha1.RunSecretName(run.Name, run.UID), Labels: stamped(nil, run),
			OwnerReferences: []metav1.OwnerReference{owner(run)},
		},
		Immutable: ptr.To(true),
		Type:      corev1.SecretTypeOpaque,
		Data:      data,
	}
}

// BuildKey is one of an Agent's Secrets for people. It is the Agent's, not the run's: a recast changes no key.
func BuildKey(run *v1alpha1.AgentRun, name, value string) *corev1.Secret {
	agent := run.Spec.AgentRef
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: run.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelAgent: agent.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Agent", Name: agent.Name, UID: agent.UID, Controller: ptr.To(true)}},
		},
		Immutable: ptr.To(true),
		Type:      corev1.SecretTypeOpaque,
		Data:      map[string][]byte{v1alpha1.SecretKey: []byte(value)},
	}
}

// BuildService is the headless Service of a run with a Pod of its own: its name leads to the Pod while that is ready, and to nobody
// otherwise (R10). It lasts as long as the run, as the Secret does.
func BuildService(run *v1alpha1.AgentRun) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: run.Namespace, Name: run.Name, Labels: stamped(nil, run),
			OwnerReferences: []metav1.OwnerReference{owner(run)},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  map[string]string{v1alpha1.LabelRun: run.Name},
			Ports: []corev1.ServicePort{{Name: v1alpha1.PortACP, Protocol: corev1.ProtocolTCP, Port: v1alpha1.PortACPNumber,
				TargetPort: intstr.FromString(v1alpha1.PortACP)}},
		},
	}
}
