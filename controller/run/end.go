package run

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// ending is how a run ended.
type ending struct {
	succeeded bool
	delivery.Ending
}

func failed(reason, message string) *ending {
	return &ending{Ending: delivery.Ending{Reason: delivery.Reason(reason), Message: clip(message, v1alpha1.MaxMessageBytes)}}
}

// end looks for the end before anything else (R8): a Pod that failed before its port was bound is Failed, never Running. nil: the run
// lives.
func (o Observed) end() *ending {
	own := o.own()
	if !admitted(o.Run) && o.unmade() { // one that had a Pod was: --cascade=orphan took its Agent away
		return failed(v1alpha1.ReasonNotAdmitted, "the run was stored without admission: nothing was started")
	}
	if o.Run.OneShot() {
		return o.endOfOneShot(own)
	}
	gone := o.gone()
	switch {
	case o.Run.Spec.Cancel && (gone || pod.Ended(own) || own == nil && o.nothing()):
		return failed(v1alpha1.ReasonCancelled, "cancelled")
	case own != nil && own.Status.Phase == corev1.PodSucceeded:
		return completed(pod.End(own))
	case own != nil && own.Status.Phase == corev1.PodFailed:
		return failed(v1alpha1.ReasonPodFailed, pod.End(own))
	case o.Gone && o.finished() != nil:
		return o.finished()
	case gone && o.Run.Status.PodUID == "":
		return failed(v1alpha1.ReasonPodFailed, "the Sandbox was deleted")
	case gone:
		return failed(v1alpha1.ReasonPodFailed, "the Pod was deleted")
	default:
		return nil
	}
}

func completed(message string) *ending {
	e := failed(v1alpha1.ReasonCompleted, message)
	e.succeeded = true
	return e
}

// gone: the Pod that the run had is not there any more; another one of its name is not it.
func (o Observed) gone() bool {
	return o.Gone || o.replaced() || o.Run.Status.PodUID == "" && o.own() == nil && o.had() != nil
}

// had is the run's Pod as it was when it was removed, if this process saw that. Nobody may have written down that there was one.
func (o Observed) had() *corev1.Pod {
	pinned := o.Run.Status.PodUID
	switch last := o.Last; {
	case last == nil, pinned != "" && pinned != last.UID:
		return nil
	case pinned != "", pod.OwnedBy(last, o.Run.UID), o.ours() != nil && pod.OwnedBy(last, o.ours().UID):
		return last
	default:
		return nil
	}
}

// last is the run's Pod: as it is, or as it was last seen before it went.
func (o Observed) last() *corev1.Pod {
	if own := o.own(); own != nil {
		return own
	}
	if o.gone() {
		return o.had()
	}
	return nil
}

// stopped: somebody wants the run to end.
func (o Observed) stopped() bool { return o.Run.Spec.Cancel || o.Run.DeletionTimestamp != nil }

// endOfOneShot: what the harness left as it ended counts before anything else; then what is known of the container and the Pod; then why
// it was to end. What nobody confirmed is said to be unknown, never to be stopped.
func (o Observed) endOfOneShot(own *corev1.Pod) *ending {
	p := o.last()
	switch {
	case o.Never:
		return failed(v1alpha1.ReasonInvalidTemplate, o.Blocked)
	case p != nil && (pod.Exit(p) != nil || pod.Ended(p)):
		return o.result(p)
	case o.gone():
		return o.endOfGone(p)
	case own == nil && o.nothing():
		return o.endOfNone()
	case o.unconfirmed(own) && o.stopped():
		return failed(v1alpha1.ReasonCancelUnconfirmed, "the Pod did not end in its grace period and 30 s: its node may be gone, and the agent may run on")
	case o.unconfirmed(own) && o.overdue(own), o.stuck(own):
		return failed(v1alpha1.ReasonOutcomeUnknown, "out of time, and the Pod did not end in its grace period and 30 s: its node may be gone, and the agent may run on")
	default:
		return nil
	}
}

// endOfGone is the end of a run whose Pod was removed and left nothing; p is what was last seen of it, if anything was.
func (o Observed) endOfGone(p *corev1.Pod) *ending {
	told := o.finished()
	switch late := o.overdue(p); {
	case told != nil && (told.succeeded || !o.stopped() && !late):
		return told
	case o.stopped():
		return failed(v1alpha1.ReasonCancelled, "cancelled: the Pod is gone"+o.mayHaveStarted(p))
	case late && o.begun(p):
		return failed(v1alpha1.ReasonDeadlineExceeded, o.long()+": the Pod was deleted")
	case late:
		return failed(v1alpha1.ReasonStartingDeadlineExceeded, o.late()+": "+o.why(p))
	default:
		return failed(v1alpha1.ReasonTargetLost, "the Pod was deleted"+o.mayHaveStarted(p))
	}
}

