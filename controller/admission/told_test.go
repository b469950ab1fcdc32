package admission

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/trace"
)

// SPEC.md, Traces: the span of admission is told of what is stored anew, and of nothing else.
func TestOnlyARunThatIsStoredAnewIsTold(t *testing.T) {
	resolved, refusals := Resolve(reviewer(), sparse(map[string]string{"change": "PR 17"}))
	require.Empty(t, refusals)
	for name, c := range map[string]struct {
		change func(*admission.Request)
		told   int
	}{
		"created": {func(*admission.Request) {}, 1},
		"dry run": {func(r *admission.Request) { r.DryRun = ptr.To(true) }, 0},
		"updated": {func(r *admission.Request) { r.Operation, r.OldObject = admissionv1.Update, r.Object }, 0},
		"refused": {func(r *admission.Request) {
			*r = creation(t, v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "nobody"}})
		}, 0},
	} {
		recorder := tracetest.NewSpanRecorder()
		r := behind(t, []client.Object{reviewer()}, []client.Object{reviewer()})
		r.spans = trace.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithIDGenerator(trace.IDs())))
		clock := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		r.now = func() time.Time {
			clock = clock.Add(time.Second)
			return clock
		}
		request := creation(t, resolved)
		var err error
		request.Object.Raw, err = json.Marshal(&v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "work", UID: "11111111-2222-3333-4444-555555555555"}, Spec: resolved})
		require.NoError(t, err)
		c.change(&request)
		r.validate(t.Context(), request)
		require.Len(t, recorder.Ended(), c.told, name)
		for _, span := range recorder.Ended() {
			assert.Equal(t, trace.SpanAdmit, span.Name())
			assert.Equal(t, time.Second, span.EndTime().Sub(span.StartTime()), "from the question to the decision")
		}
	}
}
