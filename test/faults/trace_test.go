//go:build faults

package faults_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	sdktest "go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	runtrace "github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/internal/tracing/tracetest"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// admitted is what admission made of spans: it runs in the test's own process.
var admitted = sdktest.NewSpanRecorder()

func admissionSpans() *runtrace.Spans {
	return runtrace.New(trace.NewTracerProvider(trace.WithSpanProcessor(admitted), trace.WithIDGenerator(runtrace.IDs())))
}

// SPEC.md, Traces: from admission over two controllers, of which the first was killed before it told anybody of the delivery, to the
// harness's turn, one run is one tree; in the trace of its author's, and in one of its own.
func TestOneRunIsOneTreeThroughAllProcesses(t *testing.T) {
	t.Parallel()
	collector := tracetest.New(t)
	w := rig.New(t, rig.Options{Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}})
	w.Controller()
	w.Agent("reviewer", room(1, 4), func(a *hearthv1.Agent) {
		c := &a.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "OTEL_EXPORTER_OTLP_ENDPOINT", Value: collector.URL})
	})
	w.Ready("reviewer", 1)
	const theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
	given := func(r *hearthv1.AgentRun) {
		r.Annotations = map[string]string{hearthv1.AnnotationTraceparent: "00-" + theirs + "-00f067aa0ba902b7-01"}
	}
	hold := w.Hold(crashpoint.AfterReserve)
	cut := w.Run("reviewer", "say: hello", given)
	hit := hold.Wait()
	hit.Kill()
	w.Controller()
	w.Ended(cut)
	own := w.Run("reviewer", "say: hello")
	w.Ended(own)
	always := []string{"hearth.admit", "hearth.run", "hearth.deliver", "hearth.accept", "hearth.turn", "hearth.record"}
	inTree := func(run *hearthv1.AgentRun, above string, want ...string) (traceID string) {
		var spans []tracetest.Span
		w.Eventually("all spans of "+run.Name, func() bool {
			spans = spansOf(collector, run)
			return !slices.ContainsFunc(append(want, always...), func(name string) bool {
				return !slices.ContainsFunc(spans, func(s tracetest.Span) bool { return s.Name == name })
			})
		})
		parents := map[string]string{} // by ID
		named := map[string]string{}   // the ID, by name
		for _, s := range spans {
			parents[s.ID], named[s.Name] = s.Parent, s.ID
			assert.Equal(t, spans[0].Trace, s.Trace, s.Name)
		}
		for _, s := range spans {
			if s.Name == "hearth.run" {
				assert.Equal(t, above, s.Parent)
				continue
			}
			assert.Contains(t, parents, s.Parent, "%s hangs on nothing", s.Name)
		}
		for child, parent := range map[string]string{"hearth.admit": "hearth.run", "hearth.deliver": "hearth.run", "hearth.record": "hearth.run", "hearth.accept": "hearth.deliver", "hearth.turn": "hearth.accept"} {
			assert.Equal(t, named[parent], parents[named[child]], child)
		}
		return spans[0].Trace
	}
	// The first controller's reservation was written, and what it said of it died with it.
	assert.Equal(t, theirs, inTree(cut, "00f067aa0ba902b7"))
	require.NotEqual(t, theirs, inTree(own, "", "hearth.reserve"))
}

// spansOf are a run's, from all processes.
func spansOf(collector *tracetest.Collector, run *hearthv1.AgentRun) []tracetest.Span {
	out := slices.DeleteFunc(collector.Spans(), func(s tracetest.Span) bool { return s.Attributes["hearth.run.uid"] != string(run.UID) })
	for _, s := range admitted.Ended() {
		for _, a := range s.Attributes() {
			if a.Key == "hearth.run.uid" && a.Value.AsString() == string(run.UID) {
				out = append(out, tracetest.Span{Name: s.Name(), Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(), Parent: s.Parent().SpanID().String()})
			}
		}
	}
	return out
}
