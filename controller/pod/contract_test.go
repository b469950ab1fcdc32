package pod_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

func spec() *v1alpha1.AgentSpec {
	return &v1alpha1.AgentSpec{
		Runtime: v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{Port: 4100}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "sidecar", Image: "s", Ports: []corev1.ContainerPort{{Name: "dns", ContainerPort: 4000, Protocol: corev1.ProtocolUDP}}},
			{Name: "agent", Image: "a", Env: []corev1.EnvVar{{Name: "HEARTH_SILENCE", Value: "5m"}}, ReadinessProbe: pod.Probe(),
				Ports: []corev1.ContainerPort{{Name: "acp", ContainerPort: 4000}, {Name: "delivery", ContainerPort: 4100}, {Name: "debug", ContainerPort: 6060}}},
		}}},
	}
}

// SPEC.md, Resources and Identity: what contradicts the contract is named, with what is expected instead.
func TestContradictionsNameTheField(t *testing.T) {
	assert.Empty(t, pod.Contradictions(spec()), "what agrees with the contract may be written out")
	const p, agent = "spec.template.spec.", "spec.template.spec.containers[1]."
	tcp := func(port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}}
	}
	for field, change := range map[string]func(*corev1.PodTemplateSpec){
		"spec.template.metadata.name":        func(t *corev1.PodTemplateSpec) { t.Name = "x" },
		"spec.template.metadata.namespace":   func(t *corev1.PodTemplateSpec) { t.Namespace = "x" },
		"spec.template.metadata.finalizers":  func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{"x/y"} },
		"spec.template.metadata.labels":      func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"hearth.dev/run": "x"} },
		"spec.template.metadata.annotations": func(t *corev1.PodTemplateSpec) { t.Annotations = map[string]string{"hearth.dev/x": "x"} },
		p + "hostNetwork":                    func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true },
		p + "hostPID":                        func(t *corev1.PodTemplateSpec) { t.Spec.HostPID = true },
		p + "shareProcessNamespace":          func(t *corev1.PodTemplateSpec) { t.Spec.ShareProcessNamespace = ptr.To(true) },
		p + "hostname":                       func(t *corev1.PodTemplateSpec) { t.Spec.Hostname = "x" },
		p + "subdomain":                      func(t *corev1.PodTemplateSpec) { t.Spec.Subdomain = "x" },
		p + "setHostnameAsFQDN":              func(t *corev1.PodTemplateSpec) { t.Spec.SetHostnameAsFQDN = ptr.To(true) },
		p + "hostnameOverride":               func(t *corev1.PodTemplateSpec) { t.Spec.HostnameOverride = ptr.To("x") },
		p + "restartPolicy":                  func(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = corev1.RestartPolicyNever },
		p + "volumes[0].name":                func(t *corev1.PodTemplateSpec) { t.Spec.Volumes = []corev1.Volume{{Name: "hearth-data"}} },
		p + "containers":                     func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Name = "other" },
		agent + "args":                       func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Args = []string{"x"} },
		agent + "env[0].name":                func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Env[0].Name = "HEARTH_DELIVERY_TOKEN" },
		agent + "volumeMounts[0].mountPath": func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: "/var/lib/hearth/"}}
		},
		agent + "readinessProbe": func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].ReadinessProbe.PeriodSeconds = 10 },
		agent + "livenessProbe":  func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].LivenessProbe = tcp(intstr.FromInt32(4000)) },
		agent + "startupProbe":   func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].StartupProbe = tcp(intstr.FromString("acp")) },
		agent + "restartPolicy": func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
		},
		agent + "ports[0]":                          func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Ports[0].ContainerPort = 4001 },
		agent + "ports[1]":                          func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Ports[1].ContainerPort = 4101 },
		agent + "ports[2]":                          func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Ports[2].ContainerPort = 4100 },
		"spec.template.spec.containers[0].ports[0]": func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolTCP },
	} {
		t.Run(field, func(t *testing.T) {
			s := spec()
			change(&s.Template)
			found := pod.Contradictions(s)
			if assert.Len(t, found, 1) {
				assert.Equal(t, field, found[0].Field)
				assert.Contains(t, found[0].Expected, "expected ")
			}
		})
	}
	for _, name := range pod.ReservedEnv() {
		s := spec()
		s.Template.Spec.Containers[1].Env[0].Name = name
		assert.Len(t, pod.Contradictions(s), 1, name)
	}
	fine := spec()
	fine.Template.Spec.Containers[1].LivenessProbe = tcp(intstr.FromInt32(6060))
	fine.Template.Spec.ShareProcessNamespace = ptr.To(false)
	assert.Empty(t, pod.Contradictions(fine))
	for url, expected := range map[string]string{"ws://127.0.0.1:4001/acp": "", "ws://127.0.0.1:4000/acp": `port "acp" of the harness`, "ws://[::1]:4100": `port "delivery" of the harness`} {
		s := spec()
		s.Runtime.Endpoint = url
		if found := pod.Contradictions(s); expected == "" {
			assert.Empty(t, found, url)
		} else if assert.Len(t, found, 1, url) {
			assert.Equal(t, "spec.runtime.endpoint", found[0].Field)
			assert.Contains(t, found[0].Expected, expected)
		}
	}
	undelivered := spec()
	undelivered.Runtime.Delivery = nil
	assert.Empty(t, pod.Contradictions(undelivered), "without delivery its port is an ordinary one")
}