// endOfNone is the end of a run that never had a Pod.
func (o Observed) endOfNone() *ending {
	switch {
	case o.stopped():
		return failed(v1alpha1.ReasonCancelled, "cancelled before it had a Pod: nothing was started")
	case o.overdue(nil):
		return failed(v1alpha1.ReasonStartingDeadlineExceeded, o.late()+": "+o.why(nil))
	default:
		return nil
	}
}

// result is the end of a Pod that has one (R11).
func (o Observed) result(p *corev1.Pod) *ending {
	t := pod.Exit(p)
	if t == nil {
		t = &corev1.ContainerStateTerminated{}
	}
	if envelope, err := wire.DecodeTermination([]byte(t.Message)); err == nil {
		e := &ending{succeeded: envelope.Outcome == wire.OutcomeSucceeded, Ending: delivery.NewEnding(o.Now, envelope)}
		if reason := o.cutOff(p, t); reason != "" && envelope.Outcome == wire.OutcomeCancelled && !o.stopped() {
			e.Reason, e.Message = delivery.Reason(reason), clip(o.told(reason, p), v1alpha1.MaxMessageBytes)
		}
		return e
	}
	e := o.exit(p, t)
	if !pod.Unknown(t) { // those words are kubelet's
		e.Data = wire.CutText(wire.CleanText(t.Message), delivery.MaxMessageBytes)
	}
	return e
}

// exit is the end that exit code and Pod tell of, where no envelope does.
func (o Observed) exit(p *corev1.Pod, t *corev1.ContainerStateTerminated) *ending {
	switch reason := o.cutOff(p, t); {
	case o.stopped() && (pod.CutOff(p) || pod.Lost(p)) && !o.begun(p):
		return failed(v1alpha1.ReasonCancelled, "cancelled before it was seen to start")
	case o.stopped() && (pod.CutOff(p) || pod.Lost(p)):
		return failed(v1alpha1.ReasonCancelled, "cancelled: "+pod.End(p))
	case reason != "":
		return failed(reason, o.told(reason, p))
	case pod.Lost(p):
		return failed(v1alpha1.ReasonTargetLost, pod.End(p)+o.mayHaveStarted(p))
	case pod.CutOff(p):
		return failed(v1alpha1.ReasonTargetLost, "the Pod was deleted"+o.mayHaveStarted(p)+": "+pod.End(p))
	case p.Status.Phase == corev1.PodSucceeded, pod.Exit(p) != nil && t.ExitCode == 0:
		return completed(pod.End(p))
	default:
		return failed(v1alpha1.ReasonPodFailed, pod.End(p))
	}
}

// cutOff is the deadline that a Pod was deleted for, "" if none. One whose container had just started when its time to start was over may
// have had effects.
func (o Observed) cutOff(p *corev1.Pod, t *corev1.ContainerStateTerminated) string {
	switch {
	case !pod.CutOff(p):
		return ""
	case !t.StartedAt.IsZero() && !t.StartedAt.Time.Before(startBy(o.Run).Truncate(time.Second)), !pod.Started(p) && o.overdue(p):
		return v1alpha1.ReasonStartingDeadlineExceeded
	case pod.Started(p) && o.overdue(p):
		return v1alpha1.ReasonDeadlineExceeded
	default:
		return ""
	}
}

func (o Observed) told(reason string, p *corev1.Pod) string {
	switch {
	case reason == v1alpha1.ReasonDeadlineExceeded:
		return o.long() + ": the Pod was deleted"
	case pod.Started(p):
		return o.late() + ": its Pod was deleted when it had just started, and may have had effects"
	default:
		return o.late() + ": " + o.why(p)
	}
}

func (o Observed) mayHaveStarted(p *corev1.Pod) string {
	if o.begun(p) {
		return " while it had the run"
	}
	return ": it may have started"
}

// why says why a run has not started: what its Pod says, or what was said before its end, at which kubelet says something else.
func (o Observed) why(p *corev1.Pod) string {
	if p != nil && !pod.Ended(p) && pod.Exit(p) == nil {
		return pod.NotRunning(p)
	}
	before := ""
	if c := meta.FindStatusCondition(o.Run.Status.Conditions, v1alpha1.AgentRunConditionSucceeded); c != nil {
		before = strings.TrimPrefix(c.Message, o.late()+": ")
	}
	return cmp.Or(before, "no Pod was made")
}
