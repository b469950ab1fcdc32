// Package invariant proves, after a fault, what must hold whatever happened: I1 to I8 of SPEC.md, Faults, as pure functions over values
// that were gathered. Each returns what it found; nothing means that the invariant holds.
//
// The first are about runs: what the agent did (Effect), what the API server told from the start (history.Version). The last two are
// about processes and texts.
package invariant

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hearthdev/hearth/test/faults/history"
)

// Name is an invariant's number.
type Name string

// The invariants.
const (
	I1 Name = "I1" // side effects per run: one without a backoffLimit, else each with its own attempt number
	I2 Name = "I2" // one terminal record per run; its content never changes
	I3 Name = "I3" // nothing lives past its deadlines and their grace
	I4 Name = "I4" // a delete returns at once and the object is gone; the work for it ends within 30 s of a controller being up
	I5 Name = "I5" // no cancel reaches another attempt
	I6 Name = "I6" // goroutines, open files and memory are flat afterwards
	I7 Name = "I7" // attempt numbers only grow
	I8 Name = "I8" // no goal, secret or key in logs, events, metrics or another Pod
)

// Violation is an invariant that does not hold, and where.
type Violation struct {
	Invariant Name
	Run       types.UID // empty where it is about no run
	Text      string
}

func (v Violation) String() string {
	if v.Run == "" {
		return fmt.Sprintf("%s: %s", v.Invariant, v.Text)
	}
	return fmt.Sprintf("%s: run %s: %s", v.Invariant, v.Run, v.Text)
}

// Say is all violations, a line each.
func Say(all []Violation) string {
	lines := make([]string, 0, len(all))
	for _, v := range all {
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n")
}

// Effect is one prompt that the agent really started.
type Effect struct {
	Run     types.UID
	Attempt int64
	Pod     types.UID // empty where nobody knows
	Started time.Time
	// Ended is when the work was over, however; zero while it goes on.
	Ended time.Time
	// Cancelled tells that the agent was told to stop.
	Cancelled bool
}

// Span is a time during which a controller led. A zero To is now.
type Span struct{ From, To time.Time }

// Facts is what is known after a case.
type Facts struct {
	Now      time.Time
	Versions []history.Version // of the namespace's runs, from the start, settled
	Effects  []Effect
	Cancels  []Cancel
	// Up is when a controller led; none means that I4's end of the work is not asked for.
	Up []Span
	// Drained are the Pods that were told to end: their runs may be cancelled without anybody having asked for that.
	Drained map[types.UID]bool
	// Grace is added to every time that is waited for.
	Grace time.Duration

	Processes []Process
	Texts     []Text
	Secrets   []Secret
}

// Check proves all invariants that the facts speak of.
func Check(f Facts) []Violation {
	var all []Violation
	all = append(all, AtMostOnce(f.Versions, f.Effects)...)
	all = append(all, History(f.Versions)...)
	all = append(all, Ended(f.Versions, f.Now, f.Grace)...)
	all = append(all, GoneAtOnce(f.Versions)...)
	all = append(all, StoppedAfterDelete(f.Versions, f.Effects, f.Up, f.Now, f.Grace)...)
	all = append(all, CancelsOfTheirOwn(f.Versions, f.Cancels, f.Drained)...)
	for _, p := range f.Processes {
		all = append(all, Flat(p)...)
	}
	return append(all, Silent(f.Texts, f.Secrets)...)
}
