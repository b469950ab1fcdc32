package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// shelf is a cache with one Agent, which it gives as the real one does: uncopied.
type shelf struct {
	client.Reader
	agent *v1alpha1.Agent
}

func (s shelf) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	*o.(*v1alpha1.Agent) = *s.agent
	return nil
}

// fields are managedFields as the API server makes them of a sparse run.
const fields = `{"f:spec":{".":{},"f:agentRef":{".":{},"f:name":{}},"f:parameters":{".":{},"f:change":{}}}}`

// question is what the API server asks about the creation of a run.
func question(tb testing.TB, run *v1alpha1.AgentRun) []byte {
	tb.Helper()
	object, err := json.Marshal(run)
	require.NoError(tb, err)
	kind := metav1.GroupVersionKind{Group: "hearth.dev", Version: "v1alpha1", Kind: "AgentRun"}
	resource := metav1.GroupVersionResource{Group: "hearth.dev", Version: "v1alpha1", Resource: "agentruns"}
	text, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource,
			Name: run.Name, Namespace: run.Namespace, Operation: admissionv1.Create, DryRun: ptr.To(false),
			UserInfo: authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"dev", "system:authenticated"},
				Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=0b2d"}}},
			Object:  runtime.RawExtension{Raw: object},
			Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-create","fieldValidation":"Strict"}`)},
		},
	})
	require.NoError(tb, err)
	return text
}

// BenchmarkHook is what a webhook costs from the body of a question to that of its answer, beside controller-runtime's own with the same decisions.
func BenchmarkHook(b *testing.B) {
	scheme := runtime.NewScheme()
	require.NoError(b, v1alpha1.AddToScheme(scheme))
	service, task := reviewer(), digest(v1alpha1.AgentModeTask)
	for _, agent := range []*v1alpha1.Agent{service, task} {
		sparse := &v1alpha1.AgentRun{
			TypeMeta:   metav1.TypeMeta{APIVersion: "hearth.dev/v1alpha1", Kind: "AgentRun"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "work", UID: "705ab4f5-6393-11e8-b7cc-42010a800003", Generation: 1, CreationTimestamp: metav1.Now()},
			Spec:       v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: agent.Name}, Parameters: map[string]string{"change": "PR 17"}},
		}
		resolved := sparse.DeepCopy()
		spec, refusals := Resolve(agent, sparse.Spec)
		require.Empty(b, refusals)
		resolved.Spec = spec
		sparse.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-create", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "hearth.dev/v1alpha1",
			Time: ptr.To(metav1.Now()), FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}}
		cache := shelf{agent: agent}
		slow := &runs{cached: cache, live: cache, decoder: admission.NewDecoder(scheme), controller: "controller"}
		fast := &runs{cached: cache, live: cache, decoder: quick{slow.decoder}, controller: "controller"}
		name := string(agent.Spec.Mode)
		for _, c := range []struct {
			name string
			hook http.Handler
			text []byte
		}{
			{"mutate/" + name + "/ours", newHook(counted(fast.mutate)), question(b, sparse)},
			{"mutate/" + name + "/controller-runtime", &admission.Webhook{Handler: counted(slow.mutate)}, question(b, sparse)},
			{"validate/" + name + "/ours", newHook(counted(fast.validate)), question(b, resolved)},
			{"validate/" + name + "/controller-runtime", &admission.Webhook{Handler: counted(slow.validate)}, question(b, resolved)},
		} {
			b.Run(c.name, func(b *testing.B) {
				b.ReportAllocs()
				b.ReportMetric(float64(len(c.text)), "question-B")
				for b.Loop() {
					request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(c.text))
					request.Header.Set("Content-Type", "application/json")
					answer := httptest.NewRecorder()
					c.hook.ServeHTTP(answer, request)
					if !bytes.Contains(answer.Body.Bytes(), []byte(`"allowed":true`)) {
						b.Fatal(answer.Body.String())
					}
				}
			})
		}
	}
}
