package delivery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func waitingRun(n int) Run {
	return Run{UID: fmt.Sprint("run-", n), Name: fmt.Sprintf("review-%05d", n), Generation: 3, Created: noon.Add(time.Duration(n) * time.Second), Admitted: true, Starting: time.Hour}
}

func goodTarget(n int) Target {
	return Target{PodName: fmt.Sprintf("reviewer-%d", n), PodUID: fmt.Sprint("pod-", n), Generation: 3, Listening: true, Link: LinkVerified,
		Journal: fmt.Sprint("journal-", n), Agent: wire.AgentReady, Capacity: wire.Capacity{Concurrency: 1, Queue: 1}}
}

func targetWith(n int, change func(*Target)) Target {
	t := goodTarget(n)
	change(&t)
	return t
}

// chosen is the target of each run in the order of assignment.
func chosen(a Assignments) []string {
	var out []string
	for _, r := range a.Reserves {
		out = append(out, r.Run+"→"+r.Reservation.PodName)
	}
	return out
}

// R33; SPEC.md, Lifecycle, Assign.
func TestAssignPrefersItsGenerationThenFreeThenLeastLoadedThenName(t *testing.T) {
	runs := []Run{waitingRun(2), waitingRun(1)}
	load := func(running, queued, reserved int) func(*Target) {
		return func(t *Target) {
			t.Capacity = wire.Capacity{Concurrency: 2, Queue: 3, Running: running, Queued: queued}
			t.Reserved = reserved
		}
	}
	for name, c := range map[string]struct {
		targets []Target
		want    []string
	}{
		"oldest first, names break ties":        {[]Target{goodTarget(2), goodTarget(1)}, []string{"run-1→reviewer-1", "run-2→reviewer-2"}},
		"one with room for two":                 {[]Target{goodTarget(1)}, []string{"run-1→reviewer-1", "run-2→reviewer-1"}},
		"least loaded":                          {[]Target{targetWith(1, load(1, 0, 0)), targetWith(2, load(0, 0, 0))}, []string{"run-1→reviewer-2", "run-2→reviewer-1"}},
		"reserved counts as load":               {[]Target{targetWith(1, load(0, 0, 2)), targetWith(2, load(1, 0, 0))}, []string{"run-1→reviewer-2", "run-2→reviewer-1"}},
		"one that starts it before a queue":     {[]Target{targetWith(1, func(t *Target) { t.Capacity.Running = 1 }), targetWith(2, load(1, 0, 0))}, []string{"run-1→reviewer-2", "run-2→reviewer-1"}},
		"full ones have no room":                {[]Target{targetWith(1, load(2, 3, 0)), targetWith(2, load(2, 2, 0))}, []string{"run-1→reviewer-2"}},
		"reserved takes room":                   {[]Target{targetWith(1, load(2, 2, 1)), targetWith(2, load(2, 1, 1))}, []string{"run-1→reviewer-2"}},
		"its own generation before a freer one": {[]Target{targetWith(1, func(t *Target) { t.Generation = 4 }), targetWith(2, load(1, 0, 0))}, []string{"run-1→reviewer-2", "run-2→reviewer-2"}},
		"any generation before none":            {[]Target{targetWith(1, func(t *Target) { t.Generation = 4 })}, []string{"run-1→reviewer-1", "run-2→reviewer-1"}},
		"cordoned ones have no room (row 39)":   {[]Target{targetWith(1, func(t *Target) { t.Cordoned = true })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, chosen(Assign(later, runs, Pool{Targets: c.targets})))
		})
	}
}

