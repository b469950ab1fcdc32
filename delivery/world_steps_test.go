package delivery

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// step is one thing that happens; weight is how often.
type step struct {
	name   string
	weight int
	do     func(*world)
}

func up(h *harness) bool { return h.up }

func onPod(do func(*world, *harness)) func(*world) {
	return func(w *world) {
		if h, ok := pick(w, w.pods, up); ok {
			do(w, h)
		}
	}
}

func onRun(do func(*world, string)) func(*world) {
	return func(w *world) {
		if name, ok := pick(w, names(w.api), func(string) bool { return true }); ok {
			do(w, name)
		}
	}
}

func onController(do func(*world, *controller)) func(*world) {
	return func(w *world) {
		c, _ := pick(w, w.ctrls, func(*controller) bool { return true })
		do(w, c)
	}
}

var steps = []step{
	{"create", 6, (*world).create},
	{"cancel", 2, onRun(func(w *world, n string) {
		if s := w.api[n]; !s.run.Cancel {
			s.run.Cancel = true
			s.rv++
		}
	})},
	{"delete", 1, onRun(func(w *world, n string) { delete(w.api, n) })},
	{"touch", 1, onRun(func(w *world, n string) { w.api[n].rv++ })},
	{"sync", 8, onController((*world).sync)},
	{"reconcile", 40, onController(func(w *world, c *controller) {
		if n, ok := pick(w, slices.Sorted(maps.Keys(c.cache)), func(string) bool { return true }); ok {
			w.reconcile(c, n)
		}
	})},
	{"assign", 12, onController(func(w *world, c *controller) {
		for _, h := range w.pods {
			if l := w.link(c, h); l.state != LinkVerified || w.chance(10) {
				w.challenge(c, h)
			}
		}
		w.assign(c)
	})},
	{"controller restarts", 3, func(w *world) {
		i := w.below(len(w.ctrls))
		w.ctrls[i] = w.newController()
	}},
	{"challenge", 10, onController(func(w *world, c *controller) {
		h, _ := pick(w, w.pods, func(*harness) bool { return true })
		w.challenge(c, h)
	})},
	{"feed", 10, onController(func(w *world, c *controller) {
		h, _ := pick(w, w.pods, func(*harness) bool { return true })
		w.feed(c, h)
	})},
	{"deliver", 25, func(w *world) {
		if len(w.net) > 0 {
			w.deliver(w.below(len(w.net)))
		}
	}},
	{"lose", 2, func(w *world) {
		if len(w.net) > 0 {
			i := w.below(len(w.net))
			w.done(w.net[i], reply{})
			w.net = slices.Delete(w.net, i, i+1)
		}
	}},
	{"caller times out", 3, func(w *world) {
		if r, ok := pick(w, w.net, func(r *request) bool { return r.caller != nil }); ok {
			w.done(r, reply{}) // the request is still under way
		}
	}},
	{"start", 10, onPod((*world).start)},
	{"finish", 6, onPod((*world).finish)},
	{"agent crashes", 1, onPod(func(w *world, h *harness) {
		for _, k := range h.keys(inState(wire.StateRunning)) {
			w.end(h.book[k], wire.OutcomeFailed, wire.ReasonAgentCrashed)
		}
		h.agent = wire.AgentDown
	})},
	{"agent comes back", 2, onPod(func(_ *world, h *harness) { h.agent = wire.AgentReady })},
	{"harness restarts", 2, onPod(func(w *world, h *harness) { w.restart(h, false) })},
	{"journal is lost", 1, onPod(func(w *world, h *harness) { w.restart(h, true) })},
	{"drain", 1, onPod(func(_ *world, h *harness) {
		h.drain = true
		for _, k := range h.keys(inState(wire.StateAccepted)) {
			h.book[k].State = wire.StateVoided
		}
	})},
	{"cordon", 1, onPod(func(_ *world, h *harness) { h.cordoned = true })},
	{"partition", 2, onPod(func(_ *world, h *harness) { h.reachable = false })},
	{"heal", 3, onPod(func(_ *world, h *harness) { h.reachable = true })},
	{"Pod deleted", 1, onPod(func(_ *world, h *harness) { h.exists, h.up = false, false })},
	{"Pod evicted", 1, onPod(func(_ *world, h *harness) { h.failed, h.up = true, false })},
	{"Pod force-deleted, its process lives on cut off", 1, onPod(func(_ *world, h *harness) { h.exists, h.reachable = false, false })},
	{"new Pod", 4, func(w *world) {
		if len(w.pods) < 6 {
			w.newPod()
		}
	}},
	{"time", 8, func(w *world) {
		w.now = w.now.Add([]time.Duration{1, 1, 1, 5, 5, 30, 100}[w.below(7)] * time.Second)
	}},
}

