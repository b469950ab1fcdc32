package invariant

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/history"
)

// What SPEC.md adds to a run's own deadlines (Lifecycle, Clocks): the controller's deadline is later than the harness's, and past it
// there is one last look.
const (
	deadlineGrace = 30 * time.Second
	lastLook      = 30 * time.Second
	stopWithin    = 30 * time.Second // I4
)

// AtMostOnce is I1. The versions say how often a run may start, and which attempts there were.
func AtMostOnce(versions []history.Version, effects []Effect) []Violation {
	limits, attempts := map[types.UID]int32{}, map[types.UID]int64{}
	for _, v := range versions {
		limits[v.Run.UID] = 0
		if l := v.Run.Spec.BackoffLimit; l != nil {
			limits[v.Run.UID] = *l
		}
		attempts[v.Run.UID] = max(attempts[v.Run.UID], history.Attempt(v.Run))
	}
	type try struct {
		run     types.UID
		attempt int64
	}
	var found []Violation
	count, seen := map[types.UID]int32{}, map[try]int{}
	for _, e := range effects {
		limit, known := limits[e.Run]
		if !known {
			found = append(found, Violation{I1, e.Run, "the agent worked for a run that never was"})
			continue
		}
		count[e.Run]++
		seen[try{e.Run, e.Attempt}]++
		if n := seen[try{e.Run, e.Attempt}]; n > 1 {
			found = append(found, Violation{I1, e.Run, fmt.Sprintf("attempt %d was started %d times", e.Attempt, n)})
		}
		if n := count[e.Run]; n == limit+2 {
			found = append(found, Violation{I1, e.Run, fmt.Sprintf("started more than %d times with backoffLimit %d", limit+1, limit)})
		}
		if last := attempts[e.Run]; e.Attempt > last || e.Attempt < 1 {
			found = append(found, Violation{I1, e.Run, fmt.Sprintf("attempt %d was started, the last that was reserved is %d", e.Attempt, last)})
		}
	}
	return found
}

// History is I2 and I7, and that a resolved spec stays as it is.
func History(versions []history.Version) []Violation {
	var found []Violation
	for _, p := range history.Check(versions) {
		name := I2
		switch p.Rule {
		case history.AttemptShrank, history.ReservationMoved, history.ReservationBack:
			name = I7
		default:
		}
		found = append(found, Violation{name, p.UID, p.String()})
	}
	return found
}

// Ended is I3: whatever still lives at now could still live.
func Ended(versions []history.Version, now time.Time, grace time.Duration) []Violation {
	var found []Violation
	for _, v := range history.Last(versions) {
		limit, bounded := Deadline(v.Run)
		if v.Type != watch.Deleted && bounded && !history.Terminal(v.Run) && now.After(limit.Add(grace)) {
			found = append(found, Violation{I3, v.Run.UID, fmt.Sprintf("%s (%s) %s past its deadline", v.Run.Name, v.Run.Status.Phase, now.Sub(limit))})
		}
	}
	return found
}

// Deadline is the time by which a run has its record if a controller is there; a standing run has none.
func Deadline(run *hearthv1.AgentRun) (time.Time, bool) {
	if run.Spec.ActiveDeadlineSeconds == nil || run.Spec.StartingDeadlineSeconds == nil {
		return time.Time{}, false
	}
	start := run.CreationTimestamp.Add(seconds(*run.Spec.StartingDeadlineSeconds))
	d := run.Status.Delivery
	if d != nil {
		start = start.Add(seconds(d.SpentSeconds))
	}
	if run.Status.StartTime == nil && (d == nil || d.ReservedAt == nil) {
		return start.Add(deadlineGrace), true
	}
	return start.Add(seconds(*run.Spec.ActiveDeadlineSeconds)).Add(deadlineGrace + lastLook), true
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// GoneAtOnce is the first half of I4: no run was ever in deletion, because nothing holds it back. What a person asks for with
// --cascade=foreground or orphan is the garbage collector's and is not counted.
func GoneAtOnce(versions []history.Version) []Violation {
	var found []Violation
	for _, v := range versions {
		for _, f := range v.Run.Finalizers {
			if f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents {
				found = append(found, Violation{I4, v.Run.UID, "the finalizer " + f + " can hold back a deletion"})
			}
		}
	}
	return found
}

// StoppedAfterDelete is the second half of I4: the work for a run that was deleted is over once a controller led for thirty seconds
// without a break.
func StoppedAfterDelete(versions []history.Version, effects []Effect, up []Span, now time.Time, grace time.Duration) []Violation {
	deleted := map[types.UID]time.Time{}
	for _, v := range versions {
		if v.Type == watch.Deleted {
			deleted[v.Run.UID] = v.At
		}
	}
	var found []Violation
	for _, e := range effects {
		at, gone := deleted[e.Run]
		if !gone {
			continue
		}
		by, bounded := ledFor(up, at, stopWithin+grace, now)
		if bounded && (e.Ended.IsZero() || e.Ended.After(by)) {
			found = append(found, Violation{I4, e.Run, fmt.Sprintf("attempt %d was not over by %s; the run was deleted at %s", e.Attempt, by.Format(time.StampMilli), at.Format(time.StampMilli))})
		}
	}
	return found
}

// ledFor is the first time after at by which somebody had led for that long, if now is not before it.
func ledFor(up []Span, at time.Time, long time.Duration, now time.Time) (time.Time, bool) {
	for _, s := range up {
		to := s.To
		if to.IsZero() {
			to = now
		}
		from := s.From
		if from.Before(at) {
			from = at
		}
		if by := from.Add(long); !by.After(to) {
			return by, true
		}
	}
	return time.Time{}, false
}

// Cancel is a cancel that reached a harness.
type Cancel struct {
	Run     types.UID
	Attempt int64
	Pod     types.UID
}

// CancelsOfTheirOwn is I5: a cancel was of an attempt that somebody wanted to end: its run says cancel, is gone or has ended, or is at
// another attempt by now; and no record says Cancelled of a run that nobody cancelled, unless its Pod was drained.
func CancelsOfTheirOwn(versions []history.Version, cancels []Cancel, drained map[types.UID]bool) []Violation {
	last := map[types.UID]history.Version{}
	for _, v := range history.Last(versions) {
		last[v.Run.UID] = v
	}
	var found []Violation
	for _, c := range cancels {
		v, known := last[c.Run]
		if !known || v.Type == watch.Deleted || v.Run.Spec.Cancel || history.Terminal(v.Run) {
			continue
		}
		if d := v.Run.Status.Delivery; d != nil && d.Attempt == c.Attempt && d.ReservedAt != nil && (c.Pod == "" || c.Pod == d.PodUID) {
			found = append(found, Violation{I5, c.Run, fmt.Sprintf("attempt %d was cancelled, and nobody wanted that", c.Attempt)})
		}
	}
	for _, v := range last {
		s := v.Run.Status
		cancelled := s.Reason == hearthv1.ReasonCancelled || s.Reason == hearthv1.ReasonCancelUnconfirmed
		if cancelled && history.Terminal(v.Run) && !v.Run.Spec.Cancel && !drained[s.PodUID] {
			found = append(found, Violation{I5, v.Run.UID, "recorded as " + s.Reason + ", and nobody cancelled it"})
		}
	}
	return found
}