// R28: why a run waits. The target nearest to taking work explains it.
func TestARefusalSaysWhy(t *testing.T) {
	notListening := targetWith(1, func(t *Target) { t.Listening, t.Message = false, "ImagePullBackOff: no such image" })
	link := func(s LinkState) Target {
		return targetWith(2, func(t *Target) { t.Link, t.LinkMessage = s, "link says" })
	}
	full := targetWith(3, func(t *Target) { t.Capacity.Running = 2 })
	backingOff := targetWith(4, func(t *Target) { t.BackoffUntil = later.Add(7 * time.Second) })
	for name, c := range map[string]struct {
		pool    Pool
		reason  Reason
		message string
	}{
		"no standing run":                {Pool{}, ReasonWaitingForService, "no standing run"},
		"recast":                         {Pool{Recasting: true}, ReasonServiceRecasting, "being replaced"},
		"recast, with its own message":   {Pool{Recasting: true, Message: "recast in 8s"}, ReasonServiceRecasting, "recast in 8s"},
		"only a cordoned one":            {Pool{Targets: []Target{targetWith(1, func(t *Target) { t.Cordoned = true })}}, ReasonServiceRecasting, "replaced"},
		"not ready, with its message":    {Pool{Targets: []Target{notListening}}, ReasonTargetNotReady, "ImagePullBackOff: no such image"},
		"not ready, and where to look":   {Pool{Targets: []Target{notListening}}, ReasonTargetNotReady, "the Agent's Ready condition says how it is now"},
		"not challenged yet":             {Pool{Targets: []Target{link(LinkChallenging)}}, ReasonTargetNotReady, "challenge"},
		"no Link yet":                    {Pool{Targets: []Target{link(LinkNone)}}, ReasonTargetNotReady, "challenge"},
		"agent down":                     {Pool{Targets: []Target{targetWith(1, func(t *Target) { t.Agent = wire.AgentDown })}}, ReasonTargetNotReady, "down"},
		"ready but unreachable (row 27)": {Pool{Targets: []Target{link(LinkUnreachable)}}, ReasonTargetUnreachable, "link says"},
		"unauthenticated":                {Pool{Targets: []Target{link(LinkUnauthenticated)}}, ReasonTargetUnauthenticated, "link says"},
		"incompatible (row 49)":          {Pool{Targets: []Target{link(LinkIncompatible)}}, ReasonTargetIncompatible, "link says"},
		"full":                           {Pool{Targets: []Target{full}}, ReasonTargetBusy, "capacity"},
		"backing off (row 28)":           {Pool{Targets: []Target{backingOff}}, ReasonTargetBusy, "capacity"},
		"busy explains better":           {Pool{Targets: []Target{notListening, link(LinkUnreachable), full}}, ReasonTargetBusy, "capacity"},
		"not ready, while one recasts":   {Pool{Recasting: true, Targets: []Target{notListening}}, ReasonTargetNotReady, "ImagePull"},
	} {
		t.Run(name, func(t *testing.T) {
			run := waitingRun(1)
			a := Assign(later, []Run{run}, c.pool)
			require.Empty(t, a.Reserves)
			require.Len(t, a.Refused, 1)
			assert.Equal(t, run.UID, a.Refused[0].UID)
			assert.Equal(t, c.reason, a.Refusal.Reason)
			assert.Contains(t, a.Refusal.Message, c.message)
			require.Len(t, a.Untold(later, 9), 1)
			s := WaitStatus(run, a.Refusal)
			assert.Equal(t, PhasePending, s.Phase)
			assert.Equal(t, Condition{Unknown, c.reason, a.Refusal.Message}, s.Succeeded)
			assert.Equal(t, False, s.Delivered.Status)
			run.Reason = c.reason
			assert.Empty(t, Assign(later, []Run{run}, c.pool).Untold(later, 9), "P7: one write a reason")
		})
	}
	assert.Equal(t, later.Add(7*time.Second), Assign(later, []Run{waitingRun(1)}, Pool{Targets: []Target{backingOff}}).RequeueAt)
	assert.Zero(t, Assign(later, nil, Pool{Targets: []Target{backingOff}}).RequeueAt, "nobody waits for it")
}

// P7: a queue that moves costs nothing. What a person has to know is said at once, that there is a queue after a while, and somebody
// looks then.
func TestThatAllAreBusyIsSaidAfterAWhile(t *testing.T) {
	full := Pool{Targets: []Target{targetWith(1, func(t *Target) { t.Capacity.Running = 2 })}}
	run := waitingRun(1)
	due := run.Created.Add(WriteBusyAfter)
	for now, says := range map[time.Time]bool{run.Created: false, due.Add(-1): false, due: true, due.Add(time.Hour / 2): true} {
		a := Assign(now, []Run{run}, full)
		require.Len(t, a.Refused, 1)
		assert.Equal(t, says, len(a.Untold(now, 1)) == 1, now)
		if says {
			assert.Zero(t, a.RequeueAt)
		} else {
			assert.Equal(t, due, a.RequeueAt, "somebody looks then")
		}
	}
	run.Reason = ReasonTargetBusy
	assert.Zero(t, Assign(run.Created, []Run{run}, full).RequeueAt, "it says so already")
	run.Reason = ""
	a := Assign(run.Created, []Run{run}, Pool{})
	assert.Equal(t, ReasonWaitingForService, a.Refusal.Reason)
	assert.Len(t, a.Untold(run.Created, 1), 1, "nothing ends that by itself")
	assert.Zero(t, a.RequeueAt)
}

