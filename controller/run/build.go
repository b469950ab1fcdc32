// Package run keeps what runs with a Pod of their own are made of: it makes a run's Secret, Service and Pod, follows the Pod in the
// run's status, and ends it when the run is cancelled, deleted or out of time (R1 to R13; SPEC.md, Lifecycle).
package run

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	// standingGrace is how long, in seconds, a standing Pod may drain when its template does not say: running work, the cancel ladder,
	// handing over.
	standingGrace = 90
	// handOver of it are left for cancelling what still runs and for handing results over.
	handOver = 35
	// oneShotGrace is how long, in seconds, a one-shot run's Pod may take to end: the cancel ladder (10 s for the agent's own answer,
	// then at most 12 s until its last process is dead) and the envelope.
	oneShotGrace = 30
	// messagesBytes is what kubelet keeps of a Pod's termination messages; each container has the same share, and the rest of a longer
	// one is cut off.
	messagesBytes = 12 << 10
)

// BuildPod is the Pod of a run that has one: its template and what the contract needs (SPEC.md, Resources, Agent; Harness). The
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
	grace := int64(standingGrace)
	if run.OneShot() {
		s.RestartPolicy, grace = corev1.RestartPolicyNever, oneShotGrace
	}
	s.EnableServiceLinks = ptr.To(false)
	s.AutomountServiceAccountToken = orDefault(s.AutomountServiceAccountToken, false)
	s.TerminationGracePeriodSeconds = orDefault(s.TerminationGracePeriodSeconds, grace)
	harden(s)
	for i := range s.Containers {
		if s.Containers[i].Name == v1alpha1.AgentContainer {
			harness(s, &s.Containers[i], run)
		}
	}
	return p
}

// pod is the Pod to be made now.
func (o Observed) pod() *corev1.Pod {
	p := BuildPod(o.Run)
	if o.Keyless {
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Env = slices.DeleteFunc(p.Spec.Containers[i].Env, func(e corev1.EnvVar) bool {
				return e.Name == pod.EnvViewKey || e.Name == pod.EnvSteerKey
			})
		}
	}
	if o.Run.OneShot() {
		o.inTrace(p)
	}
	return p
}

// inTrace has the harness of a one-shot run work in the run's trace, as a delivery's headers do it for others. What a template says
// itself stands.
func (o Observed) inTrace(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		for _, v := range []corev1.EnvVar{{Name: envTraceparent, Value: o.Traceparent}, {Name: envTracestate, Value: o.Tracestate}} {
			given := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == v.Name })
			if c.Name == v1alpha1.AgentContainer && v.Value != "" && !given {
				c.Env = append(c.Env, v)
			}
		}
	}
}

// The variables by which a process is told its trace context (OpenTelemetry, Environment Variables as Context Propagation Carriers).
const envTraceparent, envTracestate = "TRACEPARENT", "TRACESTATE"

// harness adds to the agent container what the harness reads, whatever it does.
func harness(s *corev1.PodSpec, c *corev1.Container, run *v1alpha1.AgentRun) {
	c.ReadinessProbe = pod.Probe()
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError // why it did not start is its last line
	}
	port(c, v1alpha1.PortACP, v1alpha1.PortACPNumber)
	variable(c, pod.EnvPodNamespace, "", field("metadata.namespace"))
	variable(c, pod.EnvPodName, "", field("metadata.name"))
	variable(c, pod.EnvPodUID, "", field("metadata.uid"))
	variable(c, pod.EnvACP, ":"+strconv.Itoa(v1alpha1.PortACPNumber), nil)
	if !run.AdHoc() { // the keys are an Agent's
		view, steer := v1alpha1.KeySecretNames(run.Spec.AgentRef.Name)
		variable(c, pod.EnvViewKey, "", key(view))
		variable(c, pod.EnvSteerKey, "", key(steer))
	}
	variable(c, pod.EnvDataDir, pod.DataDir, nil)
	manners(c, run.Spec.Runtime)
	if run.OneShot() {
		runsOnce(s, c, run)
	} else {
		serves(c, run, *s.TerminationGracePeriodSeconds)
	}
	mount(s, c, pod.VolumeData, pod.DataDir, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	if run.Spec.Goal != "" {
		variable(c, pod.EnvGoalFile, pod.GoalDir+"/"+v1alpha1.SecretGoal, nil)
		// Only the goal's key: the token must not lie in a file beside the agent.
		mount(s, c, pod.VolumeGoal, pod.GoalDir, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: v1alpha1.RunSecretName(run.Name, run.UID),
			Items:      []corev1.KeyToPath{{Key: v1alpha1.SecretGoal, Path: v1alpha1.SecretGoal}},
		}})
	}
	if !mounted(c, pod.TmpDir) {
		mount(s, c, pod.VolumeTmp, pod.TmpDir, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}
}

