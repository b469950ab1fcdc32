//go:build faults

package deliver_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// What the 65th target may take while 64 hang, from what it takes when there is nobody else.
const (
	hungTargets = 64
	measuredAt  = 21 // deliveries each; the median is the eleventh
	mostTimes   = 3
	mostMore    = 50 * time.Millisecond
)

// R40, row 28: 64 targets prove who they are, take requests, never answer, and hold a reserved run each, with the time-outs of production. From its
// creation to its record, a run for the 65th takes what it takes alone. Sequential, and not part of make test: it measures time.
func TestHungTargetsLeaveTheNextOneItsLatency(t *testing.T) {
	if testing.Short() {
		t.Skip("most of a minute")
	}
	w := newWorld(t)
	last := w.standing("reviewer-x", harness.Options{Concurrency: 8})
	p := w.controller()
	w.ended(w.deliver("warm", goal))
	defer func() {
		if t.Failed() {
			load, err := p.loads.Load(t.Context(), last.run)
			t.Logf("the 65th target holds %+v (%v)", load, err)
		}
	}()
	alone := w.medianOf("alone", last)

	var silent atomic.Bool
	over := make(chan struct{})
	t.Cleanup(func() { close(over) }) // after the controller has ended, and before the harnesses do
	says := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if silent.Load() && strings.HasPrefix(r.URL.Path, wire.RunsPath) {
				<-over
				return
			}
			next.ServeHTTP(rw, r)
		})
	}
	var hung []*target
	for i := range hungTargets {
		hung = append(hung, w.standing(fmt.Sprintf("reviewer-%d", i), harness.Options{Concurrency: 1, Wrap: says}))
	}
	for _, x := range hung {
		x.holds(p, "known", func(l agent.Load) bool { return l.Link == agent.LinkVerified && l.Empty })
	}
	silent.Store(true)
	stuck := w.stuckOn(hung, last)
	beside := w.medianOf("beside", last)
	for _, run := range stuck {
		got, err := w.get(run)
		require.NoError(t, err)
		assert.Nil(t, got.Status.CompletionTime, "the hung ones were still hanging")
		assert.NotNil(t, got.Status.Delivery.ReservedAt)
		assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	}
	t.Logf("the 65th target: %v from creation to record alone, %v while %d hang: %.2f times", alone, beside, hungTargets, float64(beside)/float64(alone))
	assert.LessOrEqual(t, beside, mostTimes*alone+mostMore)
}

// stuckOn gives each of the hung targets a run to hold; the other one is full meanwhile.
func (w *world) stuckOn(hung []*target, other *target) []*hearthv1.AgentRun {
	w.t.Helper()
	var runs []*hearthv1.AgentRun
	on := map[string]bool{}
	for i := 0; len(on) < len(hung); i++ {
		run := w.deliver(fmt.Sprintf("stuck-%d", i), harness.HoldPrefix+goal)
		got := w.until(run, "reserved", func(r *hearthv1.AgentRun) bool {
			return r.Status.Delivery != nil && r.Status.Delivery.ReservedAt != nil
		})
		if got.Status.PodUID == other.pod.UID {
			other.harness.Runner.Release(string(run.UID))
			w.ended(run)
			continue
		}
		on[string(got.Status.PodUID)] = true
		runs = append(runs, run)
	}
	return runs
}

// medianOf delivers to one target, one run after the other, and gives the median time from creation to record.
func (w *world) medianOf(name string, x *target) time.Duration {
	w.t.Helper()
	var took []time.Duration
	for i := range measuredAt {
		from := time.Now()
		run := w.deliver(fmt.Sprintf("%s-%d", name, i), goal)
		got := w.ended(run)
		took = append(took, time.Since(from))
		require.Equal(w.t, x.pod.UID, got.Status.PodUID)
		require.Equal(w.t, hearthv1.PhaseSucceeded, got.Status.Phase)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
