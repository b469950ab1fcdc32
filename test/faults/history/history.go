// Package history reads the AgentRuns of a namespace as the API server tells of them, every version from the start, and proves what
// must hold of all of them and not only of the last one: a record never changed, attempts only grew, no run came back from its end,
// a reservation never moved under its number (SPEC.md, Lifecycle; I2, I7).
package history

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Version is one state of a run, in the order in which the API server stored them.
type Version struct {
	// Type is Added, Modified or Deleted; with Deleted, Run is the last state.
	Type watch.EventType
	// At is when the watcher saw it, by its own clock.
	At  time.Time
	Run *hearthv1.AgentRun
}

// Rule names what a problem breaks.
type Rule string

// The rules. Those of the record are I2, those of attempts I7.
const (
	RecordChanged    Rule = "a terminal status changed"
	RecordHalf       Rule = "a terminal status is not whole"
	PhaseLeft        Rule = "a run left a terminal phase"
	AttemptShrank    Rule = "an attempt number shrank or went away"
	ReservationMoved Rule = "a reservation moved without a new attempt number"
	ReservationBack  Rule = "a reservation came back under a number that was given up"
	SpecChanged      Rule = "a resolved spec changed"
	CancelTaken      Rule = "a cancel was taken back"
	NameReused       Rule = "another run under the name without the end of the first"
	AfterDeletion    Rule = "a run changed after it was deleted"
)

// Problem is a rule that a run's history breaks, and how.
type Problem struct {
	Rule    Rule
	Run     types.NamespacedName
	UID     types.UID
	Version string // the resource version at which it shows
	Text    string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s: run %s (%s) at version %s: %s", p.Rule, p.Run, p.UID, p.Version, p.Text)
}

// Check proves the rules over versions in their order; nothing returned means that all hold.
func Check(versions []Version) []Problem {
	c := checker{past: map[types.UID]*past{}, names: map[types.NamespacedName]types.UID{}}
	for _, v := range versions {
		c.see(v)
	}
	return c.problems
}

// past is what is remembered of a run: its last state, and each attempt's reservation.
type past struct {
	last     *hearthv1.AgentRun
	deleted  bool
	reserved map[int64]reservation
}

type reservation struct {
	pod     types.UID
	journal string
	digest  string
	over    bool // given up: the number is not reserved any more
}

type checker struct {
	past     map[types.UID]*past
	names    map[types.NamespacedName]types.UID
	problems []Problem
}

func (c *checker) see(v Version) {
	run := v.Run
	found := func(rule Rule, format string, args ...any) {
		c.problems = append(c.problems, Problem{
			Rule: rule, Run: types.NamespacedName{Namespace: run.Namespace, Name: run.Name}, UID: run.UID,
			Version: run.ResourceVersion, Text: fmt.Sprintf(format, args...),
		})
	}
	name := types.NamespacedName{Namespace: run.Namespace, Name: run.Name}
	if other := c.names[name]; other != "" && other != run.UID {
		found(NameReused, "%s still exists", other)
	}
	c.names[name] = run.UID
	p := c.past[run.UID]
	if p == nil {
		p = &past{reserved: map[int64]reservation{}}
		c.past[run.UID] = p
	}
	if p.deleted {
		found(AfterDeletion, "%s", v.Type)
	}
	if p.last != nil {
		compareRecord(p.last, run, found)
		compareAttempt(p.last, run, found)
		compareSpec(p.last, run, found)
	}
	whole(run, found)
	p.reserve(run, found)
	p.last = run
	if v.Type == watch.Deleted {
		p.deleted = true
		delete(c.names, name)
	}
}

type report func(rule Rule, format string, args ...any)

func compareRecord(before, after *hearthv1.AgentRun, found report) {
	if before.Status.CompletionTime != nil && !equality.Semantic.DeepEqual(before.Status, after.Status) {
		found(RecordChanged, "it was %s/%s, it is %s/%s", before.Status.Phase, before.Status.Reason, after.Status.Phase, after.Status.Reason)
	}
	if terminal(before.Status.Phase) && after.Status.Phase != before.Status.Phase {
		found(PhaseLeft, "from %s to %q", before.Status.Phase, after.Status.Phase)
	}
}

func compareAttempt(before, after *hearthv1.AgentRun, found report) {
	if was, is := Attempt(before), Attempt(after); is < was {
		found(AttemptShrank, "from %d to %d", was, is)
	}
}

func compareSpec(before, after *hearthv1.AgentRun, found report) {
	if before.Spec.Cancel && !after.Spec.Cancel {
		found(CancelTaken, "cancel is false again")
	}
	was, is := before.Spec, after.Spec
	was.Cancel, is.Cancel = false, false
	if !equality.Semantic.DeepEqual(was, is) {
		found(SpecChanged, "generation %d to %d", before.Generation, after.Generation)
	}
}

// whole: the one terminal write has everything, or nothing of it.
func whole(run *hearthv1.AgentRun, found report) {
	s := run.Status
	decided := meta.FindStatusCondition(s.Conditions, hearthv1.AgentRunConditionSucceeded)
	signs := []bool{s.CompletionTime != nil, terminal(s.Phase), decided != nil && decided.Status != metav1.ConditionUnknown}
	if slices.Contains(signs, true) && slices.Contains(signs, false) {
		found(RecordHalf, "completionTime %t, phase %q, Succeeded decided %t", signs[0], s.Phase, signs[2])
	}
	if s.CompletionTime != nil && (s.Reason == "" || s.RecordedAt == nil) {
		found(RecordHalf, "reason %q, recordedAt set %t", s.Reason, s.RecordedAt != nil)
	}
}

// reserve compares the reservation that the run shows with what the same number stood for before.
func (p *past) reserve(run *hearthv1.AgentRun, found report) {
	n := Attempt(run)
	if n == 0 {
		return
	}
	d := run.Status.Delivery
	known, seen := p.reserved[n]
	switch {
	case d.ReservedAt == nil:
		known.over = true
	case seen && known.over:
		found(ReservationBack, "attempt %d", n)
	case seen && (known.pod != d.PodUID || known.digest != d.Digest || known.journal != d.Journal && known.journal != ""):
		found(ReservationMoved, "attempt %d from Pod %s to %s, journal %q to %q", n, known.pod, d.PodUID, known.journal, d.Journal)
	default:
		known = reservation{pod: d.PodUID, journal: d.Journal, digest: d.Digest}
	}
	p.reserved[n] = known
}

// Attempt is the number of the run's current attempt, 0 before the first.
func Attempt(run *hearthv1.AgentRun) int64 {
	if run.Status.Delivery == nil {
		return 0
	}
	return run.Status.Delivery.Attempt
}

func terminal(p hearthv1.Phase) bool {
	return p == hearthv1.PhaseSucceeded || p == hearthv1.PhaseFailed
}

// Terminal tells whether the run has its record.
func Terminal(run *hearthv1.AgentRun) bool { return run.Status.CompletionTime != nil }

// Last is the last version of each run, in the order in which the runs first appeared.
func Last(versions []Version) []Version {
	at, last := map[types.UID]int{}, []Version{}
	for _, v := range versions {
		i, seen := at[v.Run.UID]
		if !seen {
			i = len(last)
			at[v.Run.UID] = i
			last = append(last, v)
		}
		last[i] = v
	}
	return last
}
