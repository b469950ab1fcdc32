package storm

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/invariant"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// settleWithin is all that a run may take once every fault has ended: its deadlines, the controller's grace and last look, and a second
// attempt's.
const settleWithin = (startingSeconds + 2*activeSeconds + 60 + 30) * time.Second

// Settle ends all faults and waits until every run has its record and all work is over.
func (s *Storm) Settle() {
	s.t.Helper()
	s.due(time.Now().Add(time.Hour))
	for _, name := range []string{plain, retrying} {
		s.scale(name, replicas)
	}
	s.alive()
	for end := time.Now().Add(settleWithin); time.Now().Before(end); time.Sleep(5 * beat) {
		s.alive()
		for _, r := range s.living() {
			s.look(r)
		}
		if len(s.living()) == 0 && !slices.ContainsFunc(s.w.Effects(), func(e rig.Effect) bool { return e.Ended.IsZero() }) {
			break
		}
	}
	s.say("settled: %d runs have no record", len(s.living()))
	for _, name := range agents {
		s.w.Ready(name, replicas)
	}
}

// Result is what came of a storm.
type Result struct {
	Created, Deleted int
	// Recorded is how many runs that were not deleted ended, by reason.
	Recorded map[string]int
	Effects  int
	// Lost are runs without a record, or with one that says that no work was done where it was, or that it succeeded where none was.
	Lost []string
	// Doubled are runs that were started more often than their backoffLimit allows, or one attempt of which was started twice.
	Doubled []string
}

// never are the reasons that say that nothing was started.
var never = []string{hearthv1.ReasonStartingDeadlineExceeded, hearthv1.ReasonRejected, hearthv1.ReasonNotAdmitted, hearthv1.ReasonAgentNotFound}

// Result counts.
func (s *Storm) Result() Result {
	s.t.Helper()
	out := Result{Created: len(s.Runs), Recorded: map[string]int{}}
	starts := map[types.UID]map[int64]int{}
	for _, e := range s.w.Effects() {
		out.Effects++
		if starts[e.RunUID] == nil {
			starts[e.RunUID] = map[int64]int{}
		}
		starts[e.RunUID][e.Attempt]++
	}
	for _, r := range s.Runs {
		total := 0
		for attempt, n := range starts[r.UID] {
			total += n
			if n > 1 {
				out.Doubled = append(out.Doubled, fmt.Sprintf("%s: attempt %d was started %d times", r.Name, attempt, n))
			}
		}
		if allowed := 1 + int(ptr.Deref(r.Spec.BackoffLimit, 0)); total > allowed {
			out.Doubled = append(out.Doubled, fmt.Sprintf("%s: started %d times", r.Name, total))
		}
		if r.Deleted {
			out.Deleted++
			continue
		}
		got := s.w.Get(r.AgentRun)
		if why := lost(got, total); why != "" {
			out.Lost = append(out.Lost, r.Name+" "+why)
			continue
		}
		out.Recorded[got.Status.Reason]++
	}
	return out
}

func lost(run *hearthv1.AgentRun, starts int) string {
	switch {
	case run == nil:
		return "is gone"
	case run.Status.CompletionTime == nil:
		return fmt.Sprintf("has no record: %s (%s)", run.Status.Phase, rig.Reason(run))
	case starts > 0 && slices.Contains(never, run.Status.Reason) && (run.Status.Delivery == nil || run.Status.Delivery.Losses == 0):
		return fmt.Sprintf("was started and is recorded as %s", run.Status.Reason)
	case starts == 0 && run.Status.Phase == hearthv1.PhaseSucceeded:
		return "is recorded as done and was never started"
	}
	return ""
}

// Sample is what the leading controller and the first of the steady Agent's harnesses hold.
func (s *Storm) Sample() (controller, harness invariant.Sample, err error) {
	s.alive()
	leader := s.w.Leader()
	for _, c := range s.controllers {
		if !c.Alive() || s.frozen[c] {
			continue
		}
		if sample, err := invariant.OfMetrics(strings.NewReader(c.Metrics())); err == nil && sample.Goroutines > controller.Goroutines {
			controller = sample // the one that leads has more to do than one that waits
		}
	}
	if controller.Goroutines == 0 {
		return controller, harness, fmt.Errorf("no controller tells what it holds; the lease is %q's", leader)
	}
	harness, err = invariant.OfProcess(s.w.Pods(steady)[0].PID())
	return controller, harness, err
}

// Table writes a result for people.
func (r Result) Table(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(what string, n int) { _, _ = fmt.Fprintf(w, "%s\t%d\n", what, n) }
	row("runs created", r.Created)
	for _, reason := range slices.Sorted(maps.Keys(r.Recorded)) {
		row("  recorded "+reason, r.Recorded[reason])
	}
	row("  deleted", r.Deleted)
	row("side effects", r.Effects)
	row("lost", len(r.Lost))
	row("doubled", len(r.Doubled))
	_ = w.Flush()
}
