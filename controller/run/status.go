package run

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// Observed is what the controller knows of a standing run when it decides on its status.
type Observed struct {
	Run *v1alpha1.AgentRun
	// Pod has the run's name, whoever owns it; nil when there is none.
	Pod *corev1.Pod
	// Sandbox has the run's name, whoever owns it; nil when there is none, and always for a run that a Pod backs.
	Sandbox *sandbox.Sandbox
	// Gone: the API server itself says that the Pod which the run had is not there any more.
	Gone bool
	// Blocked says why the Secret or the Pod cannot be made; "" when they can.
	Blocked string
	// CredentialLost: the Pod lives and its Secret does not.
	CredentialLost bool
	Now            time.Time
}

// Status is the status that a standing run should have (R2 to R9). A run that has ended keeps the one it has.
func Status(o Observed) v1alpha1.AgentRunStatus {
	s := *o.Run.Status.DeepCopy()
	if s.CompletionTime != nil {
		return s
	}
	d := &draft{AgentRunStatus: s, generation: o.Run.Generation, now: o.Now}
	own := o.own()
	d.made(o)
	if own != nil {
		d.follow(o, own)
	}
	switch end := o.end(own); {
	case end != nil:
		d.finish(*end, own)
	case d.Phase != v1alpha1.PhaseRunning && (own == nil || own.Status.Phase != corev1.PodRunning):
		d.alive(v1alpha1.PhasePending, v1alpha1.ReasonPodNotRunning, cmp.Or(o.Blocked, o.notRunning(own)))
	default:
		d.alive(v1alpha1.PhaseRunning, v1alpha1.ReasonRunning, "")
	}
	if d.CompletionTime == nil {
		if o.Run.Spec.Cancel {
			d.set(v1alpha1.AgentRunConditionSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonCancelling, "waiting for the Pod to end")
		}
		d.listening(o, own)
		d.credential(o.CredentialLost)
	}
	return d.AgentRunStatus
}

// own is the run's own Pod: owned by this run, or by its Sandbox, and, once one was seen, the same one. A name alone proves nothing.
func (o Observed) own() *corev1.Pod {
	if o.sandboxed() {
		return sandbox.Own(o.Run, o.Sandbox, o.Pod)
	}
	if o.Pod == nil || !pod.OwnedBy(o.Pod, o.Run.UID) || o.Run.Status.PodUID != "" && o.Run.Status.PodUID != o.Pod.UID {
		return nil
	}
	return o.Pod
}

// ending is how a standing run ended.
type ending struct {
	outcome metav1.ConditionStatus
	reason  string
	message string
}

// end looks for the end before anything else (R8): a Pod that failed before its port was bound is Failed, never Running.
func (o Observed) end(own *corev1.Pod) *ending {
	gone := o.Gone || o.replaced()
	switch cancelled := o.Run.Spec.Cancel; {
	case !admitted(o.Run) && o.unmade(): // one that had a Pod was: --cascade=orphan took its Agent away
		return &ending{metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, "the run was stored without admission: nothing was started"}
	case cancelled && (gone || pod.Ended(own) || own == nil && o.nothing()):
		return &ending{metav1.ConditionFalse, v1alpha1.ReasonCancelled, "cancelled"}
	case own != nil && own.Status.Phase == corev1.PodSucceeded:
		return &ending{metav1.ConditionTrue, v1alpha1.ReasonCompleted, pod.End(own)}
	case own != nil && own.Status.Phase == corev1.PodFailed:
		return &ending{metav1.ConditionFalse, v1alpha1.ReasonPodFailed, pod.End(own)}
	case o.Gone && o.finished() != nil:
		return o.finished()
	case gone && o.Run.Status.PodUID == "":
		return &ending{metav1.ConditionFalse, v1alpha1.ReasonPodFailed, "the Sandbox was deleted"}
	case gone:
		return &ending{metav1.ConditionFalse, v1alpha1.ReasonPodFailed, "the Pod was deleted"}
	default:
		return nil
	}
}

