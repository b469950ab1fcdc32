package doctor

import (
	"cmp"
	"slices"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// challenge: whoever has the delivery port proves to be the Pod (SPEC.md, Challenge).
func (o Observed) challenge(a AgentSeen, p PodSeen) []Finding {
	number, pod := port(a.Agent.Value), podName(p.Run)
	logs := "kubectl -n " + o.Namespace + " logs " + pod + " -c " + hearthv1.AgentContainer + " --tail=20"
	again := "kubectl -n " + o.Namespace + " delete agentrun " + p.Run.Name + "   # another standing run takes its place"
	c := p.Challenge
	var f Finding
	switch c.Heard {
	case HeardNothing:
		return []Finding{notChecked(cmp.Or(c.Words, unseen(p)))}
	case HeardOK:
		if c.State != string(wire.AgentReady) {
			return []Finding{fail(DeliveryAgentDown, "the harness proves to be Pod %s, and its agent is %s", pod, c.State).saw("harness %s", c.Harness).do("%s", logs)}
		}
		return []Finding{ok("port %d proves to be Pod %s: harness %s, agent %s ready, %s", number, pod, c.Harness, c.Agent, c.Room)}
	case HeardClosed:
		f = fail(DeliveryClosed, "nothing listens on port %d of Pod %s", number, pod).do("%s", logs)
	case HeardSilence:
		f = fail(DeliverySilent, "port %d of Pod %s takes a connection and says nothing", number, pod).do("%s", logs).do("%s", again)
	case HeardNoTLS:
		f = fail(DeliveryNotTLS, "port %d of Pod %s does not speak TLS 1.3", number, pod).
			do("kubectl -n %s patch agent %s --type merge -p '{\"spec\":{\"runtime\":{\"delivery\":{\"scheme\":\"HTTP\"}}}}'   # only for a foreign runtime without TLS", o.Namespace, a.Name)
	case HeardOtherKey:
		f = fail(DeliveryOtherKey, "port %d of Pod %s has another TLS key than its Secret makes", number, pod).do("%s", again)
	case HeardUnproven:
		f = fail(DeliveryUnproven, "somebody answers on port %d of Pod %s who cannot prove to be it", number, pod).do("%s", again)
	case HeardRefused:
		f = fail(DeliveryRefused, "the harness in Pod %s refuses a proof made of its Secret", pod).do("%s", again)
	case HeardOtherPod:
		f = fail(DeliveryOtherPod, "the harness in Pod %s says that it is another", pod).do("%s", again)
	case HeardIncompatible:
		f = fail(DeliveryIncompatible, "the harness in Pod %s does not speak %s", pod, wire.APIVersion).do("build the Agent's image with the harness of the controller's version")
	case HeardOther:
		return []Finding{notChecked(c.Words)}
	default:
		return []Finding{notChecked(c.Words)}
	}
	return []Finding{f.saw("%s", c.Words)}
}

// cutOff are the reasons that the controller gives when it cannot talk to a Pod whose agent listens.
var cutOff = []string{hearthv1.ReasonTargetUnreachable, hearthv1.ReasonTargetUnauthenticated, hearthv1.ReasonTargetIncompatible}

// contact is what the controller itself says of the way to the Pod: the doctor takes another one.
func (o Observed) contact(a AgentSeen, p PodSeen) []Finding {
	c := condition(a.Agent.Value.Status.Conditions, hearthv1.AgentConditionReady)
	switch {
	case c.Type == "":
		return []Finding{notChecked("the controller has not said how the Agent is")}
	case c.Status == "True":
		return []Finding{ok("the controller reaches the Agent's standing runs")}
	case !slices.Contains(cutOff, c.Reason):
		return []Finding{notChecked("the controller says " + c.Reason)}
	case p.Challenge.Heard == HeardOK && c.Reason == hearthv1.ReasonTargetUnreachable:
		return []Finding{fail(ControllerCutOff, "Pod %s proves itself through the API server, and the controller cannot reach it: the network between them is cut", podName(p.Run)).
			saw("%s", told(c.Reason, c.Message)).do("kubectl -n %s get networkpolicies", o.Namespace).do("kubectl apply --server-side -n %s -k config/networkpolicy/agents", o.Namespace)}
	}
	code := map[string]Code{hearthv1.ReasonTargetUnauthenticated: DeliveryRefused, hearthv1.ReasonTargetIncompatible: DeliveryIncompatible}[c.Reason]
	if code == "" {
		code = ControllerCutOff
	}
	return []Finding{fail(code, "the controller cannot talk to a standing run of the Agent").saw("%s", told(c.Reason, c.Message)).
		do("kubectl -n %s delete agentrun %s   # another standing run takes its place", o.Namespace, p.Run.Name)}
}

// acp is what the agent's endpoint for people said.
func (o Observed) acp(p PodSeen) []Finding {
	pod := podName(p.Run)
	logs := "kubectl -n " + o.Namespace + " logs " + pod + " -c " + hearthv1.AgentContainer + " --tail=20"
	var f Finding
	switch p.ACP.Heard {
	case HeardOK:
		return []Finding{ok("initialize is answered by %s", p.ACP.Agent)}
	case HeardClosed:
		f = fail(ACPClosed, "nothing listens on port %d of Pod %s", hearthv1.PortACPNumber, pod).do("%s", logs)
	case HeardRefused:
		f = fail(ACPKeyRefused, "the endpoint of Pod %s refuses the key of its Agent's Secret", pod).do("kubectl -n %s delete agentrun %s   # another standing run takes its place", o.Namespace, p.Run.Name)
	case HeardSilence:
		f = fail(ACPSilent, "port %d of Pod %s is open, and initialize is not answered", hearthv1.PortACPNumber, pod).do("%s", logs)
	case HeardNothing:
		return []Finding{notChecked(cmp.Or(p.ACP.Words, unseen(p)))}
	case HeardNoTLS, HeardOtherKey, HeardUnproven, HeardOtherPod, HeardIncompatible, HeardOther:
		return []Finding{notChecked(p.ACP.Words)}
	default:
		return []Finding{notChecked(p.ACP.Words)}
	}
	return []Finding{f.saw("%s", p.ACP.Words)}
}
