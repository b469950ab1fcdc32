package schedule

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule/cron"
)

// keyOf tells two schedules apart by what their times follow from.
func keyOf(s v1alpha1.Schedule) string { return s.Cron + " " + cmp.Or(s.TimeZone, "UTC") }

// describe makes the next promise and says how the Agent is. A clock that was set back moves the promise back, but never to a time
// that had its run.
func (p *Plan) describe(o Observed, schedule v1alpha1.Schedule, times cron.Times, seen seen) {
	s := &p.Status
	s.ObservedGeneration, s.ObservedSchedule, s.NextScheduleTime = o.Agent.Generation, "", nil
	if o.Problem != "" {
		p.ready(o, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, o.Problem)
		return
	}
	if schedule.Suspend {
		p.ready(o, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.schedule.suspend: no run is made")
		return
	}
	s.ObservedSchedule = keyOf(schedule)
	next := times.Next(latest(o.Now, seen.last))
	if next.IsZero() {
		p.ready(o, metav1.ConditionTrue, v1alpha1.ReasonScheduled, "no time within five years")
		return
	}
	s.NextScheduleTime = ptr.To(metav1.NewTime(next))
	p.After = min(lookAgain, next.Sub(o.Now))
	message := "next at " + times.In(next).Format(time.RFC3339)
	if seen.last.After(o.Now) {
		message += fmt.Sprintf("; the clock was set back: no time up to %s is repeated", times.In(seen.last).Format(time.RFC3339))
	}
	p.ready(o, metav1.ConditionTrue, v1alpha1.ReasonScheduled, message)
}

func (p *Plan) ready(o Observed, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.AgentConditionReady, Status: status, Reason: reason, Message: fmt.Sprintf("%.4096s", message),
		ObservedGeneration: o.Agent.Generation, LastTransitionTime: metav1.NewTime(o.Now),
	})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
