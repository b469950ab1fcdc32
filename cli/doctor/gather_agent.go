package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// maxRuns, maxAgents and maxPods bound what is looked at; pageRuns is how many runs are read at once, goals and outputs included.
	maxRuns   = 2000
	pageRuns  = 50
	maxAgents = 50
	maxPods   = 5
	// maxEvents is how many of a Pod's warnings are repeated, tailLines and tailBytes how much of a log.
	maxEvents = 2
	tailLines = 5
	tailBytes = 2 << 10
	// minScrubbed is the shortest secret that is looked for in a log.
	minScrubbed = 8
)

// agents are the Agents to look at, their runs and what is in their Pods.
func (c *Cluster) agents(ctx context.Context, seen *Observed) {
	c.runs(ctx, seen)
	switch {
	case seen.Wanted != "":
		agent := object[hearthv1.Agent](ctx, c, seen.Namespace, seen.Wanted)
		seen.Agents = Got([]AgentSeen{{Name: seen.Wanted, Agent: agent}})
		if agent.Why != "" {
			seen.Agents.Why = agent.Why
		}
	default:
		seen.Agents = read(ctx, func(ctx context.Context) (found []AgentSeen, err error) {
			var list hearthv1.AgentList
			err = c.client.List(ctx, &list, client.InNamespace(seen.Namespace), client.Limit(maxAgents))
			for _, a := range list.Items {
				found = append(found, AgentSeen{Name: a.Name, Agent: Got(a)})
			}
			return found, err
		})
	}
	for i := range seen.Agents.Value {
		if a := &seen.Agents.Value[i]; a.Agent.There() {
			c.agent(ctx, seen, a)
		}
	}
	if seen.Wanted != "" { // the others' runs are nobody's question
		seen.Runs.Value = slices.DeleteFunc(seen.Runs.Value, func(r hearthv1.AgentRun) bool { return r.Spec.AgentRef.Name != seen.Wanted })
	}
}

// runs are read a page at a time, and kept without what may be confidential or large.
func (c *Cluster) runs(ctx context.Context, seen *Observed) {
	more := ""
	for {
		page := read(ctx, func(ctx context.Context) (hearthv1.AgentRunList, error) {
			var found hearthv1.AgentRunList
			err := c.client.List(ctx, &found, client.InNamespace(seen.Namespace), client.Limit(pageRuns), client.Continue(more))
			return found, err
		})
		if seen.Runs.Why = page.Why; page.Why != "" {
			return
		}
		for _, run := range page.Value.Items {
			run.Spec.Goal, run.Spec.Parameters, run.Spec.Template, run.Status.Output, run.Status.TerminationData = "", nil, nil, nil, ""
			seen.Runs.Value = append(seen.Runs.Value, run)
		}
		if more = page.Value.Continue; more == "" {
			return
		}
		if len(seen.Runs.Value) >= maxRuns {
			seen.MoreRun = true
			return
		}
	}
}

func (c *Cluster) agent(ctx context.Context, seen *Observed, a *AgentSeen) {
	if a.Agent.Value.Spec.Backend == hearthv1.BackendSandbox {
		a.Sandbox = read(ctx, func(ctx context.Context) (bool, error) {
			_, _, err := c.get(ctx, "apis/agents.x-k8s.io/v1beta1", nil)
			return err == nil, err
		})
	}
	keys := map[string]string{} // kept for the look at the port, and to take them out of logs
	a.Keys = map[string]Read[int]{}
	view, steer := hearthv1.KeySecretNames(a.Name)
	for _, name := range []string{view, steer} {
		secret := object[corev1.Secret](ctx, c, seen.Namespace, name)
		keys[name] = string(secret.Value.Data[hearthv1.SecretKey])
		a.Keys[name] = Read[int]{Value: len(keys[name]), Absent: secret.Absent, Why: secret.Why}
	}
	a.Policies = read(ctx, func(ctx context.Context) ([]networkingv1.NetworkPolicy, error) {
		var found networkingv1.NetworkPolicyList
		err := c.client.List(ctx, &found, client.InNamespace(seen.Namespace))
		return found.Items, err
	})
	a.ControllerLabels, a.SystemLabels = ControllerLabels(), map[string]string{corev1.LabelMetadataName: seen.System}
	if len(a.Policies.Value) > 0 {
		if namespace := object[corev1.Namespace](ctx, c, "", seen.System); namespace.There() {
			a.SystemLabels = namespace.Value.Labels
		}
	}
	for _, run := range seen.Runs.Value {
		mine := run.Spec.AgentRef.Name == a.Name && (run.Spec.AgentRef.UID == a.Agent.Value.UID || run.Spec.AgentRef.UID == "")
		if mine && !run.Ended() && !run.Delivered() && len(a.Pods) < maxPods {
			a.Pods = append(a.Pods, c.pod(ctx, seen, a, run, cmp.Or(keys[view], keys[steer])))
		}
	}
}

