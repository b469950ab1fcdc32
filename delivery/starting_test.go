package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// looks is the patience that the property below has: how often everybody may look at everything, with nothing lost on the way, after
// a deadline is over, until the run has ended. See, ask, void, and write are one look each, and a refusal may come in between.
const looks = 4

// setbacks are what could make somebody begin to count anew: refusals, give-backs, losses, restarts. In each of these worlds a
// few of them happen again and again.
var setbacks = map[string]func(*world){
	"controller restarts": func(w *world) { w.ctrls[w.below(len(w.ctrls))] = w.newController() },
	"agent crashes": onPod(func(w *world, h *harness) {
		for _, k := range h.keys(inState(wire.StateRunning)) {
			w.end(h.book[k], wire.OutcomeFailed, wire.ReasonAgentCrashed)
		}
		h.agent = wire.AgentDown
	}),
	"agent comes back": onPod(func(_ *world, h *harness) { h.agent = wire.AgentReady }),
	"harness restarts": onPod(func(w *world, h *harness) { w.restart(h, false) }),
	"journal is lost":  onPod(func(w *world, h *harness) { w.restart(h, true) }),
	"drain": onPod(func(_ *world, h *harness) {
		h.drain = true
		for _, k := range h.keys(inState(wire.StateAccepted)) {
			h.book[k].State = wire.StateVoided
		}
	}),
	"drained in vain": onPod(func(_ *world, h *harness) { h.drain = false }),
	"cordon":          onPod(func(_ *world, h *harness) { h.cordoned = true }),
	"uncordon":        onPod(func(_ *world, h *harness) { h.cordoned = false }),
	"Pod deleted":     onPod(func(_ *world, h *harness) { h.exists, h.up = false, false }),
	"Pod evicted":     onPod(func(_ *world, h *harness) { h.failed, h.up = true, false }),
	"partition":       onPod(func(_ *world, h *harness) { h.reachable = false }),
	"heal":            onPod(func(_ *world, h *harness) { h.reachable = true }),
	"new Pod": func(w *world) {
		if len(w.pods) < 6 {
			w.newPod()
		}
	},
	"work starts": onPod((*world).start),
	"work ends":   onPod((*world).finish),
}

// round lets everybody look at everything once; lossy: no reply arrives.
func (w *world) round(lossy bool) {
	for _, c := range w.ctrls {
		w.sync(c)
		for _, h := range w.pods {
			w.challenge(c, h)
			w.feed(c, h)
		}
		w.assign(c)
		for _, n := range names(w.api) {
			w.reconcile(c, n)
		}
	}
	for len(w.net) > 0 {
		if !lossy {
			w.deliver(0)
			continue
		}
		w.done(w.net[0], reply{})
		w.net = w.net[1:]
	}
}

// target is the harness that a run's reservation is for, and whether it can be asked.
func (w *world) target(run Run) (*harness, bool) {
	for _, h := range w.pods {
		if h.me.PodUID == run.PodUID {
			return h, h.reachable && h.up
		}
	}
	return nil, true
}

func (h *harness) hasStarted(run Run) bool {
	if h == nil {
		return false
	}
	a := h.book[key{run.UID, run.Attempt}]
	return a != nil && (a.State == wire.StateRunning || a.State == wire.StateFinished)
}

// R28, R30, R41: whatever refuses a run, gives it back, loses it or restarts, and however often, it has started or ended by its creation +
// startingDeadlineSeconds + what lost attempts had been running, and a bounded patience; where its target cannot be asked whether it
// has started, it has ended by the controller's own deadline and that patience. write checks that nothing else moves the deadline.
func TestNoRefusalNoGiveBackAndNoNewAttemptRestartsTheStartingDeadline(t *testing.T) {
	coverage := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, coverage)
		w.settling = true // the caches and the network are as good as the rounds below say
		kinds := rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(setbacks))), 2, 6).Draw(t, "what happens here")
		kinds = append(kinds, "work starts", "work ends") // now and then, or no run would ever end well
		over, restarted := map[string]int{}, w.now
		for range 60 {
			for range w.below(3) {
				w.create()
			}
			for n, s := range w.api {
				if s.run.Starting, s.run.Active = 2*time.Minute, time.Minute; s.run.Terminal {
					delete(w.api, n) // its name is free
				}
			}
			for range w.below(4) {
				kind := kinds[w.below(len(kinds))]
				setbacks[kind](w)
				if kind == "controller restarts" {
					restarted = w.now
				}
			}
			w.now = w.now.Add([]time.Duration{1, 5, 15, 25}[w.below(4)] * time.Second)
			lossy := w.chance(20)
			w.round(lossy)
			if lossy {
				continue
			}
			for _, n := range names(w.api) {
				run := w.api[n].run
				h, asked := w.target(run)
				end := run.Created.Add(run.Starting + run.Spent) // in words of its own, not the code's
				if !asked || h.hasStarted(run) {
					if run.At.After(end) {
						end = run.At
					}
					end = end.Add(run.Active + DeadlineGrace + LastLookPatience)
					if last := restarted.Add(LastLookPatience); last.After(end) {
						end = last // it looks first
					}
				}
				if run.Terminal || w.now.Before(end) {
					continue
				}
				about := fmt.Sprint(run.UID, run.Attempt, end)
				over[about]++
				require.LessOrEqual(t, over[about], looks, "%s (%s) should have started or ended by %s, it is %s: %+v", run.UID, run.Reason, end, w.now, run.Progress)
			}
		}
	})
	if !t.Failed() {
		for _, want := range []string{"end StartingDeadlineExceeded", "end Completed", "GiveBack", "NextAttempt", "Void"} {
			assert.Positive(t, coverage[want], "the worlds never led to %s", want)
		}
	}
}
