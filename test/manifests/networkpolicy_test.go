package manifests_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

const system, team = "hearth-system", "team"

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// The documentation's commands, with the API server's strictest reading of every field.
func TestTheAPIServerAcceptsTheNetworkPolicies(t *testing.T) {
	for _, args := range [][]string{{"-n", "default", "-k", "config/networkpolicy/agents"}, {"-k", "config/networkpolicy/system"}} {
		out := server.Kubectl(t, append([]string{"apply", "--server-side", "--dry-run=server", "--validate=strict"}, args...)...)
		assert.Contains(t, out, "serverside-applied (server dry run)")
	}
}

// call is who calls whom where, and whether the policies let it through.
type call struct {
	name string
	from endpoint
	to   endpoint
	port int32
	want bool
}

func matrix(t *testing.T) []call {
	t.Helper()
	deployment := as[appsv1.Deployment](t, read(t, "config/manager/controller.yaml")[0]).Spec.Template
	controller := endpoint{system, &corev1.Pod{ObjectMeta: deployment.ObjectMeta, Spec: deployment.Spec}}
	agent, elsewhere := endpoint{team, standingPod(plainAgent())}, plainAgent()
	elsewhere.Spec.Runtime.Delivery.Port = 5100
	other := endpoint{team, standingPod(elsewhere)}
	pod := func(namespace string, labels map[string]string) endpoint {
		return endpoint{namespace, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}
	}
	client := map[string]string{"hearth.dev/acp-client": "true"}
	monitoring, someone := pod("monitoring", nil), pod(team, map[string]string{"app": "x"})
	const delivery, acp, metrics, debug = 4100, hearthv1.PortACPNumber, 9464, 6060
	return []call{
		{"the controller delivers", controller, agent, delivery, true},
		{"the controller delivers to another port", controller, other, 5100, true},
		{"the controller, where the agent has chosen another port", controller, other, delivery, false},
		{"the controller is no ACP client", controller, agent, acp, false},
		{"the controller reads no metrics", controller, agent, metrics, false},
		{"the controller, another port of the template", controller, agent, debug, false},
		{"another Pod of the controller's namespace", pod(system, map[string]string{"app.kubernetes.io/name": "hearth"}), agent, delivery, false},
		{"a Pod that is labelled like the controller", pod(team, deployment.Labels), agent, delivery, false},
		{"an agent delivers to another", other, agent, delivery, false},
		{"an agent attaches to another", other, agent, acp, false},
		{"an agent reads another's metrics", other, agent, metrics, false},
		{"an ACP client attaches", pod(team, client), agent, acp, true},
		{"an ACP client attaches to the other one", pod(team, client), other, acp, true},
		{"an ACP client does not deliver", pod(team, client), agent, delivery, false},
		{"an ACP client reads no metrics", pod(team, client), agent, metrics, false},
		{"an ACP client of another namespace", pod("elsewhere", client), agent, acp, false},
		{"a Pod that says it is no client", pod(team, map[string]string{"hearth.dev/acp-client": "false"}), agent, acp, false},
		{"somebody in the namespace attaches", someone, agent, acp, false},
		{"somebody in the namespace delivers", someone, agent, delivery, false},
		{"monitoring reads metrics", monitoring, agent, metrics, true},
		{"monitoring does not deliver", monitoring, agent, delivery, false},
		{"monitoring does not attach", monitoring, agent, acp, false},
		{"somebody reads metrics", someone, agent, metrics, false},
		{"Pods that run no agent are left alone", someone, someone, 80, true},
		{"the API server, wherever it is, asks for admission", pod("kube-system", nil), controller, 9443, true},
		{"monitoring reads the controller's metrics", monitoring, controller, 8080, true},
		{"an agent does not read the controller's metrics", agent, controller, 8080, false},
		{"a Pod beside the controller does not read its metrics", pod(system, nil), controller, 8080, false},
		{"monitoring has no business with the probes' port", monitoring, controller, 8081, false},
		{"an agent does not reach the probes' port", agent, controller, 8081, false},
		{"other Pods beside the controller are left alone", someone, pod(system, nil), 80, true},
	}
}

func policies(t *testing.T) (agents, controller *networkingv1.NetworkPolicy) {
	t.Helper()
	agents = as[networkingv1.NetworkPolicy](t, read(t, "config/networkpolicy/agents/policy.yaml")[0])
	assert.Empty(t, agents.Namespace, "kubectl -n says where")
	agents.Namespace = team
	return agents, as[networkingv1.NetworkPolicy](t, read(t, "config/networkpolicy/system/policy.yaml")[0])
}

