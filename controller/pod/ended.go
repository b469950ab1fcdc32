package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// defaultGrace is Kubernetes' own, where a Pod says none.
const defaultGrace = 30 * time.Second

// fromOutside are the reasons of Pods that kubelet or the node's controller ended, whatever their containers were doing: eviction, a
// node's shutdown (by its present and its older word), preemption, a lost node.
var fromOutside = []string{"Evicted", "Terminated", "Shutdown", "NodeShutdown", "Preempting", "NodeLost"}

// statusUnknown is kubelet's word for a container that it does not find any more.
const statusUnknown = "ContainerStatusUnknown"

// Unknown tells whether kubelet did not find a container any more when its Pod ended. It says so of containers that never started, too.
func Unknown(t *corev1.ContainerStateTerminated) bool { return t.Reason == statusUnknown }

// Started tells whether the agent container has ever started, as far as kubelet has told.
func Started(p *corev1.Pod) bool {
	s := AgentStatus(p)
	if s == nil {
		return false
	}
	ended := s.State.Terminated
	return s.State.Running != nil || s.LastTerminationState.Terminated != nil || ended != nil && !(Unknown(ended) && ended.StartedAt.IsZero())
}

// Exit is how the agent container of a Pod that restarts nothing ended; nil while it has not.
func Exit(p *corev1.Pod) *corev1.ContainerStateTerminated {
	if s := AgentStatus(p); s != nil {
		return s.State.Terminated
	}
	return nil
}

// Over tells whether no container of a Pod that restarts nothing runs, or will, though its phase may not say so yet.
func Over(p *corev1.Pod) bool {
	all := p.Status.ContainerStatuses
	return Ended(p) || len(all) > 0 && len(all) == len(p.Spec.Containers) &&
		!slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil })
}

// Lost tells whether a Pod was ended from outside: evicted, preempted, its node shut down or gone. What its containers did until then
// nobody knows.
func Lost(p *corev1.Pod) bool {
	if slices.Contains(fromOutside, p.Status.Reason) {
		return true
	}
	if t := Exit(p); t != nil && Unknown(t) {
		return true
	}
	disrupted := condition(p, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Status == corev1.ConditionTrue
}

// CutOff tells whether the agent container ended after the Pod was told to: then its exit code says nothing about its work. Times
// have whole seconds, and one that ended in the same second counts as cut off.
func CutOff(p *corev1.Pod) bool {
	if p.DeletionTimestamp == nil {
		return false
	}
	asked := p.DeletionTimestamp.Add(-time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second).Truncate(time.Second)
	t := Exit(p)
	return t == nil || t.FinishedAt.IsZero() || !t.FinishedAt.Time.Before(asked)
}

// Grace is how long the Pod may take to end.
func Grace(s *corev1.PodSpec) time.Duration {
	if s.TerminationGracePeriodSeconds == nil {
		return defaultGrace
	}
	return time.Duration(*s.TerminationGracePeriodSeconds) * time.Second
}
