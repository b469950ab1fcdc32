// Package storm does random things to a World of real processes: it creates, cancels and deletes runs, changes and scales Agents, kills
// and freezes controllers, kills harnesses and agents, takes journals and Pods away, cuts and stalls the network, and has the API server
// fail. The random walk and the soak are made of it. What is drawn comes from a seed; what processes make of it is theirs, so a seed
// repeats the steps, not their timing.
package storm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

const (
	// maxLiving bounds the runs that have no record yet: more would only wait.
	maxLiving = 24
	replicas  = 2
	// The limits of every run, short, so that even what nobody can ask about has ended soon.
	startingSeconds = 45
	activeSeconds   = 8
	drainSeconds    = 15
	beat            = 100 * time.Millisecond
)

// The Agents. The harnesses of the steady one are left alone, so that what they hold at the end can be compared with the start.
const (
	plain    = "plain"
	retrying = "retrying" // its runs have a backoffLimit
	steady   = "steady"
)

var agents = []string{plain, retrying, steady}

// Run is a run that was created, and what was done to it.
type Run struct {
	*hearthv1.AgentRun
	Deleted bool
	ended   bool // it had its record when it was looked at last
}

// Storm is one sequence of random steps.
type Storm struct {
	Seed uint64
	Runs []*Run

	t           testing.TB
	w           *rig.World
	rng         *rand.Rand
	began       time.Time
	steps       []string
	controllers []*rig.Controller
	frozen      map[*rig.Controller]bool
	later       []timed
	resting     map[types.UID]time.Time // Pods that are not to be disturbed again before
	quiet       bool                    // controllers are not killed any more
	template    int
}

// timed is what ends a fault.
type timed struct {
	at time.Time
	do func()
}

// New starts two controllers and the Agents, and waits until they take work. When the test has failed, the steps are told.
func New(t testing.TB, seed uint64) *Storm {
	t.Helper()
	s := &Storm{Seed: seed, t: t, rng: rand.New(rand.NewPCG(seed, seed)), frozen: map[*rig.Controller]bool{}, resting: map[types.UID]time.Time{}} //nolint:gosec // repeatable
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("FAULTS_STEPS") != "" {
			t.Logf("seed %d, steps:\n%s", seed, strings.Join(s.steps, "\n"))
		}
	})
	s.w = rig.New(t, rig.Options{})
	s.began = time.Now()
	s.controllers = []*rig.Controller{s.w.Controller(), s.w.Controller()}
	for _, name := range agents {
		s.w.Agent(name, func(a *hearthv1.Agent) {
			a.Spec.Replicas, a.Spec.DrainTimeoutSeconds = ptr.To[int32](replicas), ptr.To[int64](drainSeconds)
			a.Spec.StartingDeadlineSeconds, a.Spec.ActiveDeadlineSeconds = startingSeconds, activeSeconds
			a.Spec.Runtime.Delivery.Queue = ptr.To[int32](2)
			if name == retrying {
				a.Spec.BackoffLimit = 2
			}
		})
	}
	for _, name := range agents {
		s.w.Ready(name, replicas)
	}
	s.say("the Agents stand")
	return s
}

// Blow takes random steps for a while. Quiet is how long at its end no controller is killed.
func (s *Storm) Blow(long, quiet time.Duration) {
	s.t.Helper()
	end := time.Now().Add(long)
	for time.Now().Before(end) {
		s.quiet = time.Until(end) < quiet
		s.step()
		time.Sleep(time.Duration(s.rng.Int64N(int64(2 * beat))))
	}
	s.say("the storm is over")
}

// Steps is how many were taken.
func (s *Storm) Steps() int { return len(s.steps) }

func (s *Storm) say(format string, args ...any) {
	s.steps = append(s.steps, fmt.Sprintf("%7.1fs ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

// step ends the faults that are due, sees to it that a controller lives, and takes one step more.
func (s *Storm) step() {
	s.due(time.Now())
	s.alive()
	total := 0
	for _, x := range all {
		total += x.weight
	}
	n := s.rng.IntN(total)
	for _, x := range all {
		if n -= x.weight; n < 0 {
			x.do(s)
			return
		}
	}
}

// after ends a fault then.
func (s *Storm) after(d time.Duration, do func()) {
	s.later = append(s.later, timed{time.Now().Add(d), do})
}

func (s *Storm) due(now time.Time) {
	var left []timed
	for _, x := range s.later {
		if x.at.After(now) {
			left = append(left, x)
		} else {
			x.do()
		}
	}
	s.later = left
}

// between draws a time.
func (s *Storm) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rng.Int64N(int64(to-from)))
}

func draw[T any](s *Storm, from []T) T { return from[s.rng.IntN(len(from))] }

// alive has one controller at least that lives and is not frozen.
func (s *Storm) alive() {
	var living []*rig.Controller
	working := 0
	for _, c := range s.controllers {
		if c.Alive() {
			living = append(living, c)
			if !s.frozen[c] {
				working++
			}
		}
	}
	s.controllers = living
	if working == 0 {
		s.say("a controller is started")
		s.controllers = append(s.controllers, s.w.Controller())
	}
}

// living are the runs without a record, as far as is known.
func (s *Storm) living() []*Run {
	var out []*Run
	for _, r := range s.Runs {
		if !r.Deleted && !r.ended {
			out = append(out, r)
		}
	}
	return out
}

// create makes a run, unless enough are under way.
func (s *Storm) create() {
	living := s.living()
	if len(living) >= maxLiving {
		for _, r := range living {
			s.look(r)
		}
		return
	}
	agent, goal := draw(s, agents), draw(s, goals)
	run := s.w.Run(agent, goal)
	s.Runs = append(s.Runs, &Run{AgentRun: run})
	s.say("%s: %s for %s", run.Name, goal, agent)
}

// look asks whether a run has its record.
func (s *Storm) look(r *Run) *hearthv1.AgentRun {
	s.t.Helper()
	got := s.w.Get(r.AgentRun)
	require.NotNil(s.t, got, "run %s is gone, and nobody deleted it", r.Name)
	r.ended = got.Status.CompletionTime != nil
	return got
}
