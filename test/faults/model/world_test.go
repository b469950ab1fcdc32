package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

const (
	namespace = "team"
	// The limits of every run and Agent here, short enough that settling stays quick.
	starting = 20 * time.Minute
	active   = 5 * time.Minute
	drain    = 4 * time.Minute
	grace    = 90 * time.Second // a Pod's, to end
	pods     = 8                // at most, at a time
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// key is one attempt of one run.
type key struct {
	uid     string
	attempt int64
}

// stored is a delivered run on the API server.
type stored struct {
	run      delivery.Run
	agent    string
	agentUID types.UID
	version  int
	ending   *delivery.Ending
}

// podObject is a Pod as the API server and caches have it.
type podObject struct {
	uid                            string
	failed, terminating, listening bool
}

// objects are what an API server, or a cache of it, holds, by name.
type objects struct {
	agents   map[string]*hearthv1.Agent
	standing map[string]*hearthv1.AgentRun
	runs     map[string]stored
	pods     map[string]podObject
}

// What of it one watch brings.
const (
	ofAgents = iota
	ofStanding
	ofRuns
	ofPods
	kinds
)

func (o *objects) take(from *objects, kind int) {
	switch kind {
	case ofAgents:
		o.agents = maps.Clone(from.agents)
	case ofStanding:
		o.standing = maps.Clone(from.standing)
	case ofRuns:
		o.runs = maps.Clone(from.runs)
	case ofPods:
		o.pods = maps.Clone(from.pods)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// world is all there is. Objects in it are never changed in place: a change is a new one, so that caches may share them.
type world struct {
	t   *rapid.T
	now time.Time
	// api is what is true; past is every run there ever was, by UID, as it was last.
	api     objects
	past    map[string]*stored
	version int
	serial  int

	harnesses   []*harness // every one there ever was
	controllers []*controller
	net         []*request

	// effects counts the prompts that agents were really given, by run and by attempt; results are how attempts ended.
	effects  map[string]int
	attempts map[key]int
	began    map[key]time.Time
	results  map[key]string

	settling bool
	nested   bool // a pass is under way in the middle of another controller's
	crossed  bool // there was one in the middle of the present one
	coverage map[string]int
}

func newWorld(t *rapid.T, coverage map[string]int) *world {
	w := &world{t: t, now: noon, past: map[string]*stored{}, effects: map[string]int{}, attempts: map[key]int{}, began: map[key]time.Time{}, results: map[key]string{}, coverage: coverage,
		api: objects{agents: map[string]*hearthv1.Agent{}, standing: map[string]*hearthv1.AgentRun{}, runs: map[string]stored{}, pods: map[string]podObject{}}}
	for _, name := range agents {
		w.createAgent(name)
	}
	for range 2 {
		w.controllers = append(w.controllers, w.newController())
	}
	return w
}

func (w *world) id(kind string) string { w.serial++; return fmt.Sprintf("%s-%d", kind, w.serial) }

func (w *world) bump() int { w.version++; return w.version }

// even draws evenly from 0 to 1023. Bit by bit, because rapid's own ranges prefer small numbers, and rare things would be common.
var even = rapid.Custom(func(t *rapid.T) int {
	v := 0
	for range 10 {
		v <<= 1
		if rapid.Bool().Draw(t, "bit") {
			v++
		}
	}
	return v
})

func (w *world) below(n int) int { return even.Draw(w.t, "of 1024") * n / 1024 }

func (w *world) chance(percent int) bool { return w.below(100) >= 100-percent }

// mishap is a chance that there is only while things happen; when they settle there is none.
func (w *world) mishap(percent int) bool { return !w.settling && w.chance(percent) }

// pick draws one of those that qualify.
func pick[T any](w *world, from []T, qualifies func(T) bool) (one T, ok bool) {
	var some []T
	for _, x := range from {
		if qualifies(x) {
			some = append(some, x)
		}
	}
	if len(some) == 0 {
		return one, false
	}
	return some[w.below(len(some))], true
}

func (w *world) tell(format string, args ...any) {
	w.t.Logf("%s "+format, append([]any{w.now.Format("15:04:05")}, args...)...)
}

func goalOf(uid string) string { return "goal of " + uid }

// deliverRun is what a person does, through admission. One without admission must never be executed (fault row 45).
func (w *world) deliverRun() {
	name, uid := fmt.Sprintf("review-%d", w.below(6)), w.id("run")
	agent := w.api.agents[agents[w.below(len(agents))]]
	if old, taken := w.api.runs[name]; agent == nil || taken && !old.run.Terminal {
		return
	} else if taken {
		delete(w.api.runs, name) // a record that was read; harnesses may hold attempts of it still
	}
	s := stored{agent: agent.Name, agentUID: agent.UID, version: w.bump(), run: delivery.Run{UID: uid, Namespace: namespace, Name: name, Generation: agent.Generation, Created: w.now,
		Admitted: !w.chance(4), Starting: starting, Active: active}}
	if w.chance(25) {
		s.run.BackoffLimit = 2
	}
	w.store(s)
	w.tell("run %s is created as %s for %s", uid, name, agent.Name)
}

func (w *world) store(s stored) {
	w.api.runs[s.run.Name] = s
	w.past[s.run.UID] = &s
}

// update writes a run's status with the resource version as its lock.
func (w *world) update(seen stored, s delivery.Status) bool {
	is, ok := w.api.runs[seen.run.Name]
	if !ok || is.run.UID != seen.run.UID || is.version != seen.version {
		return false
	}
	next := is
	next.run.Progress, next.run.Phase, next.run.Reason = s.Progress, s.Phase, s.Succeeded.Reason
	next.run.Terminal, next.ending, next.version = s.Ending != nil, s.Ending, w.bump()
	w.store(next)
	w.checkWrite(is, next)
	return true
}

// deadline is the controller's own (SPEC.md, Lifecycle, Clocks), computed here a second time.
func deadline(r delivery.Run) time.Time {
	from := r.Created.Add(r.Starting + r.Spent)
	if r.At.After(from) {
		from = r.At
	}
	return from.Add(r.Active + delivery.DeadlineGrace)
}

// neverStarted: the record claims that no work was done.
func neverStarted(e *delivery.Ending) bool {
	switch e.Reason {
	case delivery.ReasonStartingDeadlineExceeded, delivery.ReasonRejected, delivery.ReasonAgentNotFound, delivery.ReasonNotAdmitted:
		return true
	case delivery.ReasonCancelled:
		return e.Outcome == "" && strings.Contains(e.Message, "before")
	default:
		return false
	}
}
