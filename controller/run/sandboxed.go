package run

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// What differs when a Sandbox backs the run (R13); the rules of status are the same. All of it is pure.

func (o Observed) sandboxed() bool { return o.Run.Spec.Backend == v1alpha1.BackendSandbox }

// ours is the run's own Sandbox, nil when there is none.
func (o Observed) ours() *sandbox.Sandbox {
	if o.sandboxed() && sandbox.OwnedBy(o.Sandbox, o.Run.UID) {
		return o.Sandbox
	}
	return nil
}

// unmade: nothing was ever made for the run. That a Sandbox was is told by the name in the status; its Pod comes later.
func (o Observed) unmade() bool {
	if o.sandboxed() {
		return o.Run.Status.PodName == "" && o.ours() == nil
	}
	return o.Run.Status.PodUID == ""
}

// nothing: nothing of the run is left, or was ever made, that its status has not pinned. A Pod that a Sandbox left is something.
func (o Observed) nothing() bool {
	return o.Run.Status.PodUID == "" && o.ours() == nil && !(o.sandboxed() && sandbox.Left(o.Run, o.Pod))
}

// unsure: what the cache does not have, or does not see go, would decide something, and only the API server may say that it is gone.
func (o Observed) unsure() bool {
	own := o.own()
	ends := o.stopped() || o.overdue(own)
	if own == nil && (o.Run.Status.PodUID != "" || o.had() != nil || ends) || ends && o.unconfirmed(own) {
		return true
	}
	phase, _ := sandbox.Finished(o.ours())
	return o.sandboxed() && (o.Sandbox == nil && (o.Run.Status.PodName != "" || ends) || o.Pod == nil && phase != "")
}

// replaced: the Pod came back under the same name, which makes it another one.
func (o Observed) replaced() bool {
	return o.Pod != nil && o.Run.Status.PodUID != "" && o.Pod.UID != o.Run.Status.PodUID
}

// losing: the run's Pod is going away or gone. A Sandbox would make another one, and work could be done twice. Without its Sandbox
// a Pod is nobody's, and ends, too.
func (o Observed) losing(own *corev1.Pod) bool {
	if !o.sandboxed() {
		return false
	}
	return o.Gone || o.replaced() || own != nil && (own.DeletionTimestamp != nil || o.ours() == nil)
}

// live: there is something to delete. A Sandbox is deleted even when its Pod has ended: if that Pod went away, another would start.
func (o Observed) live(own *corev1.Pod) bool {
	if s := o.ours(); s != nil {
		return s.DeletionTimestamp == nil
	}
	return own != nil && own.DeletionTimestamp == nil && !pod.Ended(own) && !(o.Run.OneShot() && pod.Over(own))
}

func (o Observed) listening(own *corev1.Pod) (ok bool, message string) {
	if o.sandboxed() {
		return sandbox.Listening(o.ours(), own)
	}
	return pod.Listening(own)
}

func (o Observed) notRunning(own *corev1.Pod) string {
	if o.sandboxed() {
		return sandbox.NotRunning(o.ours(), own)
	}
	return pod.NotRunning(own)
}

// finished is the end as the Sandbox tells it, nil if it tells none.
func (o Observed) finished() *ending {
	switch phase, message := sandbox.Finished(o.ours()); phase {
	case corev1.PodSucceeded:
		return completed(message)
	case corev1.PodFailed:
		return failed(v1alpha1.ReasonPodFailed, message)
	default:
		return nil
	}
}

// made keeps that the run has a Sandbox, before there is a Pod to pin.
func (d *draft) made(o Observed) {
	s := o.ours()
	if s == nil {
		return
	}
	d.PodName = s.Name
	if d.StartTime == nil && o.Gone {
		d.StartTime = ptr.To(metav1.NewMicroTime(s.CreationTimestamp.Time)) // R3; the Pod was never seen
	}
}

// startedAt is the Pod's start, else the Sandbox's creation (R3).
func (o Observed) startedAt(own *corev1.Pod) *metav1.MicroTime {
	if at := started(own, pod.AgentStatus(own)); at != nil {
		return at
	}
	if s := o.ours(); s != nil {
		return ptr.To(metav1.NewMicroTime(s.CreationTimestamp.Time))
	}
	return nil
}
