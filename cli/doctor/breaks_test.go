package doctor

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/shard"
	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// broken is one thing that is wrong in an otherwise healthy world.
type broken struct {
	code Code
	name string // where a code has several ways
	do   func(w *world, o *Observed)
}

func system(code Code, do func(w *world, o *Observed)) broken { return broken{code: code, do: do} }

func ofDeployment(code Code, do func(o *Observed, d *appsv1.Deployment)) broken {
	return broken{code: code, do: func(_ *world, o *Observed) {
		o.Deployments.Value[0].Status.AvailableReplicas = 0
		o.SystemPods.Value[0].Status.Conditions[0].Status = corev1.ConditionFalse
		do(o, &o.Deployments.Value[0])
	}}
}

func ofAgent(code Code, do func(o *Observed, a *AgentSeen)) broken {
	return broken{code: code, do: func(_ *world, o *Observed) { do(o, &o.Agents.Value[0]) }}
}

func (b broken) named(name string) broken {
	b.name = name
	return b
}

// secondStands: the Secret of the first standing run is gone, and a second one does the work.
func secondStands(_ *Observed, a *AgentSeen) {
	second := agentSeen().Pods[0]
	second.Run.Name, second.Run.Status.PodName = "reviewer-2", "reviewer-2"
	second.Pod = Got(runningPod("reviewer-2", "agent"))
	a.Pods[0].Secret, a.Pods[0].Challenge = Read[int]{Absent: true}, Probe{Words: "its Secret is not there"}
	a.Pods = append(a.Pods, second)
}

func ofPod(code Code, do func(p *PodSeen)) broken {
	return ofAgent(code, func(_ *Observed, a *AgentSeen) { do(&a.Pods[0]) })
}

func heard(code Code, h Heard, words string) broken {
	return ofPod(code, func(p *PodSeen) { p.Challenge = Probe{Heard: h, Words: words} })
}

func waits(code Code, reason string) broken {
	return system(code, func(_ *world, o *Observed) { o.Runs.Value = append(o.Runs.Value, waitingRun("review-2", reason)) })
}

// lastRun failed a minute ago.
func lastRun(name, reason, message string) broken {
	return broken{LastRunFailed, name, func(_ *world, o *Observed) {
		r := finishedRun()
		r.Name, r.Status.Reason, r.Status.Message = "review-9", reason, message
		r.Status.Conditions[0].Status = metav1.ConditionFalse
		later := metav1.NewMicroTime(now.Add(-time.Minute))
		r.Status.CompletionTime = &later
		o.Runs.Value = append(o.Runs.Value, r)
	}}
}

// container is a container's status that waits.
func container(reason, message string, last *corev1.ContainerStateTerminated) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: last}}}
}

// unready is a Pod whose container waits.
func unready(p *PodSeen, statuses []corev1.ContainerStatus) {
	p.Pod.Value.Status.Phase, p.Pod.Value.Status.ContainerStatuses = corev1.PodPending, statuses
	p.Pod.Value.Status.Conditions[0].Status = corev1.ConditionFalse
}

