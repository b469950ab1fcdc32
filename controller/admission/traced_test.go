package admission

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func withTrace(pairs ...string) *v1alpha1.AgentRun {
	run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "work", Annotations: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		run.Annotations[pairs[i]] = pairs[i+1]
	}
	return run
}

// SPEC.md, Traces: the two annotations are a run's author's, at creation, where they are well-formed.
func TestATraceContextIsItsAuthorsWhereItIsWellFormed(t *testing.T) {
	p, s := v1alpha1.AnnotationTraceparent, v1alpha1.AnnotationTracestate
	for name, c := range map[string]struct {
		run   *v1alpha1.AgentRun
		field string
	}{
		"none":                {withTrace(), ""},
		"parent":              {withTrace(p, traceparent), ""},
		"parent and state":    {withTrace(p, traceparent, s, "vendor=1"), ""},
		"malformed":           {withTrace(p, "00-secret"), traceparentField},
		"empty":               {withTrace(p, ""), traceparentField},
		"a later version":     {withTrace(p, "01"+traceparent[2:]), traceparentField},
		"state alone":         {withTrace(s, "vendor=1"), tracestateField},
		"state too long":      {withTrace(p, traceparent, s, "vendor="+strings.Repeat("x", 255)+",b="+strings.Repeat("x", 255)), tracestateField},
		"state without value": {withTrace(p, traceparent, s, ""), tracestateField},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, forged(nil, c.run, traceKeys...), "they are no marks of the controller")
			refusals := traced(c.run)
			if c.field == "" {
				assert.Empty(t, refusals)
				return
			}
			require.Len(t, refusals, 1)
			assert.Equal(t, c.field, refusals[0].Field)
			assert.NotContains(t, refusals[0].String(), "secret", "a refusal repeats no value")
		})
	}
	label := withTrace()
	label.Labels = map[string]string{p: "x"}
	assert.NotEmpty(t, forged(nil, label, traceKeys...), "as a label it is a mark like any other")
	agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{p: traceparent}}}
	assert.NotEmpty(t, forged(nil, agent), "an Agent has no trace")
}

func TestATraceContextNeverChanges(t *testing.T) {
	p, s := v1alpha1.AnnotationTraceparent, v1alpha1.AnnotationTracestate
	given := withTrace(p, traceparent, s, "vendor=1")
	assert.Empty(t, retraced(given, given))
	for field, after := range map[string]*v1alpha1.AgentRun{
		traceparentField: withTrace(s, "vendor=1"),
		tracestateField:  withTrace(p, traceparent, s, "vendor=2"),
	} {
		refusals := retraced(given, after)
		require.Len(t, refusals, 1)
		assert.Equal(t, field, refusals[0].Field)
		assert.Equal(t, codeForbidden, refusals[0].Code)
	}
	assert.Len(t, retraced(withTrace(), given), 2, "nor is one added later")
}

// Each kind of refusal counts by its code; what is let pass does not count.
func TestRefusalsAreCountedByCode(t *testing.T) {
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: "work"}}
	for want, response := range map[string]admission.Response{
		"":                    admission.Allowed(""),
		metrics.CodeForbidden: answer(request, statusWrite("x")),
		"MissingAgent":        answer(request, []Refusal{{v1alpha1.RefusalMissingAgent, "spec", "x"}}),
		metrics.CodeMalformed: admission.Errored(http.StatusBadRequest, assert.AnError),
		metrics.CodeInternal:  admission.Errored(http.StatusInternalServerError, assert.AnError),
		metrics.CodeConflict:  outrun(request, "reviewer"),
		metrics.CodeInvalid:   answer(request, []Refusal{{codeInvalid, "spec", "x"}}),
		"UnusedParameters":    answer(request, []Refusal{{v1alpha1.RefusalUnusedParameters, "spec", "x"}}),
	} {
		if want == "" {
			assert.Empty(t, codesOf(response))
			continue
		}
		assert.Equal(t, []string{want}, codesOf(response))
	}
}
