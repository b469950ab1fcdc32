package doctor

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// ofAgent are the links of one Agent, its Pods apart.
func (o Observed) ofAgent(a AgentSeen) []link {
	links := []link{{linkAgent, []string{linkKinds}, func() []Finding { return o.agent(a) }}}
	if a.Agent.Absent || a.Agent.Why != "" {
		return links
	}
	if _, named := a.Agent.Value.Labels[hearthv1.LabelShard]; named || o.sharded() {
		links = append(links, link{linkShard, []string{linkController}, func() []Finding { return o.shard(a) }})
	}
	links = append(links,
		link{linkTemplate, nil, func() []Finding { return template(o, a) }},
		link{linkReady, []string{linkController, linkServed, linkShard}, func() []Finding { return o.ready(a) }})
	if a.Agent.Value.Spec.Backend == hearthv1.BackendSandbox {
		links = slices.Insert(links, len(links)-1, link{linkBackend, nil, func() []Finding { return o.backend(a) }})
	}
	if service(a.Agent.Value) {
		links = append(links, link{linkStanding, nil, func() []Finding { return o.standing(a) }})
		if a.Agent.Value.Spec.Runtime.Delivery != nil {
			links = append(links, link{linkPolicy, nil, func() []Finding { return o.policy(a) }})
		}
		links = append(links, link{linkKeys, nil, func() []Finding { return o.keys(a) }})
	}
	return links
}

func service(a hearthv1.Agent) bool {
	return a.Spec.Mode == hearthv1.AgentModeService || a.Spec.Mode == ""
}

func (o Observed) agent(a AgentSeen) []Finding {
	switch {
	case a.Agent.Why != "":
		return []Finding{notChecked(a.Agent.Why)}
	case a.Agent.Absent:
		return []Finding{fail(AgentMissing, "there is no Agent %s in namespace %s", a.Name, o.Namespace).do("kubectl get agents -A").do("hearth doctor %s -n NAMESPACE", a.Name)}
	}
	return []Finding{ok("Agent %s is there, mode %s", a.Name, cmp.Or(a.Agent.Value.Spec.Mode, hearthv1.AgentModeService))}
}

// template: the container that runs the harness.
func template(o Observed, a AgentSeen) []Finding {
	for _, c := range a.Agent.Value.Spec.Template.Spec.Containers {
		if c.Name == hearthv1.AgentContainer && c.Image != "" {
			return []Finding{ok("its container %s has image %s", c.Name, c.Image)}
		}
	}
	return []Finding{fail(TemplateNoAgent, "its template has no container named %s with an image", hearthv1.AgentContainer).do("kubectl -n %s edit agent %s", o.Namespace, a.Name)}
}

func (o Observed) backend(a AgentSeen) []Finding {
	switch {
	case a.Sandbox.Why != "":
		return []Finding{notChecked(a.Sandbox.Why)}
	case !a.Sandbox.Value:
		return []Finding{fail(SandboxMissing, "backend is Sandbox, and the API server has no Sandbox of agents.x-k8s.io/v1beta1").
			do("install agent-sandbox (https://github.com/kubernetes-sigs/agent-sandbox)").
			do("kubectl -n %s patch agent %s --type merge -p '{\"spec\":{\"backend\":\"Pod\"}}'", o.Namespace, a.Name)}
	}
	return []Finding{ok("the API server has Sandboxes")}
}

// ready is what the controller says of the Agent.
func (o Observed) ready(a AgentSeen) []Finding {
	agent := a.Agent.Value
	c := condition(agent.Status.Conditions, hearthv1.AgentConditionReady)
	logs := "kubectl -n " + o.System + " logs -l app.kubernetes.io/name=hearth --tail=50"
	if c.Type == "" || agent.Status.ObservedGeneration < agent.Generation {
		f := fail(AgentNotLookedAt, "the controller has not looked at the Agent as it is").
			saw("generation %d, looked at %d", agent.Generation, agent.Status.ObservedGeneration).do("%s", logs)
		if o.Now.Sub(agent.CreationTimestamp.Time) < lookPatience {
			f.Status = StatusHint
		}
		return []Finding{f}
	}
	words := told(c.Reason, c.Message)
	switch {
	case c.Status == "True":
		return []Finding{ok("Ready is True (%s)", words)}
	case c.Reason == hearthv1.ReasonScaledToZero:
		return []Finding{hint(AgentIdle, "the Agent wants no standing run").saw("%s", words).do("kubectl -n %s scale agent/%s --replicas=1", o.Namespace, a.Name)}
	case c.Reason == hearthv1.ReasonSuspended:
		return []Finding{hint(AgentSuspended, "the Agent's schedule is suspended").saw("%s", words).
			do("kubectl -n %s patch agent %s --type merge -p '{\"spec\":{\"schedule\":{\"suspend\":false}}}'", o.Namespace, a.Name)}
	}
	return []Finding{o.unlessFresh(a, fail(AgentNotReady, "Ready is False: %s", c.Reason).saw("%s", words).do("kubectl -n %s describe agent %s", o.Namespace, a.Name))}
}

