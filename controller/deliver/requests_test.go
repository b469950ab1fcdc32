package deliver_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/test/harness"
)

// clock stands still unless it is moved, so that how busy the machine is decides nothing.
type clock struct {
	from  time.Time
	moved atomic.Int64
}

func (c *clock) now() time.Time { return c.from.Add(time.Duration(c.moved.Load())) }

func (c *clock) move(d time.Duration) { c.moved.Add(int64(d)) }

// catchUp moves it to what the API server dates by.
func (c *clock) catchUp() { c.moved.Store(int64(time.Since(c.from))) }

// asked waits for the Events of runs, which come after their records, and gives all that was asked of the API server since the last time.
func (w *world) asked(p *process, events map[*hearthv1.AgentRun][]string) map[string]int {
	w.t.Helper()
	for run, want := range events {
		w.says(run, want...)
	}
	return p.requests()
}

// P7, R22: what runs cost the API server, by verb and resource, when the target is known: two writes a short run, three a long one, one
// more for each reason why it waits; Events apart, and no reads.
func TestRunsCostTheAPIServerExactlyTheirWrites(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	c := &clock{from: time.Now()}
	p := w.controllerAt(c.now)
	w.linked()
	x.holds(p, "it is known", func(l agent.Load) bool { return l.Link == agent.LinkVerified && l.Empty })
	first := w.deliver("first", goal)
	w.ended(first)
	w.says(first, "Reserved", "Completed")
	p.requests()

	short := w.deliver("short", goal)
	w.ended(short)
	assert.Equal(t, map[string]int{"PUT agentruns/status": 2, "POST events": 2},
		w.asked(p, map[*hearthv1.AgentRun][]string{short: {"Reserved", "Completed"}}), "short")

	long := w.deliver("long", harness.HoldPrefix+goal)
	x.holds(p, "it runs", func(l agent.Load) bool { return l.Running == 1 })
	c.move(delivery.WriteRunningAfter)
	w.reasonIs(long, hearthv1.ReasonRunning)
	x.harness.Runner.Release(string(long.UID))
	w.ended(long)
	assert.Equal(t, map[string]int{"PUT agentruns/status": 3, "POST events": 3},
		w.asked(p, map[*hearthv1.AgentRun][]string{long: {"Reserved", "Started", "Completed"}}), "long")

	busy, queued := w.deliver("busy", harness.HoldPrefix+goal), w.deliver("queued", harness.HoldPrefix+goal)
	x.holds(p, "it is full", func(l agent.Load) bool { return l.Running == 1 && l.Queued == 1 })
	c.catchUp()
	waits := w.deliver("waits", goal)
	c.move(delivery.WriteBusyAfter)
	w.reasonIs(waits, hearthv1.ReasonTargetBusy)
	w.until(busy, "shown as running", func(r *hearthv1.AgentRun) bool { return r.Status.StartTime != nil })
	w.reasonIs(queued, hearthv1.ReasonQueued)
	require.Equal(t, []string{"TargetBusy"}, p.written("waits"), "the one more")
	for _, run := range []*hearthv1.AgentRun{busy, queued} {
		x.harness.Runner.Release(string(run.UID))
	}
	for _, run := range []*hearthv1.AgentRun{busy, queued, waits} {
		w.ended(run)
	}
	p.wrote(t, "waits", "TargetBusy", "Reserved", "Completed")
}
