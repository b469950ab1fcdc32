package doctor

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// startPatience is how long an agent may be starting before that counts as broken.
const startPatience = time.Minute

// kubelet's words for why a container waits.
var (
	reasonsImage  = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}
	reasonsConfig = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
	reasonCrash   = "CrashLoopBackOff"
)

type complaintKind int

const (
	complaintNone complaintKind = iota
	complaintScheduling
	complaintImage
	complaintConfig
	complaintCrash
	complaintEnded
	complaintStarting
)

// complained is what kubelet or the scheduler says of a Pod.
type complained struct {
	kind      complaintKind
	container string
	words     string
}

// complaint reads a Pod's status: the first thing that keeps it from working, in kubelet's words.
func complaint(p *corev1.Pod, tail string) complained {
	if c := podCondition(p, corev1.PodScheduled); c.Status == corev1.ConditionFalse {
		return complained{kind: complaintScheduling, words: told(c.Reason, c.Message)}
	}
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		words := told(p.Status.Reason, p.Status.Message)
		for _, s := range p.Status.ContainerStatuses {
			if words == "" && s.State.Terminated != nil && (s.State.Terminated.ExitCode != 0 || len(p.Status.ContainerStatuses) == 1) {
				return complained{kind: complaintEnded, container: s.Name, words: "container " + s.Name + ": " + exit(s.State.Terminated, tail)}
			}
		}
		return complained{kind: complaintEnded, words: told("phase "+string(p.Status.Phase), words)}
	}
	starting := complained{}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c := ofContainer(s, tail); c.kind == complaintStarting {
			starting = c
		} else if c.kind != complaintNone {
			return c
		}
	}
	if starting.kind == complaintNone && p.Status.Phase != corev1.PodRunning {
		return complained{kind: complaintStarting, words: told("phase "+string(p.Status.Phase), p.Status.Message)}
	}
	return starting
}

func ofContainer(s corev1.ContainerStatus, tail string) complained {
	said := complained{container: s.Name}
	last := s.LastTerminationState.Terminated
	switch w, t := s.State.Waiting, s.State.Terminated; {
	case w != nil && slices.Contains(reasonsImage, w.Reason):
		said.kind = complaintImage
	case w != nil && slices.Contains(reasonsConfig, w.Reason):
		said.kind = complaintConfig
	case w != nil && (w.Reason == reasonCrash || last != nil):
		said.kind = complaintCrash
	case w != nil:
		said.kind = complaintStarting
	case t != nil && t.ExitCode != 0:
		said.kind, last = complaintCrash, t
	default:
		return complained{}
	}
	said.words = "container " + s.Name
	if w := s.State.Waiting; w != nil {
		said.words += ": " + told(w.Reason, w.Message)
	}
	if last != nil {
		said.words += "; it ended: " + exit(last, tail)
	}
	return said
}

// ofPod are the links of one living run with a Pod of its own.
func (o Observed) ofPod(a AgentSeen, p PodSeen) []link {
	links := []link{
		{linkPod, nil, func() []Finding { return o.pod(p) }},
		{linkLabels, []string{linkPod}, func() []Finding { return o.labels(p) }},
		{linkSecret, nil, func() []Finding { return o.secret(a, p) }},
		{linkListening, []string{linkPod}, func() []Finding { return o.listening(p) }},
	}
	if !p.Run.Standing() {
		return append(links, link{linkACP, []string{linkPod, linkListening}, func() []Finding { return o.acp(p) }})
	}
	if a.Agent.Value.Spec.Runtime.Delivery != nil && (!lostSecret(p) || !replaced(a, p)) { // of one that is being replaced no proof is expected
		links = append(links,
			link{linkChallenge, []string{linkPod, linkSecret}, func() []Finding { return o.challenge(a, p) }},
			link{linkContact, []string{linkController, linkPod, linkSecret, linkListening, linkChallenge}, func() []Finding { return o.contact(a, p) }})
	}
	return append(links, link{linkACP, []string{linkPod, linkListening}, func() []Finding { return o.acp(p) }})
}

