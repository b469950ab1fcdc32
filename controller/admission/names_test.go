package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

func creationOf(t *testing.T, name string, spec v1alpha1.AgentRunSpec) admission.Request {
	t.Helper()
	request := creation(t, spec)
	raw, err := json.Marshal(&v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: spec})
	require.NoError(t, err)
	request.Name, request.Object.Raw = name, raw
	return request
}

// SPEC.md, Admission: Pod, Service and host are named as a run with a Pod is. A delivered run has none of them.
func TestARunWithAPodIsNamedAsAPodServiceAndHostCanBe(t *testing.T) {
	task := digest(v1alpha1.AgentModeTask)
	ours := []client.Object{task, reviewer()}
	r := behind(t, ours, ours)
	withPod, refusals := Resolve(task, askDigest(nil))
	require.Empty(t, refusals)
	delivered, refusals := Resolve(reviewer(), sparse(map[string]string{"change": "x"}))
	require.Empty(t, refusals)
	for name, can := range map[string]bool{
		"work": true, "w": true, "a-1-b": true, strings.Repeat("a", 63): true, "nobody-1": true,
		strings.Repeat("a", 64): false, strings.Repeat("a", 253): false, "1a": false, "a.b": false, "a-": false, "9": false,
	} {
		response := r.validate(t.Context(), creationOf(t, name, withPod))
		assert.Equal(t, can, response.Allowed, name)
		if !can {
			assert.Equal(t, "[Invalid] metadata.name: expected at most 63 lower-case letters, digits and -, beginning with a letter and not ending with -: "+
				"this run has a Pod of its own, and Pod, Service and host are named as the run is", response.Result.Message, name)
		}
		assert.True(t, r.validate(t.Context(), creationOf(t, name, delivered)).Allowed, "delivered: %s", name)
	}
}

// R23: which names are the controller's, of an Agent that the cache has.
func TestTheControllersOwnNamesAreReserved(t *testing.T) {
	others := map[v1alpha1.AgentMode]*v1alpha1.Agent{v1alpha1.AgentModeService: reviewer(), v1alpha1.AgentModeTask: digest(v1alpha1.AgentModeTask), v1alpha1.AgentModeScheduled: digest(v1alpha1.AgentModeScheduled)}
	resolved, refusals := Resolve(reviewer(), sparse(map[string]string{"change": "x"}))
	require.Empty(t, refusals)
	for mode, other := range others {
		other.Name = "other"
		r := behind(t, []client.Object{reviewer(), other}, nil)
		for suffix, reserved := range map[string]bool{
			"0": true, "7": true, "0001": true, "9999": true, "12345": false, "123456": false, "1234567": false, "x1": false, "1.2": false, "": false,
			"29812345": mode == v1alpha1.AgentModeScheduled, "129812345": mode == v1alpha1.AgentModeScheduled, "1129812345": mode == v1alpha1.AgentModeScheduled,
			"11129812345": false, "x29812345": false,
		} {
			name := "other-" + suffix
			response := r.validate(t.Context(), creationOf(t, name, resolved))
			assert.Equal(t, !reserved, response.Allowed, "%s: %s", mode, name)
			if reserved {
				assert.Equal(t, "[ReservedName] metadata.name: expected a name other than other-<number>: those are for the runs that the controller makes of Agent other; "+
					"generateName makes one that is free", response.Result.Message)
			}
		}
	}
}

// An Agent that was made a moment before its run is found by a live read, whatever its mode, and the run says which one it was:
// the cache here never hears of anything.
func TestAFrozenCacheHidesNoAgent(t *testing.T) {
	made := digest(v1alpha1.AgentModeTask)
	made.UID, made.Generation = "made-a-moment-ago", 1
	before := digest(v1alpha1.AgentModeTask)
	before.UID, before.Generation, before.Spec.Parameters = "deleted-since", 7, []v1alpha1.Parameter{{Name: "concern"}}
	for name, frozen := range map[string][]client.Object{"empty": nil, "with the Agent of that name before": {before}} {
		r := behind(t, frozen, []client.Object{made})
		response := r.mutate(t.Context(), creation(t, askDigest(nil)))
		require.True(t, response.Allowed, name)
		spec, ok := response.Patches[0].Value.(v1alpha1.AgentRunSpec)
		require.True(t, ok)
		assert.Equal(t, v1alpha1.AgentRef{Name: "digest", UID: "made-a-moment-ago", Generation: 1}, spec.AgentRef, name)
		assert.True(t, r.validate(t.Context(), creation(t, spec)).Allowed, name)
	}
}