func TestAssignLeavesOthersToDecide(t *testing.T) {
	for name, change := range map[string]func(*Run){
		"terminal":        func(r *Run) { r.Terminal = true },
		"cancelled":       func(r *Run) { r.Cancel = true },
		"not admitted":    func(r *Run) { r.Admitted = false },
		"reserved":        func(r *Run) { r.At = reserved },
		"past its time":   func(r *Run) { r.Created = later.Add(-time.Hour) },
		"after next time": func(r *Run) { r.NextTime = later.Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			run := waitingRun(1)
			change(&run)
			a := Assign(later, []Run{run}, Pool{Targets: []Target{goodTarget(1)}})
			assert.Empty(t, a.Reserves)
			assert.Empty(t, a.Refused)
			assert.Equal(t, run.NextTime, a.RequeueAt)
		})
	}
}

// I7: a number is never used twice, whatever became of the last attempt.
func TestAReservationHasANewNumberAndWhatTheSendNeeds(t *testing.T) {
	run := waitingRun(1)
	run.Attempt, run.Losses, run.Spent, run.NextTime = 4, 2, time.Minute, later.Add(-1)
	r := Assign(later, []Run{run}, Pool{By: "me", Targets: []Target{goodTarget(1)}}).Reserves[0].Reservation.Seal(run.UID, testGoal)
	assert.Equal(t, Reservation{Attempt: 5, PodName: "reviewer-1", PodUID: "pod-1", Journal: "journal-1", Digest: wire.Digest("run-1", 5, testGoal), Generation: 3, By: "me", At: later}, r)
	s := ReserveStatus(run, r)
	assert.Equal(t, Progress{Reservation: r, Losses: 2, Spent: time.Minute}, s.Progress)
	assert.Equal(t, ReasonReserved, s.Succeeded.Reason)
	assert.Equal(t, PhasePending, s.Phase)
}

// A Pod's word on what it can take is bounded by nothing but its own key: it stops nobody else's work.
func TestACapacityThatIsMadeUpStopsNobody(t *testing.T) {
	for _, much := range []int{math.MaxInt, math.MaxInt/2 + 1, 1 << 40} {
		made := func(n int) Target {
			return targetWith(n, func(t *Target) { t.Capacity = wire.Capacity{Concurrency: much} })
		}
		a := Assign(later, []Run{waitingRun(1), waitingRun(2), waitingRun(3)}, Pool{Targets: []Target{made(1), made(2), goodTarget(3)}})
		assert.Len(t, a.Reserves, 3, much)
		assert.Empty(t, a.Refused)
	}
}