func TestNetworkPoliciesAdmitWhomTheyShould(t *testing.T) {
	agents, controller := policies(t)
	for _, c := range matrix(t) {
		assert.Equal(t, c.want, admits(t, []*networkingv1.NetworkPolicy{agents, controller}, c), c.name)
	}
}

// Each selector, port and rule is needed: whatever is loosened or left out, the matrix above shows it.
func TestEveryPartOfANetworkPolicyIsSeen(t *testing.T) {
	type change struct {
		name  string
		apply func(agents, controller *networkingv1.NetworkPolicy)
	}
	changes := []change{
		{"agents not selected", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
		}},
		{"everything selected", func(a, _ *networkingv1.NetworkPolicy) { a.Spec.PodSelector = metav1.LabelSelector{} }},
		{"agents: egress only", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		}},
		{"controller not selected", func(_, c *networkingv1.NetworkPolicy) {
			c.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
		}},
		{"everything beside the controller selected", func(_, c *networkingv1.NetworkPolicy) { c.Spec.PodSelector = metav1.LabelSelector{} }},
		{"delivery: any Pod of the namespace", func(a, _ *networkingv1.NetworkPolicy) { a.Spec.Ingress[0].From[0].PodSelector = nil }},
		{"delivery: any namespace", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.Ingress[0].From[0].NamespaceSelector = &metav1.LabelSelector{}
		}},
		{"delivery: this namespace", func(a, _ *networkingv1.NetworkPolicy) { a.Spec.Ingress[0].From[0].NamespaceSelector = nil }},
		{"delivery: by number", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.Ingress[0].Ports[0].Port.Type, a.Spec.Ingress[0].Ports[0].Port.IntVal = intstr.Int, 4100
		}},
		{"acp: any Pod", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.Ingress[1].From[0].PodSelector = &metav1.LabelSelector{}
		}},
		{"acp: any value", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.Ingress[1].From[0].PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hearth.dev/acp-client", Operator: metav1.LabelSelectorOpExists}}}
		}},
		{"acp: any namespace", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.Ingress[1].From[0].NamespaceSelector = &metav1.LabelSelector{}
		}},
		{"agents' metrics: any namespace", func(a, _ *networkingv1.NetworkPolicy) {
			a.Spec.Ingress[2].From[0].NamespaceSelector = &metav1.LabelSelector{}
		}},
		{"controller's metrics: any namespace", func(_, c *networkingv1.NetworkPolicy) {
			c.Spec.Ingress[1].From[0].NamespaceSelector = &metav1.LabelSelector{}
		}},
	}
	agents, controller := policies(t)
	for i := range agents.Spec.Ingress {
		changes = append(changes,
			change{fmt.Sprintf("agents: rule %d from anywhere", i), func(a, _ *networkingv1.NetworkPolicy) { a.Spec.Ingress[i].From = nil }},
			change{fmt.Sprintf("agents: rule %d to every port", i), func(a, _ *networkingv1.NetworkPolicy) { a.Spec.Ingress[i].Ports = nil }},
			change{fmt.Sprintf("agents: no rule %d", i), func(a, _ *networkingv1.NetworkPolicy) {
				a.Spec.Ingress = append(a.Spec.Ingress[:i:i], a.Spec.Ingress[i+1:]...)
			}})
	}
	for i := range controller.Spec.Ingress {
		changes = append(changes,
			change{fmt.Sprintf("controller: rule %d to every port", i), func(_, c *networkingv1.NetworkPolicy) { c.Spec.Ingress[i].Ports = nil }},
			change{fmt.Sprintf("controller: no rule %d", i), func(_, c *networkingv1.NetworkPolicy) {
				c.Spec.Ingress = append(c.Spec.Ingress[:i:i], c.Spec.Ingress[i+1:]...)
			}})
	}
	for _, change := range changes {
		a, c := agents.DeepCopy(), controller.DeepCopy()
		change.apply(a, c)
		seen := false
		for _, call := range matrix(t) {
			seen = seen || admits(t, []*networkingv1.NetworkPolicy{a, c}, call) != call.want
		}
		assert.True(t, seen, change.name)
	}
	require.Len(t, changes, 14+3*3+2*2)
}
