//go:build faults

package faults_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// scene is work that brings a harness to its points, and how it must end when the harness is killed there.
type scene struct {
	name   string
	points []crashpoint.Point
	// play makes the work, calls kill when the point may be reached, and gives the run that is looked at.
	play func(t *testing.T, w *rig.World, pod *rig.Pod, kill func()) *hearthv1.AgentRun
	// ends are the phases or reasons that are right; effects how many there may be.
	ends    []string
	effects []int
}

// scenes are all points of a harness (rows 14 to 18 and 55).
func scenes() []scene {
	both := func(of func(string) crashpoint.Point, names ...string) (all []crashpoint.Point) {
		for _, n := range names {
			all = append(all, of(n))
		}
		return all
	}
	return []scene{
		{"row 14, not on disk", both(crashpoint.BeforeWrite, "accept"), hello, []string{succeeded}, []int{1}},
		{"row 15, not started", append(both(crashpoint.AfterWrite, "accept"), both(crashpoint.BeforeReply, "deliver")...), hello, []string{succeeded, hearthv1.ReasonInterrupted}, []int{0, 1}},
		{"row 15, before the start is on disk", both(crashpoint.BeforeWrite, "start"), hello, []string{succeeded}, []int{1}},
		{"row 16, started", both(crashpoint.AfterWrite, "start"), hello, []string{hearthv1.ReasonInterrupted}, []int{0}},
		{"row 16, the result is not on disk", both(crashpoint.BeforeWrite, "finish"), hello, []string{hearthv1.ReasonInterrupted}, []int{1}},
		{"row 17, the result is on disk", both(crashpoint.AfterWrite, "finish"), hello, []string{succeeded}, []int{1}},
		{"told", append(append(both(crashpoint.BeforeWrite, "recorded"), both(crashpoint.AfterWrite, "recorded")...),
			append(both(crashpoint.BeforeReply, "recorded"), both(crashpoint.AfterReply, "recorded")...)...), hello, []string{succeeded}, []int{1}},
		{"asked", append(both(crashpoint.BeforeReply, "challenge", "changes"), both(crashpoint.AfterReply, "challenge", "changes", "deliver")...),
			linked, []string{succeeded, hearthv1.ReasonInterrupted}, []int{0, 1}},
		{"cancelled", append(append(both(crashpoint.BeforeWrite, "cancel"), both(crashpoint.AfterWrite, "cancel")...),
			append(both(crashpoint.BeforeReply, "cancel"), both(crashpoint.AfterReply, "cancel")...)...),
			cancelled, []string{hearthv1.ReasonCancelled, hearthv1.ReasonInterrupted}, []int{1}},
		{"cancelled before its start", append(both(crashpoint.BeforeWrite, "void"), both(crashpoint.AfterWrite, "void")...),
			cancelledEarly, []string{hearthv1.ReasonCancelled}, []int{0, 1}},
	}
}

func hello(_ *testing.T, w *rig.World, _ *rig.Pod, kill func()) *hearthv1.AgentRun {
	run := w.Run("reviewer", "say: hello")
	kill()
	return run
}

// linked has the controller connect anew.
func linked(_ *testing.T, w *rig.World, pod *rig.Pod, kill func()) *hearthv1.AgentRun {
	pod.Proxy.Cut()
	run := w.Run("reviewer", "say: hello")
	kill()
	return run
}

func cancelled(_ *testing.T, w *rig.World, _ *rig.Pod, kill func()) *hearthv1.AgentRun {
	run := w.Run("reviewer", endless)
	w.Await(run, hearthv1.ReasonRunning)
	w.Cancel(run)
	kill()
	return run
}

// cancelledEarly cancels a run that waits in the harness behind another.
func cancelledEarly(t *testing.T, w *rig.World, _ *rig.Pod, kill func()) *hearthv1.AgentRun {
	t.Helper()
	goal, open := held(t)
	first := w.Run("reviewer", goal)
	w.Await(first, hearthv1.ReasonRunning)
	second := w.Run("reviewer", endless) // its start may come before the cancel is tried again
	w.Await(second, hearthv1.ReasonQueued)
	w.Cancel(second)
	kill()
	open()
	w.Ended(first)
	return second
}

func TestACrashOfTheHarnessAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, s := range scenes() {
		for _, point := range s.points {
			t.Run(s.name+"/"+strings.TrimPrefix(string(point), "harness/"), func(t *testing.T) {
				if s.name == "asked" || s.name == "told" {
					rig.Slow(t)
				}
				t.Parallel()
				w, _, pods := reviewers(t, 1, rig.Options{})
				hold := pods[0].Hold(point)
				run := s.play(t, w, pods[0], func() { hold.Wait().Kill() })
				got := w.Ended(run)
				assert.Contains(t, s.ends, map[bool]string{true: succeeded, false: got.Status.Reason}[got.Status.Phase == hearthv1.PhaseSucceeded], "%s", got.Status.Message)
				assert.Contains(t, s.effects, len(w.EffectsOf(run)))
				works(t, w, "reviewer")
			})
		}
	}
}