// comings are the reasons of an Agent that is not ready because a standing run is only being made, or its Pod starts.
var comings = []string{hearthv1.ReasonNoStandingRun, hearthv1.ReasonNotListening}

// unlessFresh makes a hint of what is broken for so short that it is the ordinary course of things: a Pod was deleted, or an Agent made.
func (o Observed) unlessFresh(a AgentSeen, f Finding) Finding {
	c := condition(a.Agent.Value.Status.Conditions, hearthv1.AgentConditionReady)
	if c.Status == metav1.ConditionFalse && slices.Contains(comings, c.Reason) && o.fresh(c.LastTransitionTime) {
		f.Status = StatusHint
		f.Says += ", since " + ago(o.Now, c.LastTransitionTime.Time) + ": look again in a minute"
	}
	return f
}

// fresh: so short ago, by the API server's clock, that the controller may be at it. A time that nobody knows is not.
func (o Observed) fresh(at metav1.Time) bool {
	return !at.IsZero() && o.Now.Sub(at.Time) < lookPatience
}

// standing are the runs that keep the Agent's Pods.
func (o Observed) standing(a AgentSeen) []Finding {
	want, have := int(ptr.Deref(a.Agent.Value.Spec.Replicas, 1)), len(a.Pods)
	progress := condition(a.Agent.Value.Status.Conditions, hearthv1.AgentConditionProgressing)
	describe := "kubectl -n " + o.Namespace + " describe agent " + a.Name
	switch {
	case want > 0 && have == 0:
		return []Finding{o.unlessFresh(a, fail(StandingMissing, "no standing run lives, %d wanted", want).saw("%s", told(progress.Reason, progress.Message)).do("%s", describe))}
	case have < want:
		return []Finding{hint(StandingFewer, "%d of %d standing runs live", have, want).saw("%s", told(progress.Reason, progress.Message)).do("%s", describe)}
	}
	return []Finding{ok("%s, %d wanted, %d can take work", count(have, "living standing run"), want, a.Agent.Value.Status.ReadyReplicas)}
}

// keys are the two Secrets for people.
func (o Observed) keys(a AgentSeen) []Finding {
	view, steer := hearthv1.KeySecretNames(a.Name)
	var findings []Finding
	for _, name := range []string{view, steer} {
		switch read := a.Keys[name]; {
		case read.Why != "":
			findings = append(findings, notChecked(name+": "+read.Why))
		case len(a.Pods) == 0:
		case read.Absent || read.Value == 0:
			findings = append(findings, fail(KeysMissing, "Secret %s has no key: nobody new can attach", name).
				do("kubectl -n %s delete agentrun %s   # the next standing run makes it", o.Namespace, a.Pods[0].Run.Name))
		}
	}
	if len(findings) == 0 {
		return []Finding{ok("the keys for people are there")}
	}
	return findings
}

// policy is a hint: whether the network enforces policies nobody can read from the API server.
func (o Observed) policy(a AgentSeen) []Finding {
	if a.Policies.Why != "" {
		return []Finding{notChecked(a.Policies.Why)}
	}
	for _, p := range a.Pods {
		if !p.Pod.There() {
			continue
		}
		if selecting := cuts(a.Policies.Value, &p.Pod.Value, caller{namespace: o.System, namespaceLabels: a.SystemLabels, labels: a.ControllerLabels}, port(a.Agent.Value)); len(selecting) > 0 {
			return []Finding{hint(PolicyCutsDelivery, "no NetworkPolicy that selects Pod %s lets the controller in to port %d; where the network enforces policies, no work arrives", p.Pod.Value.Name, port(a.Agent.Value)).
				saw("%s", list(selecting)).do("kubectl apply --server-side -n %s -k config/networkpolicy/agents", o.Namespace)}
		}
	}
	return []Finding{ok("no NetworkPolicy is seen to keep the controller out")}
}
