// Package run keeps the Pods of runs that have one: it makes a standing run's Secret and Pod, follows the Pod in the run's
// status, and ends the Pod when the run is cancelled or deleted (R1 to R9; SPEC.md, Lifecycle).
package run

import (
	"cmp"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// graceSeconds is how long a standing Pod may drain when its template does not say: running work, the cancel ladder, handing over.
const graceSeconds = 90

// handOverSeconds of the grace period are left for cancelling what still runs and for handing results over.
const handOverSeconds = 35

// BuildPod is the Pod of a standing run: its template and what the contract needs (SPEC.md, Resources, Agent; Harness). The
// template has been checked with pod.Contradictions.
func BuildPod(run *v1alpha1.AgentRun) *corev1.Pod {
	template := run.Spec.Template.DeepCopy()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: run.Namespace, Name: run.Name,
			Labels: stamped(template.Labels, run), Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner(run)},
		},
		Spec: template.Spec,
	}
	s := &p.Spec
	s.RestartPolicy = corev1.RestartPolicyAlways
	s.EnableServiceLinks = ptr.To(false)
	s.AutomountServiceAccountToken = orDefault(s.AutomountServiceAccountToken, false)
	s.TerminationGracePeriodSeconds = orDefault(s.TerminationGracePeriodSeconds, graceSeconds)
	harden(s)
	for i := range s.Containers {
		if s.Containers[i].Name == v1alpha1.AgentContainer {
			harness(s, &s.Containers[i], run)
		}
	}
	return p
}

// harness adds to the agent container what the harness reads.
func harness(s *corev1.PodSpec, c *corev1.Container, run *v1alpha1.AgentRun) {
	runtime := run.Spec.Runtime
	c.Args = append([]string{"serve", "--"}, runtime.Command...)
	c.ReadinessProbe = pod.Probe()
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError // why it did not start is its last line
	}
	port(c, v1alpha1.PortACP, v1alpha1.PortACPNumber)
	variable(c, pod.EnvPodNamespace, "", field("metadata.namespace"))
	variable(c, pod.EnvPodName, "", field("metadata.name"))
	variable(c, pod.EnvPodUID, "", field("metadata.uid"))
	variable(c, pod.EnvACP, ":"+strconv.Itoa(v1alpha1.PortACPNumber), nil)
	view, steer := pod.KeySecretNames(run.Spec.AgentRef.Name)
	variable(c, pod.EnvViewKey, "", key(view))
	variable(c, pod.EnvSteerKey, "", key(steer))
	variable(c, pod.EnvDataDir, pod.DataDir, nil)
	variable(c, pod.EnvPermissions, string(cmp.Or(runtime.Permissions.Policy, v1alpha1.PermissionDeny)), nil)
	variable(c, pod.EnvDrain, strconv.FormatInt(max(0, *s.TerminationGracePeriodSeconds-handOverSeconds), 10)+"s", nil)
	if d := runtime.Delivery; d != nil {
		port(c, wire.PortName, d.Port)
		variable(c, pod.EnvDelivery, ":"+strconv.Itoa(int(d.Port)), nil)
		variable(c, pod.EnvScheme, string(cmp.Or(d.Scheme, v1alpha1.DeliveryHTTPS)), nil)
		variable(c, pod.EnvConcurrency, strconv.Itoa(int(d.Concurrency)), nil)
		variable(c, pod.EnvQueue, strconv.Itoa(int(ptr.Deref(d.Queue, 0))), nil)
		variable(c, pod.EnvToken, "", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: pod.SecretName(run.Name, run.UID)}, Key: v1alpha1.SecretToken}})
	}
	mount(s, c, pod.VolumeData, pod.DataDir, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	if run.Spec.Goal != "" {
		variable(c, pod.EnvGoalFile, pod.GoalDir+"/"+v1alpha1.SecretGoal, nil)
		// Only the goal's key: the token must not lie in a file beside the agent.
		mount(s, c, pod.VolumeGoal, pod.GoalDir, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: pod.SecretName(run.Name, run.UID),
			Items:      []corev1.KeyToPath{{Key: v1alpha1.SecretGoal, Path: v1alpha1.SecretGoal}},
		}})
	}
	if !mounted(c, pod.TmpDir) {
		mount(s, c, pod.VolumeTmp, pod.TmpDir, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}
}

// BuildSecret is the immutable Secret of a run with a Pod: the root secret, if runs are delivered to it, and the goal.
func BuildSecret(run *v1alpha1.AgentRun, token string) *corev1.Secret {
	data := map[string][]byte{v1alpha1.SecretGoal: []byte(run.Spec.Goal)}
	if run.Spec.Runtime.Delivery != nil {
		data[v1alpha1.SecretToken] = []byte(token)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: run.Namespace, Name: pod.SecretName(run.Name, run.UID), Labels: stamped(nil, run),
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

// owner does not block the run's deletion, which would need a right on its finalizers.
func owner(run *v1alpha1.AgentRun) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AgentRun", Name: run.Name, UID: run.UID, Controller: ptr.To(true)}
}

func stamped(labels map[string]string, run *v1alpha1.AgentRun) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelRun] = run.Name
	labels[v1alpha1.LabelAgent] = run.Spec.AgentRef.Name
	return labels
}

func orDefault[T any](v *T, otherwise T) *T {
	if v != nil {
		return v
	}
	return &otherwise
}
