//go:build faults

package faults_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/apifault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// The crash matrix of the controller: at every point every crash, and each ends as if nothing had been (rows 1 to 8 and 30).

// crash is what befalls a controller that stands at a point.
type crash struct {
	name string
	do   func(t *testing.T, w *rig.World, run *hearthv1.AgentRun, hit *rig.Hit)
}

// crashes are all of them.
func crashes() []crash {
	status := func(fault func(*apifault.Rule)) func(*testing.T, *rig.World, *hearthv1.AgentRun, *rig.Hit) {
		return func(_ *testing.T, w *rig.World, run *hearthv1.AgentRun, hit *rig.Hit) {
			fault(w.API.On(apifault.Match{Verbs: []string{"update"}, Resource: "agentruns", Subresource: "status", Name: run.Name}))
			hit.Go()
		}
	}
	return []crash{
		{"killed", func(_ *testing.T, w *rig.World, _ *hearthv1.AgentRun, hit *rig.Hit) {
			hit.Kill()
			w.Controller()
		}},
		{"lease lost", deposed},
		{"conflict", status(func(r *apifault.Rule) { r.Fail(http.StatusConflict, 2) })},
		{"error 500", status(func(r *apifault.Rule) { r.Fail(http.StatusInternalServerError, 2) })},
		{"committed but 504", status(func(r *apifault.Rule) { r.Commit(http.StatusGatewayTimeout, 2) })},
	}
}

// deposed lets another controller lead and then lets the first go on, which does not know it yet.
func deposed(t *testing.T, w *rig.World, _ *hearthv1.AgentRun, hit *rig.Hit) {
	t.Helper()
	hit.Controller.Freeze()
	before := w.Leader()
	w.DropLease()
	w.Controller()
	w.Eventually("another leader", func() bool { l := w.Leader(); return l != "" && l != before })
	hit.Go()
	hit.Controller.Thaw()
}

// quick is the part of the matrix for every change.
func quick(t *testing.T, point crashpoint.Point, name string) {
	t.Helper()
	if name != "killed" && !slices.Contains([]crashpoint.Point{crashpoint.BeforeReserve, crashpoint.AfterResult}, point) {
		rig.Slow(t)
	}
}

func TestACrashOfTheControllerAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, point := range crashpoint.Controller() {
		for _, c := range crashes() {
			t.Run(filepath.Base(string(point))+"/"+c.name, func(t *testing.T) {
				quick(t, point, c.name)
				t.Parallel()
				w, _, _ := reviewers(t, 1, rig.Options{})
				if point == crashpoint.AfterCancelSeen {
					crashWhileCancelling(t, w, c)
					return
				}
				hold := w.Hold(point)
				run := w.Run("reviewer", "say: hello")
				c.do(t, w, run, hold.Wait())
				got := w.Ended(run)
				once(t, w, got)
				assert.Equal(t, "hello", got.Status.Output.Value)
			})
		}
	}
}

// crashWhileCancelling: who asked for the end gets it, and nobody else does.
func crashWhileCancelling(t *testing.T, w *rig.World, c crash) {
	t.Helper()
	run := w.Run("reviewer", endless)
	w.Await(run, hearthv1.ReasonRunning)
	hold := w.Hold(crashpoint.AfterCancelSeen)
	w.Cancel(run)
	c.do(t, w, run, hold.Wait())
	got := w.Ended(run)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason, "%s", got.Status.Message)
	require.Len(t, w.EffectsOf(run), 1)
	works(t, w, "reviewer")
}
