package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	parent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	goal    = "the goal"
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func work(annotations map[string]string) *hearthv1.AgentRun {
	return &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "team", UID: "11111111-2222-3333-4444-555555555555", Annotations: annotations, CreationTimestamp: metav1.NewTime(now)},
		Spec:       hearthv1.AgentRunSpec{Goal: goal, AgentRef: hearthv1.AgentRef{Name: "reviewer"}, Delivery: &hearthv1.DeliverySpec{}},
	}
}

// exporting is one controller's life.
func exporting(sampler sdktrace.Sampler) (*Spans, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithIDGenerator(IDs()), sdktrace.WithSampler(sampler))), recorder
}

// SPEC.md, Traces: known answers, so that another controller makes the same tree.
func TestTheRootFollowsFromTheRun(t *testing.T) {
	i := identityOf("11111111-2222-3333-4444-555555555555")
	assert.Equal(t, "2fa87a42d998f987e1bd5cb8d01447ac", i.trace.String())
	assert.Equal(t, "c5c1b31969e87bfb", i.span.String())
}

// One run is one tree, though a controller ends in the middle and another goes on.
func TestOneRunIsOneTreeAcrossControllers(t *testing.T) {
	for name, c := range map[string]struct{ given, trace, above string }{
		"a trace of its own":        {"", identityOf(string(work(nil).UID)).trace.String(), "0000000000000000"},
		"in the trace it was given": {parent, traceID, "00f067aa0ba902b7"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if c.given != "" {
				annotations[hearthv1.AnnotationTraceparent] = c.given
			}
			sparse, run := work(annotations), work(annotations)
			run.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: ptr.To(metav1.NewMicroTime(now)), PodName: "reviewer-1"}
			ended := run.DeepCopy()
			ended.Status.CompletionTime, ended.Status.Outcome, ended.Status.Reason = ptr.To(metav1.NewMicroTime(now)), "Succeeded", "Completed"
			first, before := exporting(sdktrace.ParentBased(sdktrace.AlwaysSample()))
			first.Admitted(sparse, now, now)
			first.Written(sparse, run, now, now)
			first.Delivering(run, now).End(now, "accepted", "")
			second, after := exporting(sdktrace.ParentBased(sdktrace.AlwaysSample()))
			second.Written(run, ended, now, now)
			second.Written(ended, ended, now, now)
			root := identityOf(string(run.UID)).span
			names := map[string]int{}
			for _, s := range append(before.Ended(), after.Ended()...) {
				names[s.Name()]++
				assert.Equal(t, c.trace, s.SpanContext().TraceID().String(), s.Name())
				if s.Name() == SpanRun {
					assert.Equal(t, root, s.SpanContext().SpanID())
					assert.Equal(t, c.above, s.Parent().SpanID().String())
				} else {
					assert.Equal(t, root, s.Parent().SpanID(), s.Name())
					assert.NotEqual(t, root, s.SpanContext().SpanID(), s.Name())
				}
				for _, a := range s.Attributes() {
					assert.NotContains(t, a.Value.AsString(), goal)
				}
			}
			assert.Equal(t, map[string]int{SpanAdmit: 1, SpanReserve: 1, SpanDeliver: 1, SpanRecord: 1, SpanRun: 1}, names)
			assert.Equal(t, c.trace, second.ID(run))
			assert.Equal(t, c.trace, second.Exemplar(run))
		})
	}
}

func TestWithoutExportAContextIsPassedOnAndNoneIsMade(t *testing.T) {
	off := New(noop.NewTracerProvider())
	given := work(map[string]string{hearthv1.AnnotationTraceparent: parent, hearthv1.AnnotationTracestate: "vendor=1"})
	d := off.Delivering(given, now)
	assert.Equal(t, parent, d.Parent, "as it came")
	assert.Equal(t, "vendor=1", d.State)
	d.End(now, "accepted", "")
	assert.Equal(t, traceID, off.ID(given))
	assert.Empty(t, off.ID(work(nil)))
	assert.Empty(t, off.Delivering(work(nil), now).Parent)
	var none *Spans
	none.Written(given, given, now, now)
	none.Admitted(given, now, now)
	assert.Empty(t, none.ID(given))
	assert.Empty(t, none.Delivering(given, now).Parent)
}

func TestWhatIsNoPieceOfWorkOrMalformedHasNoTraceOfAnother(t *testing.T) {
	on, _ := exporting(sdktrace.AlwaysSample())
	standing := work(nil)
	standing.Spec.Delivery, standing.Annotations = nil, map[string]string{hearthv1.AnnotationGeneration: "1"}
	assert.Empty(t, on.ID(standing))
	malformed := work(map[string]string{hearthv1.AnnotationTraceparent: "00-x"})
	assert.Equal(t, on.ID(work(nil)), on.ID(malformed), "its own")
	rarely, spans := exporting(sdktrace.ParentBased(sdktrace.NeverSample()))
	assert.NotEmpty(t, rarely.ID(work(nil)))
	assert.Empty(t, rarely.Exemplar(work(nil)), "nothing could be looked up")
	rarely.Admitted(work(nil), now, now)
	require.Empty(t, spans.Ended())
}

func TestARefusedDeliveryIsAFailedSpan(t *testing.T) {
	on, spans := exporting(sdktrace.AlwaysSample())
	on.Delivering(work(nil), now).End(now, "not_taken", "busy")
	require.Len(t, spans.Ended(), 1)
	assert.Equal(t, "busy", spans.Ended()[0].Status().Description)
	assert.Equal(t, now, spans.Ended()[0].EndTime())
}
