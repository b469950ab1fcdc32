// Package schedule makes the runs of Scheduled Agents (R34; SPEC.md, Scheduled). What is due, what went by and what is next is
// decided by pure functions; a run's name is the lock that lets no time have two.
package schedule

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule/cron"
)

const (
	// lookAgain bounds how long an Agent is not looked at. Timers do not notice that the clock on the wall was set; this does, well
	// within the default startingDeadlineSeconds.
	lookAgain = 30 * time.Second
	// maxCounted bounds how many missed times are counted one by one, so that a controller that was away for a year comes back at once.
	maxCounted = 100
)

// Observed is what the controller knows of a Scheduled Agent when it decides. Of Runs only those count that its schedule made.
type Observed struct {
	Agent *v1alpha1.Agent
	Runs  []v1alpha1.AgentRun
	Now   time.Time
	// Problem is why no run of the Agent could be made, empty when one can.
	Problem string
}

// Plan is what to do about an Agent's schedule.
type Plan struct {
	// At is the time that a run is to be made for; zero when none is. Made or NotMade says what came of it.
	At time.Time
	// Missed are times that have no run and will have none: to be said once Status is stored.
	Missed []Missed
	Status v1alpha1.AgentStatus
	// After is when to look again though nothing changed.
	After time.Duration
}

// Missed are times of a schedule that went by, and why.
type Missed struct {
	Count int
	// More says that there were more than Count.
	More        bool
	First, Last time.Time
	Why         string
}

// Acts tells that a time of the schedule has come or gone: what is done about it is irrevocable, so it is decided from a live read.
func (p *Plan) Acts() bool { return !p.At.IsZero() || len(p.Missed) > 0 }

// Made notes that the time has its run.
func (p *Plan) Made() {
	p.Status.LastScheduleTime = ptr.To(metav1.NewTime(p.At))
	p.Status.ActiveRuns++
}

// NotMade notes that the time will have no run.
func (p *Plan) NotMade(why string) {
	p.miss(Missed{Count: 1, First: p.At, Last: p.At, Why: why})
	p.At = time.Time{}
}

func (p *Plan) miss(m Missed) {
	last := m.Last
	for _, other := range p.Missed {
		last = latest(last, other.Last)
	}
	p.Missed = append(p.Missed, m)
	p.Status.LastMissedTime = ptr.To(metav1.NewTime(last)) // an earlier one than before, where the clock was set back
}

// Decide finds the time that is due, if any, and those that went by. A time is looked at when the promise that status makes
// (nextScheduleTime) has come; only the newest can have a run, and only when none of a later or the same time was made before.
func Decide(o Observed) Plan {
	p := Plan{Status: *o.Agent.Status.DeepCopy(), After: lookAgain}
	schedule := ptr.Deref(o.Agent.Spec.Schedule, v1alpha1.Schedule{})
	times, err := cron.Parse(schedule.Cron, schedule.TimeZone)
	if err != nil && o.Problem == "" {
		o.Problem = err.Error()
	}
	seen := look(o)
	p.Status.ActiveRuns = int32(len(seen.living)) //nolint:gosec // as many as there are objects
	if !seen.last.IsZero() {
		p.Status.LastScheduleTime = ptr.To(metav1.NewTime(seen.last))
	}
	promised, same := o.Agent.Status.NextScheduleTime, o.Agent.Status.ObservedSchedule == keyOf(schedule)
	switch {
	case o.Problem != "":
		p.broken(promised, seen, o.Now, "the Agent cannot work: "+o.Problem)
	case schedule.Suspend:
		p.broken(promised, seen, o.Now, "the schedule is suspended")
	case !same && o.Agent.Status.ObservedSchedule != "":
		p.broken(promised, seen, o.Now, "the schedule was changed")
	default:
		p.due(o, times, since(o), seen)
	}
	p.describe(o, schedule, times, seen)
	return p
}

// since is the moment after which times count. It is persisted as what comes after it, the promise; a new Agent has made none, and
// its creation is the moment. One that was resumed or changed has none either: it begins now, when the controller sees it.
func since(o Observed) time.Time {
	switch status := o.Agent.Status; {
	case status.NextScheduleTime != nil:
		return status.NextScheduleTime.Add(-time.Second)
	case status.ObservedGeneration == 0:
		return o.Agent.CreationTimestamp.Time
	default:
		return o.Now
	}
}

// broken says of a promised time that has come that it has no run: what was promised holds no more.
func (p *Plan) broken(promised *metav1.Time, seen seen, now time.Time, why string) {
	if promised == nil || promised.After(now) || seen.has(promised.Time) {
		return
	}
	p.miss(Missed{Count: 1, First: promised.Time, Last: promised.Time, Why: why})
}

// due decides about the times in (after, now].
func (p *Plan) due(o Observed, times cron.Times, after time.Time, seen seen) {
	newest := times.Last(after, o.Now)
	if newest.IsZero() {
		return
	}
	earlier := uncovered(times, after, newest, seen)
	late := time.Duration(ptr.Deref(o.Agent.Spec.Schedule.StartingDeadlineSeconds, v1alpha1.DefaultLateSeconds)) * time.Second
	switch {
	case seen.has(newest):
	case o.Now.Sub(newest) > late || !newest.After(seen.last):
		earlier.add(newest)
	case o.Agent.Spec.Schedule.ConcurrencyPolicy != v1alpha1.ConcurrencyAllow && len(seen.living) > 0:
		p.miss(Missed{Count: 1, First: newest, Last: newest, Why: fmt.Sprintf("run %s has not ended, and concurrencyPolicy is Forbid", seen.living[0])})
	default:
		p.At = newest
	}
	if earlier.Count > 0 {
		earlier.Why = fmt.Sprintf("more than %s late (startingDeadlineSeconds), or a later time had come", late)
		p.miss(earlier)
	}
}

// uncovered are the times in (after, before) that have no run.
func uncovered(times cron.Times, after, before time.Time, seen seen) Missed {
	var m Missed
	at := times.Next(after)
	for ; at.Before(before) && m.Count < maxCounted; at = times.Next(at) {
		if !seen.has(at) {
			m.add(at)
		}
	}
	if at.Before(before) {
		m.More, m.Last = true, times.Last(at.Add(-time.Second), before.Add(-time.Second))
	}
	return m
}

func (m *Missed) add(at time.Time) {
	if m.Count == 0 {
		m.First = at
	}
	m.Count++
	m.Last = at
}
