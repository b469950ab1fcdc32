//go:build faults

package faults_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/apifault"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// R40: no reconcile takes over a second, with an agent that never answers, a Pod that swallows all packets in the middle of a delivery,
// and an API server that takes its time; and the work of others goes on meanwhile.
func TestNothingBlocks(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	c := w.Controller()
	for _, name := range []string{"mute", "swallowed", "fine"} {
		w.Agent(name)
	}
	w.Ready("mute", 1)
	w.Ready("fine", 1)
	swallows := w.Ready("swallowed", 1)[0]
	w.Await(w.Run("swallowed", "say: warm"), "Succeeded")
	w.API.On(apifault.Match{}).Delay(50 * time.Millisecond)
	before := reconciles(c.Metrics())

	swallows.Proxy.Set(netfault.Blackhole)
	var stuck []*hearthv1.AgentRun
	for range 3 {
		stuck = append(stuck, w.Run("swallowed", "say: late"))
	}
	mute := w.Run("mute", "mute:")
	w.Await(mute, hearthv1.ReasonRunning)
	for range 5 {
		w.Await(w.Run("fine", "say: done"), "Succeeded")
	}
	w.Cancel(mute)
	w.Await(mute, hearthv1.ReasonCancelled)
	w.Delete(stuck[2])
	w.Gone(stuck[2])

	for name, r := range reconciles(c.Metrics()) {
		all, slow, seconds := r.all-before[name].all, (r.all-r.fast)-(before[name].all-before[name].fast), r.seconds-before[name].seconds
		t.Logf("%s: %d reconciles, %d over a second, %.3f s on average", name, all, slow, seconds/max(float64(all), 1))
		assert.Zero(t, slow, "%s", name)
	}
	swallows.Proxy.Heal()
	for _, run := range stuck[:2] {
		w.Await(run, "Succeeded")
		assert.Len(t, w.EffectsOf(run), 1)
	}
}

// measured is a controller's histogram of how long its reconciles took.
type measured struct {
	all, fast int // of all those that took up to a second
	seconds   float64
}

var reconcileTime = regexp.MustCompile(`(?m)^controller_runtime_reconcile_time_seconds_(bucket|count|sum)\{controller="([^"]+)"(?:,le="([^"]+)")?\} (\S+)$`)

func reconciles(metrics string) map[string]measured {
	all := map[string]measured{}
	for _, line := range reconcileTime.FindAllStringSubmatch(metrics, -1) {
		value, err := strconv.ParseFloat(line[4], 64)
		if err != nil {
			continue
		}
		m := all[line[2]]
		switch {
		case line[1] == "count":
			m.all = int(value)
		case line[1] == "sum":
			m.seconds = value
		case line[3] == "1":
			m.fast = int(value)
		}
		all[line[2]] = m
	}
	return all
}
