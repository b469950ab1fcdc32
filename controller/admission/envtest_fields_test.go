package admission_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// SPEC.md, Admission: nobody's fields are kept of a run that was created and not applied, not by the controller's writes of its status
// either. Whoever applies it later is told of as ever.
func TestACreatedRunKeepsNoManagedFields(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	require.NoError(t, w.user.Create(ctx, w.agent("reviewer")))
	for _, create := range []func(*v1alpha1.AgentRun) error{
		func(r *v1alpha1.AgentRun) error { return w.user.Create(ctx, r) },
		func(r *v1alpha1.AgentRun) error { return w.user.Create(ctx, r, client.FieldOwner("somebody")) },
	} {
		run := w.run("", "reviewer")
		run.GenerateName = "work-"
		require.NoError(t, create(run))
		assert.Empty(t, run.ManagedFields)
		assert.Equal(t, "Review PR 17 for correctness.", run.Spec.Goal)
		run.Status.Phase = v1alpha1.PhasePending
		require.NoError(t, w.controller.Status().Update(ctx, run))
		assert.Empty(t, run.ManagedFields, "the API server keeps track of what it has kept track of")

		label := asUnstructured(t, w.run(run.Name, "reviewer"))
		label.SetLabels(map[string]string{"team": "payments"})
		require.NoError(t, w.user.Apply(ctx, client.ApplyConfigurationFromUnstructured(label), client.FieldOwner("kubectl"), client.ForceOwnership))
		require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(run), run))
		assert.Equal(t, "payments", run.Labels["team"])
		assert.NotEmpty(t, run.ManagedFields, "applied from then on")
		assert.Equal(t, "Review PR 17 for correctness.", run.Spec.Goal, "it is still complete")
	}
}