func notReady(a *AgentSeen, reason, message string) {
	a.Agent.Value.Status.Conditions[0] = metav1.Condition{Type: hearthv1.AgentConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// without is a copy of a schema that lacks a field.
func without(s Schema, path ...string) Schema {
	out := Schema{}
	for k, v := range s {
		out[k] = v
	}
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	out[path[0]] = map[string]any(without(below(s, path[0]), path[1:]...))
	return out
}

var exited = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 7, Message: "harness: the agent ended three times\n\x1b[2Jno such model"}

// breaks has every way that a system link is broken.
var breaks = []broken{
	system(APIUnreachable, func(_ *world, o *Observed) {
		o.API.Why = "it could not be read: dial tcp 127.0.0.1:6443: connect: connection refused"
	}),
	system(APITooOld, func(_ *world, o *Observed) { o.API.Minor, o.API.Version = 29, "v1.29.4" }),
	system(CRDMissing, func(_ *world, o *Observed) {
		o.Kinds, o.CRDs = Read[[]string]{Absent: true}, map[string]Read[CRD]{"agents": {Absent: true}, "agentruns": {Why: `you cannot get resource "customresourcedefinitions"`}}
	}),
	system(CRDNotEstablished, func(_ *world, o *Observed) {
		o.Kinds = Got([]string{"agents", "agents/status"})
		o.CRDs["agentruns"] = Got(CRD{Says: "NamesAccepted is False: ListKindConflict: AgentRunList is used by another"})
	}),
	system(CRDOld, func(w *world, o *Observed) {
		o.Fields["AgentRun"] = Got(without(w.schemas["AgentRun"], "properties", "status", "properties", "delivery", "properties", "digest"))
	}),
	system(ControllerMissing, func(_ *world, o *Observed) {
		o.Deployments, o.SystemPods = Got([]appsv1.Deployment{}), Got([]corev1.Pod{})
	}),
	ofDeployment(ControllerScaledDown, func(_ *Observed, d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(0)) }),
	ofDeployment(ControllerNoPods, func(o *Observed, d *appsv1.Deployment) {
		o.SystemPods.Value = nil
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: `error looking up service account hearth-system/hearth-controller`}}
	}),
	ofDeployment(ControllerImage, func(o *Observed, _ *appsv1.Deployment) {
		o.SystemPods.Value[0].Status.ContainerStatuses = container("ImagePullBackOff", `Back-off pulling image "registry/none"`, nil)
	}),
	ofDeployment(ControllerCrashes, func(o *Observed, _ *appsv1.Deployment) {
		o.SystemPods.Value[0].Status.ContainerStatuses = container("CrashLoopBackOff", "back-off 40s", &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1})
		o.Tails["hearth-controller-x"] = "controller: --namespaces: no right to work in team\n"
	}),
	ofDeployment(ControllerNotReady, func(o *Observed, _ *appsv1.Deployment) {
		o.SystemPods.Value[0].Status.Conditions[0].Reason, o.SystemPods.Value[0].Status.Conditions[0].Message = "ContainersNotReady", "containers with unready status: [controller]"
	}),
	ofDeployment(ControllerFewer, func(o *Observed, d *appsv1.Deployment) {
		d.Spec.Replicas, d.Status.AvailableReplicas = ptr.To(int32(2)), 1
		o.SystemPods.Value[0].Status.ContainerStatuses = container("ContainerCreating", "", nil)
	}),
	system(LeaderMissing, func(_ *world, o *Observed) { o.Lease.Value.Spec.HolderIdentity = ptr.To("") }),
	{LeaderMissing, "of any shard", func(_ *world, o *Observed) {
		o.Deployments.Value[0].Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--agent-selector=!hearth.dev/shard"}
		o.led()
		o.Agents.Value = nil
	}},
	system(LeaderSilent, func(_ *world, o *Observed) {
		renewed := metav1.NewMicroTime(now.Add(-7 * time.Minute))
		o.Lease.Value.Spec.RenewTime = &renewed
	}),
	system(NamespaceNotServed, func(_ *world, o *Observed) {
		o.Deployments.Value[0].Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--namespaces=default,other"}
	}),
	{NamespaceNotServed, "admission", func(_ *world, o *Observed) {
		o.Admission = Admission{AdmissionNotServed, `[NamespaceNotServed] metadata.namespace: expected a namespace that the controller serves: "default"`}
	}},
	system(WebhookMissing, func(_ *world, o *Observed) { o.Webhooks[0].Read = Got([]Hook(nil)) }),
	system(WebhookOpen, func(_ *world, o *Observed) { o.Webhooks[1].Read.Value[0].FailClosed = false }),
	system(WebhookNoBundle, func(_ *world, o *Observed) { o.Webhooks[1].Read.Value[1].Bundle = nil }),
	system(CertificateMissing, func(_ *world, o *Observed) { o.Certificate = Got([]byte(nil)) }),
	{CertificateMissing, "damaged", func(_ *world, o *Observed) { o.Certificate = Got([]byte("x")) }},
	system(CertificateExpired, func(w *world, o *Observed) { o.Certificate = Got(w.authority.serving(w.t, now.Add(-day))) }),
	system(CertificateNotTrusted, func(w *world, o *Observed) { o.Certificate = Got(newAuthority(w.t).serving(w.t, now.Add(day))) }),
	system(WebhookNoService, func(_ *world, o *Observed) { o.Service = Read[corev1.Service]{Absent: true} }),
	system(WebhookNoEndpoints, func(_ *world, o *Observed) {
		o.Slices.Value[0].Endpoints = []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}}
	}),
	system(AdmissionFails, func(_ *world, o *Observed) {
		o.Admission = Admission{AdmissionNotCalled, `failed calling webhook "resolve.agentruns.hearth.dev": context deadline exceeded`}
	}),
	system(AdmissionBypassed, func(_ *world, o *Observed) { o.Admission = Admission{Answer: AdmissionLets} }),
	system(ControllerRights, func(_ *world, o *Observed) {
		o.ControllerMay.Value[0].Allowed, o.ControllerMay.Value[5].Allowed = false, false
	}),
	{ControllerRights, "of a namespace", func(_ *world, o *Observed) {
		o.Deployments.Value[0].Spec.Template.Spec.Containers[0].Args = []string{"-namespaces", "team"}
		o.ControllerMay.Value[0].Allowed = false
	}},
	system(YourRights, func(_ *world, o *Observed) {
		for i := range o.YouMay.Value {
			o.YouMay.Value[i].Allowed = false
		}
	}),
	ofAgent(AgentMissing, func(_ *Observed, a *AgentSeen) {
		*a = AgentSeen{Name: "reviewer", Agent: Read[hearthv1.Agent]{Absent: true}}
	}),
	system(NoAgents, func(_ *world, o *Observed) { o.Wanted, o.Agents = "", Got([]AgentSeen{}) }),
	ofAgent(ShardUnserved, func(o *Observed, a *AgentSeen) {
		a.Agent.Value.Labels = map[string]string{hearthv1.LabelShard: "blue"}
		o.led(shard.Of("blue").Without())
	}),
	ofAgent(ShardUnserved, func(o *Observed, _ *AgentSeen) { o.led(shard.Of("blue"), shard.Of("green")) }).named("the default one"),
	ofAgent(TemplateNoAgent, func(_ *Observed, a *AgentSeen) { a.Agent.Value.Spec.Template.Spec.Containers[0].Name = "main" }),
	ofAgent(AgentNotLookedAt, func(_ *Observed, a *AgentSeen) { a.Agent.Value.Status.ObservedGeneration = 2 }),
	ofAgent(AgentNotReady, func(_ *Observed, a *AgentSeen) {
		notReady(a, hearthv1.ReasonNotListening, "reviewer-1: container agent: ErrImagePull")
	}),
	ofAgent(AgentNotReady, func(_ *Observed, a *AgentSeen) {
		notReady(a, hearthv1.ReasonNoStandingRun, "a standing run is being made")
		a.Agent.Value.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-5 * time.Second))
	}).named("just now"),
	ofAgent(AgentNotReady, func(_ *Observed, a *AgentSeen) {
		notReady(a, hearthv1.ReasonNoStandingRun, "a standing run is being made")
		a.Agent.Value.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Minute))
	}).named("since long"),
	ofAgent(AgentIdle, func(_ *Observed, a *AgentSeen) { notReady(a, hearthv1.ReasonScaledToZero, "spec.replicas is 0") }),
	ofAgent(AgentSuspended, func(_ *Observed, a *AgentSeen) { notReady(a, hearthv1.ReasonSuspended, "") }),
	ofAgent(SandboxMissing, func(_ *Observed, a *AgentSeen) { a.Agent.Value.Spec.Backend = hearthv1.BackendSandbox }),
	ofAgent(StandingMissing, func(_ *Observed, a *AgentSeen) {
		a.Pods = nil
		a.Agent.Value.Status.Conditions[1] = metav1.Condition{Type: hearthv1.AgentConditionProgressing, Status: metav1.ConditionTrue, Reason: hearthv1.ReasonRecasting, Message: "reviewer-1 ended (PodFailed: …); replaced at 12:00"}
	}),
	ofAgent(StandingFewer, func(_ *Observed, a *AgentSeen) { a.Agent.Value.Spec.Replicas = ptr.To(int32(3)) }),
	ofAgent(PolicyCutsDelivery, func(_ *Observed, a *AgentSeen) {
		a.Policies = Got([]networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "deny-all"}, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}})
	}),
	ofAgent(KeysMissing, func(_ *Observed, a *AgentSeen) { a.Keys["reviewer-acp-view"] = Read[int]{Absent: true} }),
	ofPod(PodMissing, func(p *PodSeen) {
		p.Pod, p.Secret = Read[corev1.Pod]{Absent: true}, Read[int]{Absent: true}
		p.Run.Status.Conditions[0] = metav1.Condition{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionUnknown, Reason: hearthv1.ReasonPodNotRunning, Message: `the API server refused the Pod: exceeded quota: small`}
	}),
	ofPod(PodMissing, func(p *PodSeen) {
		p.Pod, p.Secret = Read[corev1.Pod]{Absent: true}, Read[int]{Absent: true}
		p.Run.CreationTimestamp, p.Run.Status.Conditions = metav1.NewTime(now.Add(-2*time.Second)), nil
	}).named("just made"),
	ofPod(PodNotScheduled, func(p *PodSeen) {
		unready(p, nil)
		p.Pod.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu."}}
	}),
	ofPod(PodImage, func(p *PodSeen) {
		unready(p, container("ErrImagePull", `failed to pull "registry/agent:1": not found`, nil))
		p.Events = []string{`Failed: pull access denied`}
	}),
	ofPod(PodConfig, func(p *PodSeen) {
		unready(p, container("CreateContainerConfigError", `secret "model-key" not found`, nil))
	}),
	ofPod(PodCrashes, func(p *PodSeen) {
		unready(p, container("CrashLoopBackOff", "back-off 10s restarting failed container", exited))
	}),
	{PodCrashes, "without a word", func(_ *world, o *Observed) {
		p := &o.Agents.Value[0].Pods[0]
		unready(p, container("CrashLoopBackOff", "back-off", &corev1.ContainerStateTerminated{ExitCode: 137, Signal: 9}))
		p.Tail = "the last line\nof its log\n"
	}},
	ofPod(PodEnded, func(p *PodSeen) {
		p.Pod.Value.Status.Phase, p.Pod.Value.Status.Reason, p.Pod.Value.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	}),
	ofPod(PodStarting, func(p *PodSeen) { unready(p, container("ContainerCreating", "", nil)) }),
	{PodStarting, "kubelet complains", func(_ *world, o *Observed) {
		p := &o.Agents.Value[0].Pods[0]
		unready(p, container("ContainerCreating", "", nil))
		p.Events = []string{`FailedMount: MountVolume.SetUp failed for volume "hearth-goal" : secret "reviewer-1-01234567-harness" not found`}
	}},
	ofPod(PodTerminating, func(p *PodSeen) {
		at := metav1.NewTime(now.Add(20 * time.Second))
		p.Pod.Value.DeletionTimestamp, p.Pod.Value.DeletionGracePeriodSeconds = &at, ptr.To(int64(30))
	}),
	ofPod(PodLabels, func(p *PodSeen) { delete(p.Pod.Value.Labels, hearthv1.LabelRun) }),
	ofPod(SecretMissing, func(p *PodSeen) { p.Secret = Read[int]{Absent: true} }),
	ofPod(SecretReplaced, func(p *PodSeen) {
		p.Run.Status.Conditions = append(p.Run.Status.Conditions, metav1.Condition{Type: hearthv1.AgentRunConditionCredentialReady, Status: metav1.ConditionFalse, Reason: hearthv1.ReasonCredentialLost, Message: "the Secret of the running Pod is gone or is another one"})
	}),
	ofAgent(SecretMissing, secondStands).named("and another does the work"),
	ofAgent(SecretReplaced, func(o *Observed, a *AgentSeen) {
		secondStands(o, a)
		a.Pods[0].Secret = Got(43)
		cordoned := metav1.NewMicroTime(now.Add(-time.Minute))
		a.Pods[0].Run.Status.CordonedAt = &cordoned
		a.Pods[0].Run.Status.Conditions = append(a.Pods[0].Run.Status.Conditions, metav1.Condition{Type: hearthv1.AgentRunConditionCredentialReady, Status: metav1.ConditionFalse, Reason: hearthv1.ReasonCredentialLost, Message: "the Secret of the running Pod is gone or is another one"})
	}).named("and another does the work"),
	ofPod(AgentNotListening, func(p *PodSeen) {
		p.Pod.Value.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [agent]"}
		p.Events = []string{"Unhealthy: Readiness probe failed: dial tcp 10.0.0.7:4000: connect: connection refused"}
	}),
	heard(DeliveryClosed, HeardClosed, "connection refused"),
	heard(DeliverySilent, HeardSilence, "no answer within 5s"),
	heard(DeliveryNotTLS, HeardNoTLS, "what it answered to a TLS handshake is none"),
	heard(DeliveryOtherKey, HeardOtherKey, "the TLS key is not the Pod's"),
	heard(DeliveryUnproven, HeardUnproven, "it answered 200 without a proof"),
	heard(DeliveryRefused, HeardRefused, "it answered 401 unauthenticated"),
	heard(DeliveryOtherPod, HeardOtherPod, "it says that it is Pod team/other"),
	heard(DeliveryIncompatible, HeardIncompatible, "it serves hearth.dev/delivery/v9"),
	{DeliveryIncompatible, "says the controller", func(_ *world, o *Observed) {
		o.Agents.Value[0].Pods[0].Challenge = Probe{Words: "you cannot get resource \"secrets\""}
		notReady(&o.Agents.Value[0], hearthv1.ReasonTargetIncompatible, "reviewer-1 listens, and its delivery port cannot be talked to: 406")
	}},
	ofPod(DeliveryAgentDown, func(p *PodSeen) { p.Challenge.State = "down" }),
	ofAgent(ControllerCutOff, func(_ *Observed, a *AgentSeen) {
		notReady(a, hearthv1.ReasonTargetUnreachable, "reviewer-1 listens, and its delivery port cannot be talked to: connect: i/o timeout")
	}),
	ofPod(ACPClosed, func(p *PodSeen) { p.ACP = Probe{Heard: HeardClosed, Words: "connection refused"} }),
	ofPod(ACPKeyRefused, func(p *PodSeen) { p.ACP = Probe{Heard: HeardRefused, Words: "401 Unauthorized"} }),
	ofPod(ACPSilent, func(p *PodSeen) { p.ACP = Probe{Heard: HeardSilence, Words: "no answer within 5s"} }),
	waits(RunNotLookedAt, ""),
	waits(RunBlocked, hearthv1.ReasonWaitingForService),
	waits(RunWaits, hearthv1.ReasonTargetBusy),
	{RunWaits, "just made", func(_ *world, o *Observed) {
		r := waitingRun("review-3", hearthv1.ReasonResolved)
		r.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Second))
		o.Runs.Value = append(o.Runs.Value, r)
	}},
	lastRun("", hearthv1.ReasonTargetLost, "Pod reviewer-1 was evicted"),
	lastRun("its model provider", string(wire.ReasonAgentError), "the agent could not get an answer from its model provider"),
}
