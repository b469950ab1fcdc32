package schedule

import (
	"slices"
	"time"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// seen is what the runs say that an Agent's schedule made.
type seen struct {
	times map[int64]bool // Unix seconds
	// living are the names of the runs that have not ended. One that is being deleted may be at work still.
	living []string
	// last is the latest time that ever had a run, by the Agent's status or by the runs. No time up to it has one made again, or a
	// clock that was set back would repeat those whose records are gone.
	last time.Time
}

func (s seen) has(at time.Time) bool { return s.times[at.Unix()] }

func look(o Observed) seen {
	s := seen{times: map[int64]bool{}}
	if last := o.Agent.Status.LastScheduleTime; last != nil {
		s.last = last.Time
	}
	for i := range o.Runs {
		at, ok := TimeOf(&o.Runs[i])
		if !ok || o.Runs[i].Spec.AgentRef.UID != o.Agent.UID {
			continue
		}
		s.times[at.Unix()] = true
		if !o.Runs[i].Ended() {
			s.living = append(s.living, o.Runs[i].Name)
		}
		if at.After(s.last) {
			s.last = at
		}
	}
	slices.Sort(s.living)
	return s
}

// TimeOf is the time of the schedule that made the run; false for a run that none made.
func TimeOf(run *v1alpha1.AgentRun) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, run.Annotations[v1alpha1.AnnotationScheduledAt])
	return at, err == nil
}