func (o Observed) pod(p PodSeen) []Finding {
	switch {
	case p.Pod.Why != "":
		return []Finding{notChecked(p.Pod.Why)}
	case p.Pod.Absent:
		f := fail(PodMissing, "run %s has no Pod", p.Run.Name).saw("%s", o.saysOf(p.Run)).do("kubectl -n %s describe agentrun %s", o.Namespace, p.Run.Name)
		if o.fresh(p.Run.CreationTimestamp) {
			f.Status = StatusHint
		}
		return []Finding{f}
	}
	pod := &p.Pod.Value
	describe := "kubectl -n " + o.Namespace + " describe pod " + pod.Name
	if pod.DeletionTimestamp != nil {
		return []Finding{hint(PodTerminating, "Pod %s is being deleted", pod.Name).saw("since %s", ago(o.Now, pod.DeletionTimestamp.Add(-seconds(pod.DeletionGracePeriodSeconds)))).do("%s", describe)}
	}
	c := complaint(pod, p.Tail)
	switch c.kind {
	case complaintNone:
		return []Finding{ok("Pod %s runs%s", pod.Name, restarts(pod))}
	case complaintScheduling:
		return []Finding{fail(PodNotScheduled, "no node takes Pod %s", pod.Name).saw("%s", c.words).do("%s", describe).do("kubectl get nodes")}
	case complaintImage:
		return []Finding{fail(PodImage, "an image of Pod %s cannot be pulled", pod.Name).saw("%s", withEvents(c.words, p.Events)).
			do("kubectl -n %s get pod %s -o jsonpath='{.spec.containers[*].image} {.spec.imagePullSecrets[*].name}'", o.Namespace, pod.Name).do("%s", o.edit(p.Run))}
	case complaintConfig:
		return []Finding{fail(PodConfig, "kubelet cannot make container %s of Pod %s", c.container, pod.Name).saw("%s", c.words).do("%s", describe).do("%s", o.edit(p.Run))}
	case complaintCrash:
		return []Finding{fail(PodCrashes, "container %s of Pod %s ends again and again", c.container, pod.Name).saw("%s", c.words).
			do("kubectl -n %s logs %s -c %s --previous", o.Namespace, pod.Name, c.container).do("%s", o.edit(p.Run))}
	case complaintEnded:
		return []Finding{fail(PodEnded, "Pod %s has ended", pod.Name).saw("%s", c.words).do("kubectl -n %s describe agentrun %s", o.Namespace, p.Run.Name)}
	case complaintStarting:
		f := hint(PodStarting, "Pod %s is starting", pod.Name).saw("%s", withEvents(c.words, p.Events)).do("%s", describe)
		if len(p.Events) > 0 {
			f.Status = StatusFail // kubelet has complained while it waits: a volume or a Secret that it cannot mount
		}
		return []Finding{f}
	default:
		return nil
	}
}

// unseen says why a Pod was not seen: most often a right that is missing.
func unseen(p PodSeen) string {
	return cmp.Or(p.Pod.Why, "there is no Pod to look at")
}

func withEvents(words string, events []string) string {
	for _, e := range events {
		words += "; " + e
	}
	return words
}

func restarts(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == hearthv1.AgentContainer && s.RestartCount > 0 {
			return "; its container " + s.Name + " was started again " + count(int(s.RestartCount), "time")
		}
	}
	return ""
}

// edit is where a run's template is changed.
func (o Observed) edit(run hearthv1.AgentRun) string {
	if run.AdHoc() {
		return "make the run again with another template"
	}
	return "kubectl -n " + o.Namespace + " edit agent " + run.Spec.AgentRef.Name
}

// labels: the controller's cache holds Pods by them.
func (o Observed) labels(p PodSeen) []Finding {
	if !p.Pod.There() {
		return []Finding{notChecked(unseen(p))}
	}
	got, want := p.Pod.Value.Labels, map[string]string{hearthv1.LabelRun: p.Run.Name}
	if !p.Run.AdHoc() {
		want[hearthv1.LabelAgent] = p.Run.Spec.AgentRef.Name
	}
	if of, named := p.Run.Labels[hearthv1.LabelShard]; named {
		want[hearthv1.LabelShard] = of
	}
	for _, key := range []string{hearthv1.LabelRun, hearthv1.LabelAgent, hearthv1.LabelShard} {
		if value, wanted := want[key]; wanted && got[key] != value {
			return []Finding{fail(PodLabels, "Pod %s has lost the label %s: the controller does not see it", p.Pod.Value.Name, key).saw("%s=%q, expected %q", key, got[key], value).
				do("kubectl -n %s label --overwrite pod %s %s=%s", o.Namespace, p.Pod.Value.Name, key, value)}
		}
	}
	return []Finding{ok("Pod %s has its labels", p.Pod.Value.Name)}
}

// listening: the readiness probe is a dial of port 4000.
func (o Observed) listening(p PodSeen) []Finding {
	if !p.Pod.There() {
		return []Finding{notChecked(unseen(p))}
	}
	switch {
	case p.Pod.Value.DeletionTimestamp != nil:
		return []Finding{notChecked("the Pod is being deleted")}
	case p.Pod.Value.Status.Phase != corev1.PodRunning:
		return []Finding{notChecked("the Pod does not run yet")}
	}
	ready := podCondition(&p.Pod.Value, corev1.PodReady)
	if ready.Status == corev1.ConditionTrue {
		return []Finding{ok("port %d (acp) is open, says kubelet's probe", hearthv1.PortACPNumber)}
	}
	f := fail(AgentNotListening, "the Pod runs, and its agent does not listen on port %d", hearthv1.PortACPNumber).
		saw("%s", withEvents(told(ready.Reason, ready.Message), p.Events)).do("kubectl -n %s logs %s -c %s --tail=20", o.Namespace, p.Pod.Value.Name, hearthv1.AgentContainer)
	if started := p.Pod.Value.Status.StartTime; started != nil && o.Now.Sub(started.Time) < startPatience {
		f.Status = StatusHint
	}
	return []Finding{f}
}

func (o Observed) saysOf(run hearthv1.AgentRun) string {
	c := condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
	if c.Type == "" {
		return "the controller has not looked at it yet"
	}
	return told(c.Reason, c.Message)
}

func podName(run hearthv1.AgentRun) string {
	if run.Status.PodName != "" {
		return run.Status.PodName
	}
	return run.Name
}

func port(a hearthv1.Agent) int {
	if d := a.Spec.Runtime.Delivery; d != nil && d.Port != 0 {
		return int(d.Port)
	}
	return wire.DefaultPort
}

// seconds of grace that a Pod was given.
func seconds(n *int64) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }
