package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule/cron"
)

// Whatever the clock, the people, the caches and the controllers do: no time has two runs, Forbid never has two living ones (both
// are checked at each creation), and each time that came while the schedule held is run or said to be missed.
func TestNoTimeIsRunTwiceAndEachIsRunOrSaidToBeMissed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs := []string{"* * * * *", "*/5 * * * *", "30 2 * * *", "0 * * * *", "*/7 1-3 * * *"}
		zones := []string{"", "Europe/Berlin", "Australia/Lord_Howe"}
		begin := rapid.SampledFrom([]time.Time{
			time.Date(2026, 10, 24, 23, 50, 0, 0, time.UTC), time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC), time.Date(2026, 10, 3, 14, 40, 0, 0, time.UTC)}).Draw(t, "begin")
		w := newWorld(t, begin, v1alpha1.Schedule{
			Cron: rapid.SampledFrom(specs).Draw(t, "cron"), TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"),
			ConcurrencyPolicy:          rapid.SampledFrom([]v1alpha1.ConcurrencyPolicy{v1alpha1.ConcurrencyAllow, v1alpha1.ConcurrencyForbid}).Draw(t, "policy"),
			StartingDeadlineSeconds:    ptr.To(rapid.SampledFrom([]int64{1, 60, 600, 86400}).Draw(t, "deadline")),
			SuccessfulRunsHistoryLimit: ptr.To(rapid.Int32Range(0, 2).Draw(t, "succeeded")), FailedRunsHistoryLimit: ptr.To(rapid.Int32Range(0, 1).Draw(t, "failed")),
		})
		holds := begin // since when the schedule that is there now has held, on a clock that was not set back
		must := map[time.Time]bool{}
		// due notes the times that come as the clock moves on. Those of a schedule that nobody has looked at yet are not promised.
		due := func(until time.Time) {
			s := w.agent().Spec.Schedule
			if s.Suspend {
				return
			}
			times, err := cron.Parse(s.Cron, s.TimeZone)
			require.NoError(t, err)
			for at := times.Next(holds); !at.IsZero() && !at.After(until) && len(must) < 5000; at = times.Next(at) {
				must[at.UTC()] = true
			}
			if until.After(holds) {
				holds = until
			}
		}
		// begins: from now on; a clock that was set back repeats no time up to the last that had its run, and the Agent says so.
		begins := func() {
			if holds = w.now; w.agent().Status.LastScheduleTime != nil && w.agent().Status.LastScheduleTime.After(holds) {
				holds = w.agent().Status.LastScheduleTime.Time
			}
		}
		settle := func() {
			w.catchUp(0)
			for range 3 {
				_, err := w.look(nil)
				require.NoError(t, err)
				w.catchUp(0)
			}
		}
		move := func(d time.Duration) {
			if d > 0 {
				w.now = w.now.Add(d)
				due(w.now)
				return
			}
			settle()
			w.now = w.now.Add(d)
			begins()
			settle()
		}
		t.Repeat(map[string]func(*rapid.T){
			"a moment":  func(t *rapid.T) { move(time.Duration(rapid.Int64Range(1, 90_000).Draw(t, "ms")) * time.Millisecond) },
			"hours":     func(t *rapid.T) { move(time.Duration(rapid.Int64Range(1, 30*60).Draw(t, "minutes")) * time.Minute) },
			"set back":  func(t *rapid.T) { move(-time.Duration(rapid.Int64Range(1, 30*60).Draw(t, "minutes")) * time.Minute) },
			"look":      func(t *rapid.T) { w.catchUp(rapid.IntRange(0, 4).Draw(t, "behind")); _, _ = w.look(nil) },
			"look well": func(*rapid.T) { w.catchUp(0); _, _ = w.look(nil) },
			"look and die": func(t *rapid.T) {
				w.catchUp(rapid.IntRange(0, 4).Draw(t, "behind"))
				_, _ = w.look(&cut{rapid.IntRange(1, 2).Draw(t, "write"), rapid.Bool().Draw(t, "after")})
			},
			"minutes, looked at": func(t *rapid.T) {
				for range 4 {
					move(time.Duration(rapid.Int64Range(50, 70).Draw(t, "seconds")) * time.Second)
					w.catchUp(rapid.IntRange(0, 4).Draw(t, "behind"))
					_, _ = w.look(nil)
				}
			},
			"dies, and the record is looked at": func(t *rapid.T) {
				move(61 * time.Second)
				w.catchUp(0)
				_, _ = w.look(&cut{1, true})
				for _, run := range w.runs() {
					if !run.Ended() {
						w.end(run.Name, v1alpha1.PhaseSucceeded)
					}
				}
				w.catchUp(0)
				w.retain()
				_, _ = w.look(nil)
			},
			"two look at once": func(t *rapid.T) {
				w.catchUp(rapid.IntRange(0, 4).Draw(t, "behind"))
				w.overtake = func() { _, _ = w.look(nil) }
				_, _ = w.look(nil)
				w.overtake = nil
			},
			"a run ends": func(t *rapid.T) {
				for _, run := range w.runs() {
					if !run.Ended() {
						w.end(run.Name, rapid.SampledFrom([]v1alpha1.Phase{v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed}).Draw(t, "phase"))
						return
					}
				}
			},
			"retention": func(t *rapid.T) { w.catchUp(rapid.IntRange(0, 4).Draw(t, "behind")); w.retain() },
			"suspend or resume": func(*rapid.T) {
				settle()
				w.edit(func(a *v1alpha1.Agent) { a.Spec.Schedule.Suspend = !a.Spec.Schedule.Suspend })
				settle()
				begins()
			},
			"another schedule": func(t *rapid.T) {
				settle()
				w.edit(func(a *v1alpha1.Agent) { a.Spec.Schedule.Cron = rapid.SampledFrom(specs).Draw(t, "cron") })
				settle()
				begins()
			},
			"another goal": func(*rapid.T) { w.edit(func(a *v1alpha1.Agent) { a.Spec.Goal += " Again." }) },
			"": func(t *rapid.T) {
				for at := range w.made {
					require.False(t, at.Before(begin.Add(-40*24*time.Hour)), "a run for a time before the Agent was made")
				}
			},
		})
		settle()
		for at := range must {
			require.True(t, w.made[at] == 1 || w.said(at), "%s is neither run nor said to be missed", at)
		}
	})
}
