package deliver_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// told counts what a harness is told.
func told(count *atomic.Int32, is func(*http.Request) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if is(r) {
				count.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Rows 29, 31 and 51: an API server that fails has not said that something is gone. A cache that lost a Pod ends no run of it, and a
// run that cannot be read does not lose its work.
func TestOnlyNotFoundProvesAbsence(t *testing.T) {
	t.Parallel()
	t.Run("of a Pod", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		x := w.standing("reviewer-1", harness.Options{})
		p := w.controller()
		run := w.deliver("run", harness.HoldPrefix+goal)
		w.reasonIs(run, hearthv1.ReasonRunning)
		var reads atomic.Int32
		lost := "/pods/" + x.pod.Name // the Pod itself is written below, while the controller reads
		p.denies(func(path string) bool {
			is := strings.HasSuffix(path, lost)
			if is {
				reads.Add(1)
			}
			return is
		})
		delete(x.pod.Labels, hearthv1.LabelRun)
		require.NoError(t, w.kube.Update(t.Context(), x.pod))
		// The Pod's own reconcile reads it, too; what was decided on the first answers is written before the third.
		assert.True(t, w.eventually(func() bool {
			got, err := w.get(run)
			return reads.Load() > 4 || err == nil && got.Status.CompletionTime != nil
		}))
		p.denies(nil)
		x.harness.Runner.Release(string(run.UID))
		assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(run).Status.Phase)
	})
	t.Run("of a run", func(t *testing.T) {
		t.Parallel()
		var stops, reads atomic.Int32
		w := newWorld(t)
		w.standing("reviewer-1", harness.Options{Wrap: told(&stops, func(r *http.Request) bool { return r.Method == http.MethodDelete })})
		p := w.controller()
		run := w.deliver("run", harness.HoldPrefix+goal)
		w.reasonIs(run, hearthv1.ReasonRunning)
		deleted := "/agentruns/" + run.Name
		p.denies(func(path string) bool {
			is := strings.HasSuffix(path, deleted)
			if is {
				reads.Add(1)
			}
			return is
		})
		require.NoError(t, w.kube.Delete(t.Context(), run, kube.GracePeriodSeconds(0)))
		assert.True(t, w.eventually(func() bool { return reads.Load() > 2 || stops.Load() > 0 }))
		assert.Zero(t, stops.Load(), "nobody has said that the run is gone")
		p.denies(nil)
		assert.True(t, w.eventually(func() bool { return stops.Load() > 0 }), "now it is known")
	})
}

// Rows 6 and 30: a harness may drop what it was told is recorded. So it is told when the API server has it, not when it is to get it.
func TestTheHarnessKeepsAResultUntilItIsRecorded(t *testing.T) {
	t.Parallel()
	var acks, early, refusals atomic.Int32
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{Wrap: told(&acks, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, wire.RecordedSuffix) })})
	p := w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	p.mu.Lock()
	p.refuse = func(name string) error {
		if name != run.Name || refusals.Add(1) > 4 {
			return nil
		}
		early.Add(acks.Load())
		return apierrors.NewInternalError(assert.AnError)
	}
	p.mu.Unlock()
	x.harness.Runner.Release(string(run.UID))
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(run).Status.Phase)
	assert.Greater(t, refusals.Load(), int32(4), "its record was refused before")
	assert.Zero(t, early.Load(), "and nothing was acknowledged until then")
	assert.True(t, w.eventually(func() bool { return acks.Load() > 0 }))
}