// weighted draws how often each step happens in this world. In some worlds a thing never happens and in some often, so that
// rare faults meet each other.
func (w *world) weighted() []int {
	var out []int
	for i, s := range steps {
		factors := []int{0, 1, 1, 6} // a fault
		if s.weight >= 4 {
			factors = []int{1, 1, 1, 2} // what moves things on
		}
		for range s.weight * factors[w.below(len(factors))] {
			out = append(out, i)
		}
	}
	return out
}

// settle lets time pass with everybody at work until all has ended; healed or not, it must end in bounded time (I3).
func (w *world) settle(heal bool) {
	w.settling = true
	for _, h := range w.pods {
		h.reachable = heal && h.exists
		h.agent, h.drain, h.cordoned = wire.AgentReady, false, false
	}
	for range 120 { // of 25 s: starting deadline + own time + graces, nearly twice over
		w.now = w.now.Add(25 * time.Second)
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
			w.deliver(0)
		}
		for _, h := range w.pods {
			w.start(h)
			w.finish(h)
		}
	}
}

func (w *world) checkEnd(heal bool) {
	for _, n := range names(w.api) {
		s := w.api[n]
		require.True(w.t, s.run.Terminal, "I3: %s (%s) has not ended: %+v", n, s.run.Reason, s.run.Progress)
	}
	for _, uid := range slices.Sorted(maps.Keys(w.past)) {
		w.honest(w.past[uid])
	}
	for _, h := range w.pods {
		for _, k := range h.keys(func(a *Known) bool { return !a.State.Ended() }) {
			require.False(w.t, heal && h.up && h.reachable, "I4: %v is still alive in %s", k, h.me.PodName)
		}
	}
}

// Fault rows 1–10, 13–18, 22–25, 28, 30–33, 38, 39, 46, 47, 51, 53–55 in any order, with two controllers at once: I1 (side effects), I2 (one record), I3 (everything ends),
// I4 (orphans end), I5 (no cancel of wanted work), I7 (attempts only grow), and no record claims falsely that nothing was started.
func TestNothingIsLostAndNothingRunsTwiceInAnyOrder(t *testing.T) {
	coverage := map[string]int{}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, coverage)
		weighted := w.weighted()
		for range 50 + w.below(200) {
			s := steps[weighted[w.below(len(weighted))]]
			s.do(w)
			taken++
		}
		heal := rapid.Bool().Draw(t, "heal")
		w.settle(heal)
		w.checkEnd(heal)
	})
	if os.Getenv("HEARTH_COVERAGE") != "" {
		for _, k := range slices.Sorted(maps.Keys(coverage)) {
			fmt.Println(coverage[k], k)
		}
		fmt.Println(taken, "steps")
	}
	if !t.Failed() {
		for _, want := range []string{"Send", "Look", "Cancel", "ReadPod", "GiveBack", "Record", "Finish", "Disown", "end TargetLost", "end OutcomeUnknown",
			"end Cancelled", "end Completed", "end StartingDeadlineExceeded"} {
			assert.Positive(t, coverage[want], "the world never led to %s", want)
		}
	}
}
