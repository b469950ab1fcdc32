package pod

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Probe is the readiness probe of R1: it gates traffic and never restarts the container.
func Probe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(v1alpha1.PortACP)}},
		PeriodSeconds:    2,
		FailureThreshold: 1,
	}
}

// agent checks the container that runs the harness.
func (t *templateCheck) agent(at string, c *corev1.Container) {
	if len(c.Args) > 0 {
		t.add(at+".args", "expected it not to be set: the harness is started with spec.runtime.command")
	}
	for i, e := range c.Env {
		if slices.Contains(ReservedEnv(), e.Name) {
			t.add(fmt.Sprintf("%s.env[%d].name", at, i), "expected no variable %s: the controller sets it", e.Name)
		}
	}
	for i, m := range c.VolumeMounts {
		if path := strings.TrimSuffix(m.MountPath, "/"); path == DataDir || path == GoalDir {
			t.add(fmt.Sprintf("%s.volumeMounts[%d].mountPath", at, i), "expected another path than %s: the controller mounts it", path)
		}
	}
	if c.ReadinessProbe != nil && !equality.Semantic.DeepEqual(c.ReadinessProbe, Probe()) {
		t.add(at+".readinessProbe", "expected it not to be set: readiness is a TCP probe of port %s every 2 seconds", v1alpha1.PortACP)
	}
	for field, probe := range map[string]*corev1.Probe{"livenessProbe": c.LivenessProbe, "startupProbe": c.StartupProbe} {
		if probe != nil && probesACP(probe) {
			t.add(at+"."+field, "expected no probe of port %s: it is closed while the agent is down, and that must not restart the harness", v1alpha1.PortACP)
		}
	}
	if c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 {
		why := "a standing agent restarts in its Pod"
		if t.oneShot() {
			why = "a run is started at most once"
		}
		t.add(at+".restartPolicy", "expected it not to be set: %s", why)
	}
}

func probesACP(p *corev1.Probe) bool {
	acp := func(port intstr.IntOrString) bool {
		return port == intstr.FromString(v1alpha1.PortACP) || port == intstr.FromInt32(v1alpha1.PortACPNumber)
	}
	return p.TCPSocket != nil && acp(p.TCPSocket.Port) ||
		p.HTTPGet != nil && acp(p.HTTPGet.Port) ||
		p.GRPC != nil && p.GRPC.Port == v1alpha1.PortACPNumber
}

// restarts: any container may have all of its Pod's started again, the one that has the run among them.
func (t *templateCheck) restarts() {
	p := &t.spec.Template.Spec
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", p.InitContainers}, {"containers", p.Containers}} {
		for i, c := range list.containers {
			if c.Name != v1alpha1.AgentContainer && slices.ContainsFunc(c.RestartPolicyRules, restartsAll) {
				t.add(fmt.Sprintf("spec.template.spec.%s[%d].restartPolicyRules", list.field, i), "expected no action %s: a run is started at most once",
					corev1.ContainerRestartRuleActionRestartAllContainers)
			}
		}
	}
}

func restartsAll(r corev1.ContainerRestartRule) bool {
	return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// ports: containers of a Pod share one network, so a port is refused wherever it is declared.
func (t *templateCheck) ports() {
	wanted := map[string]int32{v1alpha1.PortACP: v1alpha1.PortACPNumber}
	if d := t.spec.Runtime.Delivery; d != nil {
		wanted[wire.PortName] = d.Port
	}
	if u, err := url.Parse(t.spec.Runtime.Endpoint); err == nil {
		for name, number := range wanted {
			if u.Port() == strconv.Itoa(int(number)) {
				t.add("spec.runtime.endpoint", "expected another port than %d: it is port %q of the harness", number, name)
			}
		}
	}
	for i, c := range t.spec.Template.Spec.Containers {
		for j, p := range c.Ports {
			at := fmt.Sprintf("spec.template.spec.containers[%d].ports[%d]", i, j)
			for name, number := range wanted {
				switch named, numbered := p.Name == name, p.ContainerPort == number && !isUDP(p); {
				case named && numbered && c.Name == v1alpha1.AgentContainer:
				case named:
					t.add(at, "expected port %q to be %d/TCP of container %q: leave it out, the controller declares it", name, number, v1alpha1.AgentContainer)
				case numbered:
					t.add(at, "expected another number than %d: it is port %q of container %q", number, name, v1alpha1.AgentContainer)
				}
			}
		}
	}
}

func isUDP(p corev1.ContainerPort) bool { return p.Protocol != "" && p.Protocol != corev1.ProtocolTCP }
