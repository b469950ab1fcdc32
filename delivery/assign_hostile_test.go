package delivery

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Row 37: a pause after a loss is written as the time of its end. A clock that is set back makes none twice as long, and clocks that differ by
// less than the pause do away with none.
func TestAClockThatIsSetBackHoldsNoRunUp(t *testing.T) {
	for _, tt := range []struct {
		losses int32
		back   time.Duration
		holds  bool
	}{
		{1, 0, true}, {1, 999 * time.Millisecond, true}, {1, time.Second, false}, {1, 4 * time.Minute, false},
		{10, time.Millisecond, true}, {10, MaxBackoff - 1, true}, {10, MaxBackoff, false}, {10, time.Hour, false},
	} {
		run, now := waitingRun(1), later.Add(-tt.back)
		run.Created, run.Starting = later.Add(-24*time.Hour), 48*time.Hour
		run.Losses, run.NextTime = tt.losses, later.Add(Backoff(int(tt.losses), 0))
		a := Assign(now, []Run{run}, Pool{Targets: []Target{goodTarget(1)}})
		if tt.holds {
			assert.Equal(t, run.NextTime, a.RequeueAt, tt)
			assert.Empty(t, a.Reserves, tt)
			continue
		}
		assert.Len(t, a.Reserves, 1, tt)
	}
}

// said is the room that a target has by what it says, which may be more or less than a number holds, as far as anybody here asks for it.
func said(x Target) int64 {
	const most = 1000
	room := big.NewInt(-int64(x.Reserved))
	for _, n := range []int{x.Capacity.Concurrency, x.Capacity.Queue} {
		room.Add(room, big.NewInt(int64(n)))
	}
	for _, n := range []int{x.Capacity.Running, x.Capacity.Queued} {
		room.Sub(room, big.NewInt(int64(n)))
	}
	switch {
	case room.Sign() < 0:
		return 0
	case room.Cmp(big.NewInt(most)) > 0:
		return most
	default:
		return room.Int64()
	}
}

// Whatever targets say of themselves and however they change from one look to the next, by a clock that goes back too: no look fails,
// serves a run twice or one that may not be served, gives a target more than its room, or forgets a run that waits; and when nothing
// stands in the way any more, all are served that there is room for.
func TestAssignTakesWhateverTargetsSay(t *testing.T) {
	number := rapid.SampledFrom([]int{0, 0, 1, 1, 2, 7, 10_000, math.MaxInt32 - 1, math.MaxInt32})
	absurd := rapid.SampledFrom([]int{0, 1, -1, -7, math.MaxInt32 + 1, math.MaxInt, math.MinInt, math.MaxInt/2 + 1})
	step := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute, MaxBackoff, -time.Second, -time.Hour, time.Hour})
	rapid.Check(t, func(t *rapid.T) {
		now, runs := later, []Run(nil)
		for i := range rapid.IntRange(0, 30).Draw(t, "runs") {
			r := waitingRun(i)
			r.Generation, r.Starting = rapid.Int64Range(1, 3).Draw(t, "generation"), 240*time.Hour
			r.Created = noon.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour, -time.Hour}).Draw(t, "created"))
			runs = append(runs, r)
		}
		for range rapid.IntRange(1, 6).Draw(t, "looks") {
			now = now.Add(step.Draw(t, "step"))
			var pool Pool
			for i := range rapid.IntRange(0, 5).Draw(t, "targets") {
				pool.Targets = append(pool.Targets, targetWith(i, func(x *Target) {
					x.PodName = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "name") // of other shards, too
					x.Cordoned, x.Listening = rapid.IntRange(0, 5).Draw(t, "cordoned") == 0, rapid.IntRange(0, 3).Draw(t, "listens") > 0
					n := number
					if rapid.IntRange(0, 3).Draw(t, "absurd") == 0 {
						n = absurd
					}
					x.Capacity = wire.Capacity{Concurrency: n.Draw(t, "c"), Queue: n.Draw(t, "q"), Running: n.Draw(t, "r"), Queued: n.Draw(t, "w")}
					if !x.Capacity.Valid() {
						x.Link = LinkUnreachable // which believes no such answer
					}
					x.Reserved = rapid.IntRange(0, 3).Draw(t, "reserved")
					x.BackoffUntil = now.Add(step.Draw(t, "backoff"))
				}))
			}
			a := Assign(now, runs, pool)
			given, seen, waits := map[string]int{}, map[string]bool{}, 0
			for _, r := range a.Reserves {
				require.False(t, seen[r.Run], "served twice")
				seen[r.Run] = true
				given[r.Reservation.PodUID]++
			}
			for _, x := range pool.Targets {
				reason, _ := x.Usable(now)
				if reason != "" {
					require.Zero(t, given[x.PodUID])
				}
				require.LessOrEqual(t, int64(given[x.PodUID]), said(x), "more than its room")
			}
			for _, r := range a.Refused {
				require.False(t, seen[r.UID], "served and refused")
				seen[r.UID] = true
			}
			for i := range runs {
				if !postponed(now, &runs[i]) {
					waits++
					require.True(t, seen[runs[i].UID], "forgotten")
				}
			}
			require.Len(t, seen, waits)
			if !a.RequeueAt.IsZero() {
				require.True(t, a.RequeueAt.After(now), "never at once again")
			}
			for _, r := range a.Untold(now, 7) {
				r.Reason = a.Refusal.Reason // it has been written
			}
			for i := range runs {
				if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
					runs[i].Losses++
					runs[i].NextTime = now.Add(Backoff(int(runs[i].Losses), 0))
				}
			}
		}
		last := Assign(now.Add(24*time.Hour), runs, Pool{Targets: []Target{targetWith(1, func(x *Target) { x.Capacity = wire.Capacity{Concurrency: 100} })}})
		require.Len(t, last.Reserves, len(runs))
	})
}