// pod looks at one run's Pod and, where it runs, at its ports.
func (c *Cluster) pod(ctx context.Context, seen *Observed, a *AgentSeen, run hearthv1.AgentRun, key string) PodSeen {
	p := PodSeen{Run: run, Pod: object[corev1.Pod](ctx, c, seen.Namespace, podName(run))}
	secret := object[corev1.Secret](ctx, c, seen.Namespace, hearthv1.RunSecretName(run.Name, run.UID))
	token := string(secret.Value.Data[hearthv1.SecretToken])
	p.Secret = Read[int]{Value: len(token), Absent: secret.Absent, Why: secret.Why}
	if !p.Pod.There() {
		return p
	}
	pod := &p.Pod.Value
	if podCondition(pod, corev1.PodReady).Status != corev1.ConditionTrue {
		p.Events = c.events(ctx, pod)
		if run.Standing() {
			p.Tail = scrubbed(c.tail(ctx, pod), token, key)
		}
	}
	const dead = "the Pod does not run"
	p.Challenge, p.ACP = Probe{Words: dead}, Probe{Words: dead}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || complaint(pod, "").kind != complaintNone {
		return p
	}
	switch d := a.Agent.Value.Spec.Runtime.Delivery; {
	case d == nil || !run.Standing():
		p.Challenge.Words = "nothing is delivered to it"
	case p.Secret.Why != "":
		p.Challenge.Words = p.Secret.Why
	case token == "":
		p.Challenge.Words = "its Secret is not there"
	default:
		p.Challenge = c.challenge(ctx, target{namespace: seen.Namespace, pod: pod.Name, uid: string(pod.UID), port: port(a.Agent.Value), scheme: d.Scheme}, []byte(token))
	}
	view, _ := hearthv1.KeySecretNames(a.Name)
	switch {
	case key != "":
		p.ACP = c.acp(ctx, seen.Namespace, pod.Name, key)
	case a.Keys[view].Why != "":
		p.ACP.Words = a.Keys[view].Why
	default:
		p.ACP.Words = "there is no key to ask with"
	}
	return p
}

// events are the newest warnings about a Pod: what kubelet complains of while a container waits.
func (c *Cluster) events(ctx context.Context, pod *corev1.Pod) (words []string) {
	found := read(ctx, func(ctx context.Context) (corev1.EventList, error) {
		var list corev1.EventList
		err := c.client.List(ctx, &list, client.InNamespace(pod.Namespace), client.Limit(pageRuns),
			client.MatchingFields{"involvedObject.name": pod.Name, "involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning})
		return list, err
	}).Value.Items
	slices.SortFunc(found, func(a, b corev1.Event) int { return cmp.Compare(when(b).UnixNano(), when(a).UnixNano()) })
	for _, e := range found {
		if e.Reason != "FailedScheduling" && len(words) < maxEvents { // the scheduler's word of now is the Pod's condition
			words = append(words, oneLine(told(e.Reason, e.Message), maxSaw/2))
		}
	}
	return words
}

func when(e corev1.Event) time.Time {
	for _, t := range []metav1.Time{e.LastTimestamp, metav1.NewTime(e.EventTime.Time)} {
		if !t.IsZero() {
			return t.Time
		}
	}
	return e.CreationTimestamp.Time
}

// tail is the end of the log of a container's life that ended without a word of its own.
func (c *Cluster) tail(ctx context.Context, pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		last := s.LastTerminationState.Terminated
		if previous := s.State.Terminated == nil; !previous {
			last = s.State.Terminated
		}
		if last == nil || last.Message != "" || last.ExitCode == 0 {
			continue
		}
		query := url.Values{"container": {s.Name}, "tailLines": {strconv.Itoa(tailLines)}, "limitBytes": {strconv.Itoa(tailBytes)}}
		if s.State.Terminated == nil {
			query.Set("previous", "true")
		}
		log := read(ctx, func(ctx context.Context) (string, error) {
			body, _, err := c.get(ctx, fmt.Sprintf("api/v1/namespaces/%s/pods/%s/log", pod.Namespace, pod.Name), query)
			return string(body), err
		})
		return log.Value
	}
	return ""
}

// scrubbed is a text without secrets, should one be in it.
func scrubbed(text string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= minScrubbed {
			text = strings.ReplaceAll(text, secret, "(redacted)")
		}
	}
	return text
}
