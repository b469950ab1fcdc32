package delivery

import (
	"testing"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Row 37: a clock that is off by ten minutes, or stepped by them, ends no running work: what was left of the time to start is longer, and
// the run's own time is the harness's, monotonic. What waits is ended by at most the error early or late.
func TestAClockThatIsOffEndsNoRunningWork(t *testing.T) {
	const off = 10 * time.Minute
	shifted := func(by time.Duration) func(*wire.Attempt) {
		return func(a *wire.Attempt) {
			accepted, started := a.AcceptedAt.Add(by), a.StartedAt.Add(by)
			a.AcceptedAt, a.StartedAt = &accepted, &started
		}
	}
	runs := func(by time.Duration) func(*Run, *Observed) {
		return func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning, shifted(by))) }
	}
	waits := func(r *Run, _ *Observed) { r.Reservation = Reservation{Attempt: 1} }
	check(t, map[string]decideCase{
		"the harness's clock is ahead":                          {runs(off), later, ActionNone, ReasonRunning},
		"the harness's clock is behind":                         {runs(-off), later, ActionNone, ReasonRunning},
		"the controller's clock was stepped forward":            {runs(0), later.Add(off), ActionNone, ReasonRunning},
		"the controller's clock was stepped back":               {runs(0), reserved.Add(-off), ActionNone, ""},
		"stepped back: a result is recorded":                    {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed"))) }, reserved.Add(-off), ActionRecord, "Completed"},
		"stepped forward: a result is recorded":                 {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed"))) }, later.Add(off), ActionRecord, "Completed"},
		"ahead: what waits ends early, by no more than that":    {waits, startEnd.Add(-time.Second).Add(off), ActionFinish, ReasonStartingDeadlineExceeded},
		"behind: it ends late, by no more than that":            {waits, startEnd.Add(off).Add(-off), ActionFinish, ReasonStartingDeadlineExceeded},
		"behind: not before its clock says so, ten minutes off": {waits, startEnd.Add(-off), ActionNone, ""},
	})
}
