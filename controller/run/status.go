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
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/delivery"
)

// Observed is what the controller knows of a run with a Pod of its own when it decides on its status.
type Observed struct {
	Run *v1alpha1.AgentRun
	// Pod has the run's name, whoever owns it; nil when there is none.
	Pod *corev1.Pod
	// Sandbox has the run's name, whoever owns it; nil when there is none, and always for a run that a Pod backs.
	Sandbox *sandbox.Sandbox
	// Gone: the API server itself says that the Pod which the run had is not there any more.
	Gone bool
	// Last is a Pod of the run that is gone, as this process last saw it; nil if it did not.
	Last *corev1.Pod
	// Blocked says why what the run needs cannot be made; "" when it can.
	Blocked string
	// Never: the API server refuses it for what the run's spec says, which does not change.
	Never bool
	// Keyless: the Secrets for people are not this run's Agent's, so nobody gets into its Pod with them.
	Keyless bool
	// CredentialLost: the Pod lives and its Secret does not.
	CredentialLost bool
	// Begun is when this process first saw that the agent's container had started, by its own clock; zero if it did not.
	Begun time.Time
	// Traceparent and Tracestate are the context of the run's trace; "" without one.
	Traceparent, Tracestate string
	Now                     time.Time
}

// Status is the status that a run with a Pod of its own should have (R2 to R11). A run that has ended keeps the one it has.
func Status(o Observed) v1alpha1.AgentRunStatus {
	if o.Run.Ended() {
		return *o.Run.Status.DeepCopy()
	}
	return o.status(o.end())
}

// status is that of a run that ended so; nil is one that lives.
func (o Observed) status(e *ending) v1alpha1.AgentRunStatus {
	d := &draft{AgentRunStatus: *o.Run.Status.DeepCopy(), generation: o.Run.Generation, now: o.Now}
	own := o.own()
	d.made(o)
	if p := o.last(); p != nil {
		d.follow(o, p)
	}
	if e != nil {
		d.finish(*e, o.last())
		return d.AgentRunStatus
	}
	if d.Phase != v1alpha1.PhaseRunning && (own == nil || own.Status.Phase != corev1.PodRunning) {
		message := cmp.Or(o.Blocked, o.notRunning(own))
		if o.overdue(own) && !o.begun(own) {
			message = o.late() + ": " + message
		}
		d.alive(v1alpha1.PhasePending, v1alpha1.ReasonPodNotRunning, message)
	} else {
		message := ""
		if o.overdue(own) {
			message = o.long() + ": waiting for the Pod to end"
		}
		d.alive(v1alpha1.PhaseRunning, v1alpha1.ReasonRunning, message)
	}
	if o.Run.Spec.Cancel {
		d.set(v1alpha1.AgentRunConditionSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonCancelling, "waiting for the Pod to end")
	}
	d.listening(o, own)
	d.credential(o.CredentialLost)
	return d.AgentRunStatus
}

// own is the run's own Pod: the one that its status pins, or before one was seen, one that it owns, or its Sandbox. A name alone proves
// nothing.
func (o Observed) own() *corev1.Pod {
	if o.sandboxed() {
		return sandbox.Own(o.Run, o.Sandbox, o.Pod)
	}
	switch pinned := o.Run.Status.PodUID; {
	case o.Pod == nil, pinned != "" && pinned != o.Pod.UID, pinned == "" && !pod.OwnedBy(o.Pod, o.Run.UID):
		return nil
	default:
		return o.Pod
	}
}

// draft is a status in the making.
type draft struct {
	v1alpha1.AgentRunStatus
	generation int64
	now        time.Time
}

// follow takes over what the run's Pod shows. The container of a one-shot run may have started, and ended, before every other container
// of its Pod could: that counts as its start. One that never started has no start, whenever its Pod began.
func (d *draft) follow(o Observed, p *corev1.Pod) {
	d.PodName, d.PodUID = p.Name, p.UID
	agent := pod.AgentStatus(p)
	if agent != nil {
		d.Restarts = agent.RestartCount
	}
	if d.StartTime == nil && (p.Status.Phase == corev1.PodRunning || pod.Started(p) && o.Run.OneShot() || pod.Ended(p) && !o.Run.OneShot()) {
		if at := o.startedAt(p); at != nil {
			d.StartTime = ptr.To(metav1.NewMicroTime(delivery.Plausible(o.Now, at.Time)))
		}
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

// finish writes everything at once, because nothing can be added to a record (R4: ACPReady on every path that ends a run). Its times are
// those of the container.
func (d *draft) finish(e ending, p *corev1.Pod) {
	verdict := metav1.ConditionFalse
	d.Phase = v1alpha1.PhaseFailed
	if e.succeeded {
		d.Phase, verdict = v1alpha1.PhaseSucceeded, metav1.ConditionTrue
	}
	e.CompletionTime, e.RecordedAt, e.DurationSeconds = d.now, d.now, nil
	if agent := agentOf(p); agent != nil && agent.State.Terminated != nil && !agent.State.Terminated.FinishedAt.IsZero() {
		e.CompletionTime = delivery.Plausible(d.now, agent.State.Terminated.FinishedAt.Time)
	}
	if d.StartTime != nil {
		e.DurationSeconds = ptr.To(int64(max(0, e.CompletionTime.Sub(d.StartTime.Time)).Seconds()))
	}
	d.Address = ""
	record.Put(&d.AgentRunStatus, e.Ending)
	d.set(v1alpha1.AgentRunConditionSucceeded, verdict, string(e.Reason), e.Message)
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
		if o.Blocked != "" {
			message += "; " + o.Blocked
		}
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