// draft is a status in the making.
type draft struct {
	v1alpha1.AgentRunStatus
	generation int64
	now        time.Time
}

func (d *draft) follow(o Observed, p *corev1.Pod) {
	d.PodName, d.PodUID = p.Name, p.UID
	agent := pod.AgentStatus(p)
	if agent != nil {
		d.Restarts = agent.RestartCount
	}
	if d.StartTime == nil && (p.Status.Phase == corev1.PodRunning || pod.Ended(p)) {
		d.StartTime = o.startedAt(p)
	}
}

// started is the container's start, else the Pod's (R3).
func started(p *corev1.Pod, agent *corev1.ContainerStatus) *metav1.MicroTime {
	if agent != nil {
		for _, state := range []corev1.ContainerState{agent.LastTerminationState, agent.State} {
			if t := state.Terminated; t != nil && !t.StartedAt.IsZero() {
				return ptr.To(metav1.NewMicroTime(t.StartedAt.Time))
			}
			if r := state.Running; r != nil && !r.StartedAt.IsZero() {
				return ptr.To(metav1.NewMicroTime(r.StartedAt.Time))
			}
		}
	}
	if p.Status.StartTime != nil {
		return ptr.To(metav1.NewMicroTime(p.Status.StartTime.Time))
	}
	return nil
}

func (d *draft) alive(phase v1alpha1.Phase, reason, message string) {
	d.Phase = phase
	d.set(v1alpha1.AgentRunConditionSucceeded, metav1.ConditionUnknown, reason, message)
}

// finish writes everything at once, because nothing can be added to a record (R4: ACPReady on every path that ends a run).
func (d *draft) finish(e ending, own *corev1.Pod) {
	d.Phase = v1alpha1.PhaseFailed
	if e.outcome == metav1.ConditionTrue {
		d.Phase = v1alpha1.PhaseSucceeded
	}
	end := d.now
	if agent := agentOf(own); agent != nil && agent.State.Terminated != nil && !agent.State.Terminated.FinishedAt.IsZero() {
		end = agent.State.Terminated.FinishedAt.Time
	}
	d.CompletionTime, d.RecordedAt = ptr.To(metav1.NewMicroTime(end)), ptr.To(metav1.NewMicroTime(d.now))
	if d.StartTime != nil {
		d.DurationSeconds = ptr.To(int64(max(0, end.Sub(d.StartTime.Time)).Seconds()))
	}
	d.Reason, d.Message, d.Address = e.reason, clip(e.message, v1alpha1.MaxMessageBytes), ""
	d.set(v1alpha1.AgentRunConditionSucceeded, e.outcome, e.reason, e.message)
	d.set(v1alpha1.AgentRunConditionACPReady, metav1.ConditionFalse, v1alpha1.ReasonFinished, "the run has ended")
}

func agentOf(p *corev1.Pod) *corev1.ContainerStatus {
	if p == nil {
		return nil
	}
	return pod.AgentStatus(p)
}

func (d *draft) listening(o Observed, own *corev1.Pod) {
	ok, message := o.listening(own)
	if ok {
		d.Address = pod.Address(own)
		d.set(v1alpha1.AgentRunConditionACPReady, metav1.ConditionTrue, v1alpha1.ReasonListening, message)
		return
	}
	d.Address = ""
	d.set(v1alpha1.AgentRunConditionACPReady, metav1.ConditionFalse, v1alpha1.ReasonNotListening, cmp.Or(o.Blocked, message))
}

// credential is said only once it was lost: a token is never made anew for a live Pod.
func (d *draft) credential(lost bool) {
	if lost {
		d.set(v1alpha1.AgentRunConditionCredentialReady, metav1.ConditionFalse, v1alpha1.ReasonCredentialLost,
			"the Secret of the running Pod is gone or is another one: the run is replaced, and what it is at work on may end first")
	}
}

func (d *draft) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: clip(message, v1alpha1.MaxMessageBytes),
		ObservedGeneration: d.generation, LastTransitionTime: metav1.NewTime(d.now),
	})
}
