package admission

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// behind is an admission whose cache has one state and whose API server another.
func behind(t *testing.T, cached, live []client.Object) *runs {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	reader := func(objects []client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	}
	return &runs{cached: reader(cached), live: reader(live), decoder: admission.NewDecoder(scheme), controller: "controller"}
}

func creation(t *testing.T, spec v1alpha1.AgentRunSpec) admission.Request {
	t.Helper()
	raw, err := json.Marshal(&v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "work"}, Spec: spec})
	require.NoError(t, err)
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "team", Name: "work", Object: runtime.RawExtension{Raw: raw}}}
}

// An Agent that was made or corrected a moment ago is not in the cache yet: only a live read refuses.
func TestACacheThatIsBehindRefusesNothing(t *testing.T) {
	asked := sparse(map[string]string{"change": "PR 17"})
	corrected, broken := reviewer(), reviewer()
	broken.Spec.GoalTemplate = "${"
	resolved, refusals := Resolve(corrected, asked)
	require.Empty(t, refusals)
	for name, cached := range map[string][]client.Object{"not in the cache": nil, "broken in the cache": {broken}} {
		r := behind(t, cached, []client.Object{corrected})
		response := r.mutate(t.Context(), creation(t, asked))
		require.True(t, response.Allowed, name)
		assert.Equal(t, resolved, response.Patches[0].Value, name)
		assert.True(t, r.validate(t.Context(), creation(t, resolved)).Allowed, name)
	}
	gone := behind(t, nil, nil)
	assert.Contains(t, gone.mutate(t.Context(), creation(t, asked)).Result.Message, "[MissingAgent]")
	assert.Contains(t, gone.validate(t.Context(), creation(t, resolved)).Result.Message, "[MissingAgent]")
}

// Nobody is at fault when the Agent changes between the two webhooks: the answer is a conflict, and the same request works again.
func TestAnAgentThatChangesInBetweenIsAConflict(t *testing.T) {
	resolved, refusals := Resolve(reviewer(), sparse(map[string]string{"change": "PR 17"}))
	require.Empty(t, refusals)
	changed := reviewer()
	changed.Generation, changed.Spec.GoalTemplate = 5, "Look at ${change} for ${concern}."
	r := behind(t, []client.Object{changed}, []client.Object{changed})
	response := r.validate(t.Context(), creation(t, resolved))
	require.False(t, response.Allowed)
	assert.Equal(t, metav1.StatusReasonConflict, response.Result.Reason)
	assert.NotContains(t, response.Result.Message, "PR 17")
}

// R23: whose name a run's could be is answered from the cache. An Agent that is not in it yet finds its first name taken, as it does
// where somebody was there before it.
func TestOnlyTheCacheIsAskedWhoseNameARunsCouldBe(t *testing.T) {
	resolved, refusals := Resolve(reviewer(), sparse(map[string]string{"change": "PR 17"}))
	require.Empty(t, refusals)
	request := creation(t, resolved)
	raw, err := json.Marshal(&v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "other-1"}, Spec: resolved})
	require.NoError(t, err)
	request.Object.Raw = raw
	other := reviewer()
	other.Name = "other"
	r := behind(t, []client.Object{reviewer(), other}, []client.Object{reviewer()})
	assert.Contains(t, r.validate(t.Context(), request).Result.Message, "[ReservedName] metadata.name")
	r = behind(t, []client.Object{reviewer()}, nil)
	r.live = nil // nobody asks it
	assert.True(t, r.validate(t.Context(), request).Allowed, "no such Agent: it is nobody's")
}
