package run

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// slack is how much later than the harness's the controller's own deadline is, and how long after its grace period a Pod that was told
// to end may be there before its end counts as not confirmed.
const slack = 30 * time.Second

// patience is how long somebody else has to remove what a Sandbox left, after the run is out of time.
const patience = 5 * time.Minute

// begun tells whether the agent's container has started; p is the run's Pod, there or last seen.
func (o Observed) begun(p *corev1.Pod) bool {
	return o.Run.Status.StartTime != nil || o.Run.Status.Phase == v1alpha1.PhaseRunning || p != nil && pod.Started(p)
}

// startBy is until when the agent's container must have started, counted by the API server's clock from the run's creation.
func startBy(run *v1alpha1.AgentRun) time.Time {
	return run.CreationTimestamp.Add(seconds(run.Spec.StartingDeadlineSeconds))
}

// endBy is the controller's own deadline, for what does not keep the run's own time itself: that time, the grace period and slack after
// the start. The start is the container's, by its node's clock, or when this process first saw it, by its own, whichever is later:
// a node's clock that is slow ends nothing early. One that is fast, and controllers that start over, end it late at most by the time
// that there was to start.
func (o Observed) endBy(p *corev1.Pod) time.Time {
	start := o.Begun
	if s := o.Run.Status.StartTime; s != nil && s.After(start) {
		start = s.Time
	}
	after := seconds(o.Run.Spec.ActiveDeadlineSeconds) + slack
	if p != nil {
		after += pod.Grace(&p.Spec)
	}
	latest := startBy(o.Run)
	if start.IsZero() || start.After(latest) {
		start = latest
	}
	return start.Add(after)
}

// overdue tells whether the run is out of the time that it has now: to start, or its own. Standing runs have no deadline. One that was
// not admitted may have none either, and ends for that.
func (o Observed) overdue(p *corev1.Pod) bool {
	return o.limited() && !o.Now.Before(o.dueAt(p))
}

func (o Observed) limited() bool { return o.Run.OneShot() && admitted(o.Run) }

func (o Observed) dueAt(p *corev1.Pod) time.Time {
	if o.begun(p) {
		return o.endBy(p)
	}
	return startBy(o.Run)
}

// endsAt is when what backs the run should be gone, as it was told to go; zero if it was not.
func (o Observed) endsAt(own *corev1.Pod) (at time.Time) {
	if own == nil && o.sandboxed() && sandbox.Left(o.Run, o.Pod) {
		own = o.Pod
	}
	if own != nil && own.DeletionTimestamp != nil {
		at = own.DeletionTimestamp.Time
	}
	if s := o.ours(); s != nil && s.DeletionTimestamp != nil && s.DeletionTimestamp.After(at) {
		at = s.DeletionTimestamp.Time
	}
	return at
}

// unconfirmed tells whether it was told to go so long ago that it should be gone: its node may be, too.
func (o Observed) unconfirmed(own *corev1.Pod) bool {
	at := o.endsAt(own)
	return !at.IsZero() && !o.Now.Before(at.Add(slack))
}

// stuck tells of a run that is out of time for long, of which something is left that is not its own to delete.
func (o Observed) stuck(own *corev1.Pod) bool {
	return own == nil && o.ours() == nil && !o.nothing() && o.overdue(nil) && !o.Now.Before(o.dueAt(nil).Add(patience))
}

// next is when a run has to be looked at though nothing changed; 0 is never.
func (o Observed) next(own *corev1.Pod) time.Duration {
	if !o.Run.OneShot() || o.Run.Ended() {
		return 0
	}
	var due []time.Time
	if o.limited() {
		due = append(due, o.dueAt(own))
	}
	if at := o.endsAt(own); !at.IsZero() {
		due = append(due, at.Add(slack))
	}
	wait := time.Duration(0)
	for _, t := range due {
		if d := t.Sub(o.Now); d > 0 && (wait == 0 || d < wait) {
			wait = d
		}
	}
	if wait == 0 && o.overdue(own) {
		return lookAgain // its deletion did not get through, or has not been seen yet
	}
	return wait
}

func (o Observed) late() string {
	return fmt.Sprintf("not started within %d s", ptr.Deref(o.Run.Spec.StartingDeadlineSeconds, 0))
}

func (o Observed) long() string {
	return fmt.Sprintf("still running after its own time of %d s", ptr.Deref(o.Run.Spec.ActiveDeadlineSeconds, 0))
}

func seconds(n *int64) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }
