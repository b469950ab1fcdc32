package model

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		_ = flag.Set("rapid.checks", walks)
	}
	os.Exit(m.Run())
}

// step is one thing that happens; weight is how often.
type step struct {
	name   string
	weight int
	do     func(*world)
}

func onHarness(do func(*world, *harness)) func(*world) {
	return func(w *world) {
		if h, ok := pick(w, w.harnesses, func(h *harness) bool { return h.exists || h.up }); ok {
			do(w, h)
		}
	}
}

func onController(do func(*world, *controller)) func(*world) {
	return func(w *world) {
		c, _ := pick(w, w.controllers, func(*controller) bool { return true })
		do(w, c)
	}
}

func onLink(do func(*world, *controller, *harness)) func(*world) {
	return func(w *world) {
		c, _ := pick(w, w.controllers, func(*controller) bool { return true })
		if h, ok := pick(w, w.harnesses, func(h *harness) bool { return c.links[h] != nil }); ok {
			do(w, c, h)
		}
	}
}

func onRun(do func(*world, stored)) func(*world) {
	return func(w *world) {
		if name, ok := pick(w, sorted(w.api.runs), func(string) bool { return true }); ok {
			do(w, w.api.runs[name])
		}
	}
}

func onAgent(do func(*world, string)) func(*world) {
	return func(w *world) {
		if name, ok := pick(w, sorted(w.api.agents), func(string) bool { return true }); ok {
			do(w, name)
		}
	}
}

// steps are all that can happen.
var steps = []step{
	// What people do.
	{"create", 16, (*world).deliverRun},
	{"cancel", 2, onRun(func(w *world, s stored) {
		if !s.run.Cancel {
			s.run.Cancel, s.version = true, w.bump()
			w.store(s)
			w.tell("run %s is cancelled", s.run.UID)
		}
	})},
	{"delete", 1, onRun(func(w *world, s stored) {
		delete(w.api.runs, s.run.Name)
		w.tell("run %s is deleted", s.run.UID)
	})},
	{"recast: another template", 1, onAgent(func(w *world, n string) {
		w.respec(n, func(s *hearthv1.AgentSpec) {
			s.Template = *s.Template.DeepCopy()
			s.Template.Spec.Containers[0].Image = fmt.Sprintf("i:%d", 1+w.below(3))
		})
	})},
	{"scale", 2, onAgent(func(w *world, n string) {
		w.respec(n, func(s *hearthv1.AgentSpec) { s.Replicas = ptr.To([]int32{0, 1, 1, 2, 2, 3}[w.below(6)]) })
	})},
	{"Agent deleted, or made again", 1, func(w *world) {
		if n := agents[w.below(len(agents))]; w.api.agents[n] == nil {
			w.createAgent(n)
		} else if w.chance(20) {
			w.deleteAgent(n)
		}
	}},
	// What controllers do. Each watch brings what it brings when it does.
	{"watch", 10, onController(func(w *world, c *controller) {
		c.cache.take(&w.api, w.below(kinds))
		w.links(c)
	})},
	{"all watches", 6, onController((*world).sync)},
	{"reconcile a run", 30, onController(func(w *world, c *controller) {
		if n, ok := pick(w, c.runs(), func(n string) bool { s, _ := c.run(n); return !s.run.Terminal }); ok {
			w.reconcile(c, n)
		}
	})},
	{"reconcile an Agent", 6, onController(func(w *world, c *controller) { w.standing(c, agents[w.below(len(agents))]) })},
	{"assign", 16, onController(func(w *world, c *controller) {
		name := agents[w.below(len(agents))]
		for more := true; more; more = len(c.passes[name]) > 0 && !w.chance(25) {
			w.assign(c, name)
		}
	})},
	{"challenge", 8, onLink((*world).challenge)},
	{"feed", 16, onLink((*world).look)},
	{"feeds", 6, onController(func(w *world, c *controller) {
		for _, h := range w.harnesses {
			w.look(c, h)
		}
	})},
	{"controller restarts", 2, func(w *world) { w.controllers[w.below(len(w.controllers))] = w.newController() }},
	{"pass", 12, onController((*world).pass)},
	{"everybody works", 4, (*world).round},
	// What the network does.
	{"all arrives", 6, (*world).arrive},
	{"deliver", 30, func(w *world) {
		if len(w.net) > 0 {
			w.deliver(w.below(len(w.net)))
		}
	}},
	{"lose", 2, func(w *world) {
		if len(w.net) > 0 {
			w.lose(w.below(len(w.net)))
		}
	}},
	{"caller times out", 3, func(w *world) {
		if r, ok := pick(w, w.net, func(r *request) bool { return r.caller != nil }); ok {
			w.done(r, reply{}) // the request is still under way
		}
	}},
	{"partition", 2, onLink(func(w *world, c *controller, h *harness) {
		c.cut[h] = true
		w.tell("%s does not reach %s any more", c.name, h.me.PodUID)
	})},
	{"heal", 3, onLink(func(_ *world, c *controller, h *harness) { delete(c.cut, h) })},
	// What Pods do.
	{"kubelet", 8, (*world).kubelet},
	{"garbage collector", 3, (*world).collect},
	{"start", 14, onHarness((*world).start)},
	{"finish", 8, onHarness((*world).finish)},
	{"agent crashes", 2, onHarness(func(w *world, h *harness) {
		if h.up {
			w.endAll(h, wire.OutcomeFailed, wire.ReasonAgentCrashed)
			h.state = wire.AgentDown
		}
	})},
	{"agent comes back", 3, onHarness(func(_ *world, h *harness) { h.state = wire.AgentReady })},
	{"harness dies", 2, onHarness(func(w *world, h *harness) {
		h.up = false
		w.tell("the harness in %s dies", h.me.PodUID)
	})},
	{"harness restarts", 1, onHarness(func(w *world, h *harness) {
		if h.exists && !h.failed {
			w.boots(h, false)
		}
	})},
	{"journal is lost", 1, onHarness(func(w *world, h *harness) {
		if h.exists && !h.failed {
			w.boots(h, true)
		}
	})},
	{"Pod evicted", 1, onHarness(func(w *world, h *harness) {
		if p := w.api.pods[h.me.PodName]; h.exists && p.uid == h.me.PodUID && w.chance(50) {
			h.failed, h.up, p.failed, p.listening = true, false, true, false
			w.api.pods[h.me.PodName] = p
			w.tell("Pod %s is evicted", h.me.PodUID)
		}
	})},
	{"Pod force-deleted", 1, onHarness(func(w *world, h *harness) {
		if h.exists && w.chance(50) {
			h.up = h.up && w.chance(60) // else its process lives on, and may be reached
			for _, c := range w.controllers {
				c.cut[h] = w.chance(60)
			}
			w.removePod(h)
		}
	})},
	{"time", 9, func(w *world) {
		w.now = w.now.Add([]time.Duration{1, 1, 1, 5, 5, 30, 100, 200}[w.below(8)] * time.Second)
		w.overtime()
	}},
}

