package deliver_test

import (
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
