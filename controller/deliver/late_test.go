package deliver_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// Row 5: the harness has the result, and the controller comes back after the run's deadline, when nobody answers at the Pod's address
// yet: one who cannot look concludes nothing.
func TestAControllerBackAfterTheDeadlineAsksBeforeItConcludes(t *testing.T) {
	w := newWorld(t)
	var away atomic.Bool
	dialled := make(chan struct{}, 100)
	x := w.standing("reviewer-1", harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if away.Load() {
				dialled <- struct{}{}
				panic(http.ErrAbortHandler) // the connection breaks
			}
			next.ServeHTTP(rw, r)
		})
	}})
	first := w.controller()
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	first.stop()
	x.harness.Runner.Release(string(run.UID))
	away.Store(true)
	second := w.controllerAt(func() time.Time { return time.Now().Add(3 * time.Hour) })
	<-dialled
	<-dialled // once more: the run was looked at, or the Link's backoff is over
	away.Store(false)
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(run).Status.Phase)
	second.wrote(t, "run", "Completed")
}

// Row 25: unreachable past the deadline is OutcomeUnknown, after ContactLost was shown; the result that comes later is an Event
// and changes nothing.
func TestAResultAfterTheRecordIsAnEvent(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	var ahead atomic.Int64
	w.controllerAt(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	run := w.deliver("run", harness.HoldPrefix+goal)
	w.reasonIs(run, hearthv1.ReasonRunning)
	x.harness.Stop()
	// The clock jumps; touching the run has it looked at.
	jump := func(d time.Duration) {
		ahead.Add(int64(d))
		require.NoError(t, w.kube.Patch(t.Context(), run, kube.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"test/looked-at":"`+d.String()+`"}}}`))))
	}
	require.True(t, w.eventually(func() bool { // the Link notices on its own time
		jump(2 * time.Minute)
		r, err := w.get(run)
		return err == nil && reason(r) == hearthv1.ReasonContactLost
	}))
	jump(2 * time.Hour)
	require.True(t, w.eventually(func() bool { // the last look has failed before its patience is over
		jump(time.Minute)
		r, err := w.get(run)
		return err == nil && r.Status.CompletionTime != nil
	}))
	record := w.ended(run)
	assert.Equal(t, hearthv1.ReasonOutcomeUnknown, record.Status.Reason)

	x.harness.Boot() // it had been running, so its end is Interrupted
	require.True(t, w.eventually(func() bool {
		var events eventsv1.EventList
		require.NoError(t, w.kube.List(t.Context(), &events, kube.InNamespace(w.ns)))
		for _, e := range events.Items {
			if e.Reason == "LateResult" && e.Regarding.UID == run.UID {
				return true
			}
		}
		return false
	}), "the late result is told")
	after, err := w.get(run)
	require.NoError(t, err)
	assert.Equal(t, record.Status, after.Status)
}
