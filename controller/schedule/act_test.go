package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule"
)

var due = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// atNoon is a world whose Agent has an hourly schedule, and has promised noon; it is noon.
func atNoon(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, due.Add(-time.Minute), v1alpha1.Schedule{Cron: "0 * * * *", ConcurrencyPolicy: v1alpha1.ConcurrencyAllow})
	_, err := w.look(nil)
	require.NoError(t, err)
	w.catchUp(0)
	w.now = due
	return w
}

// R34, fault row 7: a run under the name is the time's own if the same Agent's schedule made it for that time, whoever wrote it; then its time
// is not missed. Any other, also that of an Agent which had the name before, is in the way.
func TestWhoseTheRunIsThatAnotherMadeMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRun)
		ours   bool
	}{
		"made by a controller that died": {func(*v1alpha1.AgentRun) {}, true},
		"of an Agent before":             {func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.UID = "before" }, false},
		"for another time": {func(r *v1alpha1.AgentRun) {
			r.Annotations[v1alpha1.AnnotationScheduledAt] = due.Add(-time.Hour).Format(time.RFC3339)
		}, false},
		"somebody's": {func(r *v1alpha1.AgentRun) { r.Annotations = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := atNoon(t)
			w.overtake = func() {
				_, err := w.look(&cut{1, true})
				require.ErrorIs(t, err, errKilled)
				w.cut = nil
				run := w.runs()[0].DeepCopy()
				c.change(run)
				require.NoError(t, w.api.Update(t.Context(), run))
			}
			_, err := w.look(nil)
			require.NoError(t, err)
			s := w.agent().Status
			assert.Len(t, w.runs(), 1)
			assert.Equal(t, c.ours, s.LastScheduleTime != nil && s.LastScheduleTime.Time.Equal(due))
			assert.Equal(t, !c.ours, s.LastMissedTime != nil && s.LastMissedTime.Time.Equal(due))
			assert.Equal(t, c.ours, s.ActiveRuns == 1)
		})
	}
}

// between does something after the first read.
type between struct {
	client.Reader
	after func()
}

func (b *between) read() {
	if after := b.after; after != nil {
		b.after = nil
		after()
	}
}

func (b *between) Get(ctx context.Context, k client.ObjectKey, o client.Object, options ...client.GetOption) error {
	defer b.read()
	return b.Reader.Get(ctx, k, o, options...)
}

func (b *between) List(ctx context.Context, l client.ObjectList, options ...client.ListOption) error {
	defer b.read()
	return b.Reader.List(ctx, l, options...)
}

// A run that is made, ends and goes while a controller looks is noted by then, and is not made again: the runs are read before the Agent.
func TestARunThatComesAndGoesDuringALookIsNotMadeAgain(t *testing.T) {
	w := atNoon(t)
	w.edit(func(a *v1alpha1.Agent) { a.Spec.Schedule.SuccessfulRunsHistoryLimit = new(int32) })
	live := &between{w.api, func() {
		_, err := w.look(nil)
		require.NoError(t, err)
		w.end(w.runs()[0].Name, v1alpha1.PhaseSucceeded)
		w.catchUp(0)
		w.retain()
		require.Empty(t, w.runs())
	}}
	r := &schedule.Reconciler{Client: cached{w.api, w}, Live: live, Events: w, Now: func() time.Time { return w.now }}
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	assert.Equal(t, map[time.Time]int{due: 1}, w.made)
	assert.Empty(t, w.told)
}

// An Agent that was made again has promised nothing: what the cache shows of the one before makes no run.
func TestAnAgentThatWasMadeAgainOwesNothingOfTheOneBefore(t *testing.T) {
	w := atNoon(t)
	w.history[w.seen].agent.UID = "before"
	_, err := w.look(nil)
	require.NoError(t, err)
	assert.Empty(t, w.runs())
}

// terminating is a namespace that is being deleted.
type terminating struct{ cached }

func (terminating) Create(context.Context, client.Object, ...client.CreateOption) error {
	err := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("agentruns").GroupResource(), "nightly", assert.AnError)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// Nothing can be made in a namespace that is being deleted: the time is missed, and is no error to try again.
func TestATimeInANamespaceThatIsBeingDeletedIsMissed(t *testing.T) {
	w := atNoon(t)
	r := &schedule.Reconciler{Client: terminating{cached{w.api, w}}, Live: w.api, Events: w, Now: func() time.Time { return w.now }}
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	assert.True(t, w.said(due))
}
