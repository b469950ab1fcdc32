package deliver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/signals"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
	"github.com/hearthdev/hearth/internal/crashpoint"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// actionRecord is the action of the Event about a result that came after the record.
const actionRecord = "Record"

// sweep looks at every attempt that harnesses hold of runs of one name and ends those that nobody wants any more (R42; SPEC.md,
// Lifecycle, run deleted). It is level-triggered: at each change of the run and at each change that a Link tells. It returns
// when to look again.
func (r runReconciler) sweep(ctx context.Context, key types.NamespacedName, run *hearthv1.AgentRun) time.Time {
	var next time.Time
	for _, podUID := range r.memory.whereabouts(key) {
		link, open := r.links.Get(podUID)
		if !open {
			r.memory.left(key, podUID)
			continue
		}
		attempts := link.About(key.Name)
		if len(attempts) == 0 {
			r.memory.left(key, podUID)
		}
		for _, a := range attempts {
			if a.Seen != nil {
				next = earliest(next, r.sweepOne(ctx, key, podUID, link, a, run))
			}
		}
	}
	return next
}

func (r runReconciler) sweepOne(ctx context.Context, key types.NamespacedName, podUID string, link Link, a client.Attempt, run *hearthv1.AgentRun) time.Time {
	read := delivery.RunRead{}
	if run != nil {
		read = toRunRead(run, a.Number, podUID, false)
	}
	if a.Seen.State == wire.StateVoided && movedOn(read, a) {
		return r.tell(a, link.Recorded) // a tombstone that nobody waits for leaves the feed
	}
	action := delivery.Orphan(*a.Seen, key.Namespace, podUID, read)
	if action == delivery.OrphanReadRun {
		if due := notBefore(a, r.now()); a.InFlight || !due.IsZero() {
			return due // nothing could be done about it now
		}
		run, read = r.readRun(ctx, key, a.Number, podUID)
		action = delivery.Orphan(*a.Seen, key.Namespace, podUID, read)
	}
	switch action {
	case delivery.OrphanCancel:
		crashpoint.Reach(crashpoint.AfterCancelSeen)
		return r.tell(a, func(ref wire.RunRef, attempt int64) error { return link.Cancel(ref, attempt, r.trace(run)) })
	case delivery.OrphanMarkRecorded:
		return r.tell(a, link.Recorded)
	case delivery.OrphanLateResult:
		if r.memory.late(key, podUID, run.UID) { // the harness may have to be told more than once that it is recorded; people need not
			metrics.LateResult()
			r.events.Eventf(run, nil, corev1.EventTypeWarning, signals.EventLateResult, actionRecord,
				"attempt %d in Pod %s ended %s after the run had been recorded as %s; the record stays", a.Number, podUID, a.Seen.State, run.Status.Reason)
			r.signals().Logger(run).Info("run: "+signals.EventLateResult, "podUID", podUID, "lateAttempt", a.Number)
		}
		return r.tell(a, link.Recorded)
	case delivery.OrphanLeave, delivery.OrphanReadRun:
	}
	if read.Failed {
		return r.now().Add(again)
	}
	return time.Time{}
}

// tell hands a call to the Link when it is due, and says when to look again otherwise.
func (r runReconciler) tell(a client.Attempt, call func(wire.RunRef, int64) error) time.Time {
	now := r.now()
	if due := notBefore(a, now); !due.IsZero() {
		return due
	}
	if a.InFlight {
		return time.Time{} // its end wakes this run
	}
	if err := call(a.Run, a.Number); err != nil {
		return now.Add(again)
	}
	return time.Time{}
}

// movedOn: the run has ended, or has a later attempt, so nobody needs to know any more that this one was voided.
func movedOn(read delivery.RunRead, a client.Attempt) bool {
	return read.Found && read.UID == a.Run.UID && (read.Terminal || read.Attempt > a.Number)
}

// readRun asks the API server. Only "not found" or another UID proves that a run is not there.
func (r runReconciler) readRun(ctx context.Context, key types.NamespacedName, attempt int64, podUID string) (*hearthv1.AgentRun, delivery.RunRead) {
	var live hearthv1.AgentRun
	err := r.live.Get(ctx, key, &live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, delivery.RunRead{Live: true}
	case err != nil:
		r.log.Warn("read the run of an attempt that a harness holds", "namespace", key.Namespace, "run", key.Name, "cause", err)
		return nil, delivery.RunRead{Live: true, Failed: true}
	default:
		return &live, toRunRead(&live, attempt, podUID, true)
	}
}