// SPEC.md, Resources: the Pod of a Task, Scheduled or ad-hoc run carries out one run and ends with it.
func TestAOneShotPodContradictsInItsOwnWay(t *testing.T) {
	restartAll := []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	for _, mode := range []v1alpha1.AgentMode{v1alpha1.AgentModeTask, v1alpha1.AgentModeScheduled} {
		oneShot := func() *v1alpha1.AgentSpec {
			s := spec()
			s.Mode, s.Runtime.Delivery = mode, nil
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			return s
		}
		assert.Empty(t, pod.Contradictions(oneShot()))
		for field, change := range map[string]func(*corev1.PodTemplateSpec){
			"spec.template.spec.restartPolicy":                func(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = corev1.RestartPolicyAlways },
			"spec.template.spec.activeDeadlineSeconds":        func(t *corev1.PodTemplateSpec) { t.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) },
			"spec.template.spec.containers[1].args":           func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Args = []string{"x"} },
			"spec.template.spec.containers[1].env[0].name":    func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Env[0].Name = pod.EnvTerminationLog },
			"spec.template.spec.containers[1].readinessProbe": func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].ReadinessProbe.PeriodSeconds = 10 },
			"spec.template.spec.containers[1].ports[0]":       func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Ports[0].ContainerPort = 4001 },
			"spec.template.spec.containers[1].restartPolicy": func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			},
			"spec.template.spec.containers[0].restartPolicyRules": func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].RestartPolicyRules = restartAll },
			"spec.template.spec.initContainers[0].restartPolicyRules": func(t *corev1.PodTemplateSpec) {
				t.Spec.InitContainers = []corev1.Container{{Name: "set-up", RestartPolicyRules: restartAll}}
			},
			"spec.template.spec.hostNetwork": func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true },
			"spec.template.spec.terminationGracePeriodSeconds": func(t *corev1.PodTemplateSpec) {
				t.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10_000_000_000) // more nanoseconds than a duration holds
			},
			"spec.template.spec.containers": func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Name = "main" },
		} {
			s := oneShot()
			change(&s.Template)
			if found := pod.Contradictions(s); assert.Len(t, found, 1, field) {
				assert.Equal(t, field, found[0].Field)
			}
		}
		s := oneShot()
		s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		assert.Equal(t, "expected Never or nothing: a run is started at most once", pod.Contradictions(s)[0].Expected)
		s.Template.Spec.RestartPolicy = ""
		assert.Empty(t, pod.Contradictions(s))
	}
	standing := spec()
	standing.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](86400)
	assert.Empty(t, pod.Contradictions(standing), "who wants a standing Pod replaced every day may have it")
}