// R33, I7: whatever the runs and targets, nothing is oversubscribed, nobody is served twice, nobody is forgotten, and the order
// in which they are listed does not matter.
func TestAssignIsFairBoundedAndDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []Run
		for i := range rapid.IntRange(0, 20).Draw(t, "runs") {
			r := waitingRun(i)
			r.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
			runs = append(runs, r)
		}
		var pool Pool
		for i := range rapid.IntRange(0, 6).Draw(t, "targets") {
			n := rapid.IntRange(0, 3)
			pool.Targets = append(pool.Targets, targetWith(i, func(x *Target) {
				x.Generation, x.Cordoned = rapid.Int64Range(1, 3).Draw(t, "g"), n.Draw(t, "cordoned") == 0
				x.Capacity = wire.Capacity{Concurrency: n.Draw(t, "c"), Queue: n.Draw(t, "q"), Running: n.Draw(t, "r")}
				x.Reserved = n.Draw(t, "reserved")
			}))
		}
		a := Assign(later, runs, pool)
		room := map[string]int{}
		for _, x := range pool.Targets {
			if !x.Cordoned {
				room[x.PodUID] = max(0, x.room())
			}
		}
		served := map[string]bool{}
		for i, r := range a.Reserves {
			room[r.Reservation.PodUID]--
			require.GreaterOrEqual(t, room[r.Reservation.PodUID], 0, "oversubscribed")
			require.Equal(t, runs[i].UID, r.Run, "oldest first")
			served[r.Run] = true
		}
		for _, r := range a.Refused {
			require.False(t, served[r.UID], "served and refused")
			served[r.UID] = true
		}
		require.Len(t, served, len(runs), "nobody is forgotten")
		if len(a.Refused) > 0 {
			for _, left := range room {
				require.Zero(t, left, "refused while there was room")
			}
		}
		shuffle := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // order only
		runs, pool.Targets = slices.Clone(runs), slices.Clone(pool.Targets)
		shuffle.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		shuffle.Shuffle(len(pool.Targets), func(i, j int) { pool.Targets[i], pool.Targets[j] = pool.Targets[j], pool.Targets[i] })
		b := Assign(later, runs, pool)
		require.ElementsMatch(t, a.Refused, b.Refused)
		most := rapid.IntRange(0, 5).Draw(t, "most")
		require.Equal(t, a.Untold(later, most), b.Untold(later, most))
		a.Refused, b.Refused = nil, nil
		require.Equal(t, a, b)
	})
}

// Whatever the order in which they come, the first are those that sorting would give.
func TestTheFirstOfManyAreThoseThatSortingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []*Run
		for _, n := range rapid.Permutation(rapid.SliceOfDistinct(rapid.IntRange(0, 200), rapid.ID[int]).Draw(t, "ages")).Draw(t, "order") {
			run := waitingRun(n)
			runs = append(runs, &run)
		}
		n := rapid.IntRange(0, 30).Draw(t, "n")
		got := first(n, slices.Clone(runs), older)
		slices.SortFunc(runs, older)
		require.Len(t, got, min(n, len(runs)))
		for i := range got {
			require.Same(t, runs[i], got[i])
		}
	})
}

// Of those that wait, who owes a word is told of, the youngest first.
func TestTheYoungestThatOweAWordAreTheFirstToBeTold(t *testing.T) {
	var runs []Run
	for i := range 6 {
		runs = append(runs, waitingRun(i))
	}
	runs[4].Reason = ReasonTargetBusy
	full := Pool{Targets: []Target{targetWith(1, func(t *Target) { t.Capacity.Running = 2 })}}
	now := runs[5].Created.Add(WriteBusyAfter - 1) // for all but the last
	names := func(most int) (out []string) {
		for _, run := range Assign(now, runs, full).Untold(now, most) {
			out = append(out, run.UID)
		}
		return out
	}
	assert.Equal(t, []string{"run-3", "run-2"}, names(2))
	assert.Equal(t, []string{"run-3", "run-2", "run-1", "run-0"}, names(9))
	assert.Empty(t, names(0))
}

// tenThousand are runs in no order, as a cache gives them.
func tenThousand() (runs []Run) {
	shuffle := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // order only
	for _, i := range shuffle.Perm(10_000) {
		r := waitingRun(i)
		r.Generation, r.Starting = int64(i%5), 24*time.Hour
		runs = append(runs, r)
	}
	return runs
}

// BenchmarkAssign10000RunsWhereOneHasRoom is a look at a long queue, as each end of a run causes.
func BenchmarkAssign10000RunsWhereOneHasRoom(b *testing.B) {
	runs, pool := tenThousand(), Pool{Targets: []Target{goodTarget(1)}}
	b.ReportAllocs()
	for b.Loop() {
		a := Assign(later, runs, pool)
		if len(a.Untold(later, 4)) != 4 || len(a.Reserves) != 2 {
			b.Fatal("expected two to be served and the others to be told")
		}
	}
}

func BenchmarkAssign10000RunsTo500Targets(b *testing.B) {
	runs := tenThousand()
	var pool Pool
	for i := range 500 {
		pool.Targets = append(pool.Targets, targetWith(i, func(t *Target) { t.Generation, t.Capacity = int64(i%7), wire.Capacity{Concurrency: 4, Queue: 20} }))
	}
	for b.Loop() {
		Assign(later, runs, pool)
	}
}