// weighted draws how often each thing happens in this world. In some worlds a thing never happens and in some often, so that rare
// faults meet each other.
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

// pass is a controller that does all that there is to do.
func (w *world) pass(c *controller) {
	for _, h := range w.harnesses {
		w.challenge(c, h)
		w.look(c, h)
	}
	for _, name := range agents {
		for more := true; more; more = len(c.passes[name]) > 0 {
			w.assign(c, name)
		}
	}
	for _, name := range c.runs() {
		w.reconcile(c, name)
	}
}

// round is everybody at work once.
func (w *world) round() {
	w.collect()
	w.kubelet()
	for i, c := range w.controllers {
		w.sync(c)
		for _, name := range agents {
			if i == 0 || !w.settling { // the leader
				w.standing(c, name)
			}
		}
		w.pass(c)
	}
	w.arrive()
	for _, h := range w.harnesses {
		w.start(h)
		if w.settling || w.chance(30) {
			w.finish(h)
		}
	}
}

// arrive lets everything arrive that is under way.
func (w *world) arrive() {
	for len(w.net) > 0 {
		w.deliver(0)
	}
}

// warm is a world in which the Agents stand already. In others everything is to begin.
func (w *world) warm() {
	w.settling = true
	for range 4 {
		w.round()
		w.now = w.now.Add(2 * time.Second)
	}
	w.settling = false
	w.tell("the Agents stand")
}

// settle lets time pass with everybody at work until all has ended; healed or not, it must end in bounded time (I3).
func (w *world) settle(heal bool) {
	w.settling = true
	w.tell("settle, healed: %t", heal)
	for _, h := range w.harnesses {
		h.state = wire.AgentReady
		for _, c := range w.controllers {
			c.cut[h] = !heal || !h.exists
		}
	}
	// A starting deadline, a run's own time and the graces, nearly twice over.
	for until := w.now.Add(2 * (starting + active)); w.now.Before(until) && !w.settled(heal); w.now = w.now.Add(25 * time.Second) {
		w.round()
	}
}

// The steps of one walk, at least and more at most.
const walk, longer = 100, 300

// Whatever people do and whatever fails, in any order, for two Agents with several standing runs each and two controllers at
// once: I1, I2, I3, I4, I5 and I7 hold, every record is true, and in the end there is what the Agents say. Fault rows 1–10, 13–18, 20,
// 22–25, 28, 30–33, 38, 39, 45–47, 50, 51, 53–55.
func TestNothingIsLostAndNothingRunsTwiceWhateverHappens(t *testing.T) {
	coverage := map[string]int{}
	taken, failedAfter := 0, 0
	t.Cleanup(func() {
		if failedAfter > 0 {
			t.Logf("found after %d steps", failedAfter)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		ended := false
		defer func() {
			if !ended && failedAfter == 0 {
				failedAfter = taken
			}
		}()
		w := newWorld(t, coverage)
		if w.chance(80) {
			w.warm()
		}
		weighted := w.weighted()
		for range walk + w.below(longer) {
			steps[weighted[w.below(len(weighted))]].do(w)
			taken++
		}
		heal := w.chance(60)
		w.settle(heal)
		w.checkEnd(heal)
		ended = true
	})
	t.Logf("%d steps", taken)
	if os.Getenv("HEARTH_COVERAGE") != "" {
		for _, what := range sorted(coverage) {
			t.Log(coverage[what], what)
		}
	}
	if !whole {
		return
	}
	for _, want := range []string{"Reserve", "Send", "Look", "Void", "Cancel", "ReadPod", "GiveBack", "NextAttempt", "Record", "Finish", "Disown", "OrphanCancel", "OrphanLateResult",
		"standing run made", "standing run drained", "cordoned", "taken back", "recast", "written, and the answer lost", "started again after a loss"} {
		assert.Positive(t, coverage[want], "the world never led to %s", want)
	}
	for _, end := range []string{string(wire.ReasonCompleted), string(wire.ReasonCancelled), string(wire.ReasonInterrupted), string(wire.ReasonAgentCrashed), string(wire.ReasonDeadlineExceeded),
		string(delivery.ReasonStartingDeadlineExceeded), string(delivery.ReasonTargetLost), string(delivery.ReasonOutcomeUnknown), string(delivery.ReasonAgentNotFound),
		string(delivery.ReasonNotAdmitted), string(delivery.ReasonCancelUnconfirmed)} {
		assert.Positive(t, coverage["end "+end], "no run ended %s", end)
	}
}
