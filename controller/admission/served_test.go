package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// Where nobody serves, nothing is created and nothing is read (there is nothing here to read with: it would panic). What is there
// already is guarded as everywhere.
func TestOutsideTheServedNamespacesNothingIsCreatedOrRead(t *testing.T) {
	asked := sparse(map[string]string{"change": "PR 17"})
	resolved, refusals := Resolve(reviewer(), asked)
	require.Empty(t, refusals)
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	elsewhere := &runs{decoder: admission.NewDecoder(scheme), controller: "controller", served: served{"other", "another"}}
	const says = `[NamespaceNotServed] metadata.namespace: expected a namespace that the controller serves: "other", "another"; use one of them`
	assert.Contains(t, elsewhere.mutate(t.Context(), creation(t, asked)).Result.Message, says)
	assert.Contains(t, elsewhere.validate(t.Context(), creation(t, resolved)).Result.Message, says)
	a := &agents{decoder: elsewhere.decoder, controller: "controller", served: elsewhere.served}
	assert.Contains(t, a.validate(t.Context(), creation(t, resolved)).Result.Message, says)

	update := creation(t, resolved)
	update.Operation, update.OldObject = admissionv1.Update, update.Object
	assert.True(t, elsewhere.validate(t.Context(), update).Allowed)
	changed := resolved
	changed.Goal = "another"
	update.Object = creation(t, changed).Object
	assert.Contains(t, elsewhere.validate(t.Context(), update).Result.Message, "[Forbidden] spec.goal")

	here := behind(t, nil, []client.Object{reviewer()})
	here.served = served{"other", "team"}
	assert.True(t, here.mutate(t.Context(), creation(t, asked)).Allowed)
	assert.True(t, here.validate(t.Context(), creation(t, resolved)).Allowed)
}