// manners are the terms of the agent's use. What is a harness's own default is left out, so that one that does not know it yet starts, too.
func manners(c *corev1.Container, r *v1alpha1.AgentRuntime) {
	policy := cmp.Or(r.Permissions.Policy, v1alpha1.PermissionDeny)
	variable(c, pod.EnvPermissions, string(policy), nil)
	if s := r.Permissions.AskTimeoutSeconds; s != nil && policy == v1alpha1.PermissionAsk {
		variable(c, pod.EnvAskTimeout, strconv.Itoa(int(*s))+"s", nil)
	}
	if r.Steering == v1alpha1.SteeringSteer {
		variable(c, pod.EnvSteering, string(r.Steering), nil)
	}
	if r.Output.MediaType == v1alpha1.MediaTypeJSON {
		variable(c, pod.EnvOutput, string(r.Output.MediaType), nil)
	}
	if r.Endpoint != "" {
		variable(c, pod.EnvEndpoint, r.Endpoint, nil)
	}
}

// args starts the harness. Without a command the agent is a server beside it.
func args(subcommand string, command []string) []string {
	if len(command) == 0 {
		return []string{subcommand}
	}
	return append([]string{subcommand, "--"}, command...)
}

// serves is what the harness of a standing run does: it takes deliveries, and drains when its Pod ends.
func serves(c *corev1.Container, run *v1alpha1.AgentRun, grace int64) {
	c.Args = args("serve", run.Spec.Runtime.Command)
	variable(c, pod.EnvDrain, strconv.FormatInt(max(0, grace-handOver), 10)+"s", nil)
	d := run.Spec.Runtime.Delivery
	if d == nil {
		return
	}
	port(c, wire.PortName, d.Port)
	variable(c, pod.EnvDelivery, ":"+strconv.Itoa(int(d.Port)), nil)
	variable(c, pod.EnvScheme, string(cmp.Or(d.Scheme, v1alpha1.DeliveryHTTPS)), nil)
	variable(c, pod.EnvConcurrency, strconv.Itoa(int(d.Concurrency)), nil)
	if run.Spec.Runtime.Session == v1alpha1.SessionStanding {
		variable(c, pod.EnvSession, string(v1alpha1.SessionStanding), nil)
	}
	variable(c, pod.EnvQueue, strconv.Itoa(int(ptr.Deref(d.Queue, 0))), nil)
	variable(c, pod.EnvToken, "", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: v1alpha1.RunSecretName(run.Name, run.UID)}, Key: v1alpha1.SecretToken}})
}

// runsOnce is what the harness of a one-shot run does: the goal, within its limits, and an envelope as termination message (R11). Nobody
// delivers to it, so it has neither token nor port. It does not drain: its Pod is deleted in order to stop it.
func runsOnce(s *corev1.PodSpec, c *corev1.Container, run *v1alpha1.AgentRun) {
	c.Args = args("run", run.Spec.Runtime.Command)
	variable(c, pod.EnvRunUID, string(run.UID), nil)
	variable(c, pod.EnvDrain, "0s", nil)
	variable(c, pod.EnvActiveDeadline, strconv.FormatInt(ptr.Deref(run.Spec.ActiveDeadlineSeconds, 0), 10)+"s", nil)
	if b := run.Spec.Budget; b != nil {
		if b.Tokens != nil {
			variable(c, pod.EnvBudgetTokens, strconv.FormatInt(*b.Tokens, 10), nil)
		}
		if b.Cost != nil {
			variable(c, pod.EnvBudgetCost, b.Cost.Amount+" "+b.Cost.Currency, nil)
		}
	}
	if c.TerminationMessagePath != "" {
		variable(c, pod.EnvTerminationLog, c.TerminationMessagePath, nil)
	}
	if kept := messagesBytes / max(1, len(s.InitContainers)+len(s.Containers)); kept < wire.MaxTerminationBytes {
		variable(c, pod.EnvTerminationBytes, strconv.Itoa(max(kept, wire.MinTerminationBytes)), nil)
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
	if !run.AdHoc() {
		labels[v1alpha1.LabelAgent] = run.Spec.AgentRef.Name
	}
	shard.Stamp(labels, run.Labels)
	return labels
}

func orDefault[T any](v *T, otherwise T) *T {
	if v != nil {
		return v
	}
	return &otherwise
}
