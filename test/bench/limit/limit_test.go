package limit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

// The limit's API server does the same work: nothing of the CRD differs but what it is called.
func TestTheCRDDiffersInItsNamesAlone(t *testing.T) {
	root, err := apiserver.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "config", "crd", crdFile))
	require.NoError(t, err)
	var ours, limits apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(text, &ours))
	require.NoError(t, yaml.Unmarshal(renamed(text), &limits))
	assert.Equal(t, Group, limits.Spec.Group)
	assert.Equal(t, "agentruns."+Group, limits.Name)
	assert.Empty(t, limits.Spec.Names.ShortNames)
	limits.Name, limits.Spec.Group, limits.Spec.Names = ours.Name, ours.Spec.Group, ours.Spec.Names
	assert.Equal(t, ours, limits)
}

const run = `{"spec": {"agentRef": {"name": "reviewer"}, "goal": "work"}, "status": {"phase": "Succeeded", "reason": "Completed", "podName": "reviewer-1",
	"startTime": "2026-01-01T00:00:00.000000Z", "completionTime": "2026-01-01T00:00:01.000000Z", "recordedAt": "2026-01-01T00:00:01.000000Z", "output": {"value": "x"},
	"delivery": {"attempt": 1, "podName": "reviewer-1"}}}`

func TestTheLimitWritesWhatAControllerWrote(t *testing.T) {
	w, err := Of([]byte(run))
	require.NoError(t, err)
	assert.JSONEq(t, `{"agentRef": {"name": "reviewer"}, "goal": "work"}`, string(w.Spec))
	status := func(text json.RawMessage) hearthv1.AgentRunStatus {
		var s hearthv1.AgentRunStatus
		require.NoError(t, json.Unmarshal(text, &s))
		return s
	}
	reserved, running, ended := status(w.Reserved), status(w.Running), status(w.Ended)
	assert.Equal(t, hearthv1.PhasePending, reserved.Phase)
	assert.Equal(t, "reviewer-1", reserved.PodName)
	assert.Equal(t, int64(1), reserved.Delivery.Attempt)
	assert.Nil(t, reserved.StartTime)
	assert.Equal(t, hearthv1.PhaseRunning, running.Phase)
	assert.NotNil(t, running.StartTime)
	for _, s := range []hearthv1.AgentRunStatus{reserved, running} {
		assert.Nil(t, s.CompletionTime)
		assert.Nil(t, s.RecordedAt)
		assert.Nil(t, s.Output)
		assert.Empty(t, s.Reason)
	}
	assert.Equal(t, hearthv1.PhaseSucceeded, ended.Phase)
	assert.NotNil(t, ended.CompletionTime)
	assert.Equal(t, "x", ended.Output.Value)
}

func TestOnlyADeliveredRunThatEndedCanBeWrittenAgain(t *testing.T) {
	for _, text := range []string{"", "{}", `{"spec": {}, "status": {"delivery": {"attempt": 1}}}`, strings.Replace(run, "delivery", "other", 1), strings.Replace(run, "spec", "other", 1)} {
		_, err := Of([]byte(text))
		assert.ErrorContains(t, err, "a run to write again", text)
	}
}

// What our admission saves the API server, the limit saves it, too.
func TestAnObjectOfTheLimitHasNoMoreToItThanOurs(t *testing.T) {
	require.NoError(t, Same([]byte(`{"metadata": {"name": "x"}}`)))
	require.NoError(t, Same([]byte(`{"metadata": {"name": "x", "managedFields": []}}`)))
	require.ErrorContains(t, Same([]byte(`{"metadata": {"managedFields": [{"manager": "load"}]}}`)), "expected no managedFields")
	require.Error(t, Same([]byte("{")))
}

func TestTheWebhookAllowsAndCounts(t *testing.T) {
	w := &Webhook{}
	ask := func(body string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		w.allow(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
		return answer
	}
	answer := ask(`{"request": {"uid": "1-2", "object": {"uid": "other"}}}`)
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &review))
	patch := admissionv1.PatchTypeJSONPatch
	assert.Equal(t, &admissionv1.AdmissionResponse{UID: "1-2", Allowed: true, PatchType: &patch, Patch: []byte(untold)}, review.Response)
	assert.Equal(t, metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, review.TypeMeta)
	assert.Equal(t, http.StatusBadRequest, ask("{").Code)
	assert.Equal(t, int64(1), w.Calls())
	w.Stop()
}
