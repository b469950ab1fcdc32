//go:build faults

package faults_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 36: the Secret of a live standing run is deleted in the middle of a run. What runs goes on and is recorded, because the Link keeps its
// keys. A controller that comes later has none: the standing run is replaced by one with a Secret of its own, and the next run is done.
func TestRow36_TheSecretIsDeletedUnderALivePod(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	c := w.Controller()
	w.Agent("reviewer", func(a *hearthv1.Agent) { a.Spec.DrainTimeoutSeconds = ptr.To[int64](1) }) // nobody can ask it whether it is empty
	old := w.Ready("reviewer", 1)[0]
	goal, release := held(t)
	run := w.Run("reviewer", goal)
	w.Await(run, hearthv1.ReasonRunning)
	deleteSecret(t, w, old)
	old.Proxy.Cut() // the connection is made anew
	release()
	got := w.Await(run, succeeded)
	assert.Equal(t, "released", got.Status.Output.Value)
	assert.Equal(t, old.UID, got.Status.Delivery.PodUID)
	assert.Len(t, w.EffectsOf(run), 1)
	works(t, w, "reviewer")
	c.Kill()
	w.Controller()
	replaced(t, w, old)
}

// Rows 36 and 48: the container restarts after its Secret is gone. It cannot come back, which is said; it gets no more work and is replaced,
// and what waited goes to the new one.
func TestRow48_TheContainerRestartsAfterItsSecretIsGone(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	works(t, w, "reviewer")
	old := pods[0]
	deleteSecret(t, w, old)
	old.Kill()
	waits := w.Run("reviewer", "say: elsewhere")
	w.Eventually("the loss is said", func() bool {
		run := &hearthv1.AgentRun{}
		if w.Admin.Get(t.Context(), named(w, old.Name), run) != nil {
			return false
		}
		c := meta.FindStatusCondition(run.Status.Conditions, hearthv1.AgentRunConditionCredentialReady)
		return c != nil && c.Reason == hearthv1.ReasonCredentialLost && run.Status.CordonedAt != nil
	})
	got := w.Ended(waits)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.NotEqual(t, old.UID, got.Status.PodUID)
	assert.Len(t, w.EffectsOf(waits), 1)
	w.Eventually("the old one goes", old.Gone)
}

// Row 48: the container ends after its Secret is gone. It cannot be started again; what it ran is lost or interrupted, never left.
func TestRow48_TheContainerEndsAfterItsSecretIsGone(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", func(a *hearthv1.Agent) { a.Spec.DrainTimeoutSeconds = ptr.To[int64](1) })
	old := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", endless)
	w.Await(run, hearthv1.ReasonRunning)
	deleteSecret(t, w, old)
	old.Kill()
	assert.Contains(t, []string{hearthv1.ReasonTargetLost, hearthv1.ReasonInterrupted}, w.Ended(run).Status.Reason)
	replaced(t, w, old)
	assert.Len(t, w.EffectsOf(run), 1)
}

// replaced: another Pod, with another Secret, does the next run.
func replaced(t *testing.T, w *rig.World, old *rig.Pod) {
	t.Helper()
	w.Eventually("another Pod that is ready", func() bool {
		pods := w.Pods("reviewer")
		return len(pods) > 0 && pods[len(pods)-1].UID != old.UID && pods[len(pods)-1].Ready()
	})
	w.Eventually("the end of the Pod that lost its Secret", old.Gone)
	assert.NotEqual(t, old.UID, works(t, w, "reviewer").Status.Delivery.PodUID)
}

func deleteSecret(t *testing.T, w *rig.World, p *rig.Pod) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	standing := &hearthv1.AgentRun{}
	require.NoError(t, w.Admin.Get(ctx, named(w, p.Name), standing))
	require.NoError(t, w.Admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: hearthv1.RunSecretName(standing.Name, standing.UID)}}))
}
