package run

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

func port(c *corev1.Container, name string, number int32) {
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP})
	}
}

func variable(c *corev1.Container, name, value string, from *corev1.EnvVarSource) {
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value, ValueFrom: from})
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}

// key is optional, because work must not wait for people's keys: a harness without one lets nobody in with it.
func key(secret string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: v1alpha1.SecretKey, Optional: ptr.To(true)}}
}

func mount(s *corev1.PodSpec, c *corev1.Container, name, path string, source corev1.VolumeSource) {
	s.Volumes = append(s.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: source.Secret != nil})
}

func mounted(c *corev1.Container, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.TrimSuffix(m.MountPath, "/") == path })
}

// harden makes a Pod that passes the restricted Pod security standard, except for what its template asks for itself.
func harden(s *corev1.PodSpec) {
	s.SecurityContext = orDefault(s.SecurityContext, corev1.PodSecurityContext{})
	if s.SecurityContext.RunAsNonRoot == nil && !asksForRoot(s) {
		s.SecurityContext.RunAsNonRoot = ptr.To(true)
	}
	s.SecurityContext.SeccompProfile = orDefault(s.SecurityContext.SeccompProfile, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault})
	for i := range s.InitContainers {
		hardenContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		hardenContainer(&s.Containers[i])
	}
}

func hardenContainer(c *corev1.Container) {
	c.SecurityContext = orDefault(c.SecurityContext, corev1.SecurityContext{})
	sc := c.SecurityContext
	privileged := ptr.Deref(sc.Privileged, false)
	// A privileged container, or one that was given CAP_SYS_ADMIN, cannot refuse privilege escalation: such a Pod is invalid.
	if !privileged && !adds(sc.Capabilities, "SYS_ADMIN", "CAP_SYS_ADMIN") {
		sc.AllowPrivilegeEscalation = orDefault(sc.AllowPrivilegeEscalation, false)
	}
	if !privileged {
		sc.Capabilities = orDefault(sc.Capabilities, corev1.Capabilities{})
		if len(sc.Capabilities.Drop) == 0 { // what is added is added to none
			sc.Capabilities.Drop = []corev1.Capability{"ALL"}
		}
	}
	if c.Name == v1alpha1.AgentContainer {
		sc.ReadOnlyRootFilesystem = orDefault(sc.ReadOnlyRootFilesystem, true)
	}
}

func adds(c *corev1.Capabilities, names ...corev1.Capability) bool {
	return c != nil && slices.ContainsFunc(names, func(n corev1.Capability) bool { return slices.Contains(c.Add, n) })
}

func asksForRoot(s *corev1.PodSpec) bool {
	root := func(uid *int64) bool { return uid != nil && *uid == 0 }
	return root(s.SecurityContext.RunAsUser) || slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), func(c corev1.Container) bool {
		return c.SecurityContext != nil && root(c.SecurityContext.RunAsUser)
	})
}
