// Package retention deletes the records of runs that have ended: each after its own time, and of a Scheduled Agent those beyond its
// history limits (R32; SPEC.md, Retention). What is kept and what goes is decided by pure functions.
package retention

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule"
)

// Expiry is when a run's record may go; false when it never does by itself: the run lives, is being deleted already, or is a
// standing run that an Agent controls, whose controller keeps the last three. A record that says nothing, because the run was stored
// without admission or its Agent left it behind (--cascade=orphan), has an Agent's default. The time counts from recordedAt, which is
// the controller's clock as now is; a recordedAt in the future makes it longer, never shorter.
func Expiry(run *v1alpha1.AgentRun) (time.Time, bool) {
	kept := run.Standing() && metav1.GetControllerOfNoCopy(run) != nil
	if !run.Ended() || kept || run.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	end := run.Status.CompletionTime
	if run.Status.RecordedAt != nil {
		end = run.Status.RecordedAt
	}
	ttl := ptr.Deref(run.Spec.TTLSecondsAfterFinished, v1alpha1.DefaultTTLSecondsAfterFinished)
	return end.Add(time.Duration(ttl) * time.Second), true
}

// Noted tells whether a run that a schedule made may go for all that the schedule knows: until its Agent's status says that the
// time had its run, the run is the only proof of it, and without it the time would have another. agent is nil when it is gone.
func Noted(run *v1alpha1.AgentRun, agent *v1alpha1.Agent) bool {
	at, scheduled := schedule.TimeOf(run)
	if !scheduled || agent == nil || agent.UID != run.Spec.AgentRef.UID {
		return true
	}
	last := agent.Status.LastScheduleTime
	return last != nil && !last.Time.Before(at)
}

// Surplus are the runs beyond the history limits of a Scheduled Agent: of those that its schedule made and that have ended the newest
// stay, by the time that they are for; so many that succeeded, so many that did not. Living runs are not counted.
func Surplus(agent *v1alpha1.Agent, runs []v1alpha1.AgentRun) []v1alpha1.AgentRun {
	if agent.Spec.Schedule == nil || agent.DeletionTimestamp != nil {
		return nil
	}
	var succeeded, failed []v1alpha1.AgentRun
	for _, run := range runs {
		switch _, scheduled := schedule.TimeOf(&run); {
		case !scheduled || run.Spec.AgentRef.UID != agent.UID || !run.Ended() || run.Standing() || run.DeletionTimestamp != nil:
		case run.Status.Phase == v1alpha1.PhaseSucceeded:
			succeeded = append(succeeded, run)
		default:
			failed = append(failed, run)
		}
	}
	surplus := slices.Concat(
		beyond(succeeded, ptr.Deref(agent.Spec.Schedule.SuccessfulRunsHistoryLimit, v1alpha1.DefaultSuccessfulRunsHistoryLimit)),
		beyond(failed, ptr.Deref(agent.Spec.Schedule.FailedRunsHistoryLimit, v1alpha1.DefaultFailedRunsHistoryLimit)))
	return slices.DeleteFunc(surplus, func(run v1alpha1.AgentRun) bool { return !Noted(&run, agent) })
}

func beyond(runs []v1alpha1.AgentRun, limit int32) []v1alpha1.AgentRun {
	if len(runs) <= int(limit) {
		return nil
	}
	slices.SortFunc(runs, func(a, b v1alpha1.AgentRun) int {
		of, _ := schedule.TimeOf(&a)
		than, _ := schedule.TimeOf(&b)
		return cmp.Or(than.Compare(of), cmp.Compare(a.Name, b.Name))
	})
	return runs[limit:]
}
