package admission

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/tracing"
)

const traceparentField, tracestateField = "metadata.annotations[" + v1alpha1.AnnotationTraceparent + "]", "metadata.annotations[" + v1alpha1.AnnotationTracestate + "]"

// traceKeys are the annotations that are a run's author's.
var traceKeys = []string{v1alpha1.AnnotationTraceparent, v1alpha1.AnnotationTracestate}

// traced checks the trace context that a run's author gives it: of all that is named hearth.dev/ these two alone are theirs, once
// (SPEC.md, Traces).
func traced(run metav1.Object) []Refusal {
	parent, hasParent := run.GetAnnotations()[v1alpha1.AnnotationTraceparent]
	state, hasState := run.GetAnnotations()[v1alpha1.AnnotationTracestate]
	_, err := tracing.Parse(parent, state)
	switch {
	case errors.Is(err, tracing.ErrState) || hasState && state == "":
		return []Refusal{{codeInvalid, tracestateField, "expected the tracestate of a W3C trace context, of at most 512 bytes, beside " + v1alpha1.AnnotationTraceparent}}
	case err != nil || hasParent && parent == "":
		return []Refusal{{codeInvalid, traceparentField, "expected the traceparent of a W3C trace context, version 00: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, in lower case"}}
	default:
		return nil
	}
}

// retraced refuses every change of the trace context of a stored run: spans of it may be out already.
func retraced(before, after metav1.Object) []Refusal {
	var refusals []Refusal
	for _, a := range []struct{ key, field string }{{v1alpha1.AnnotationTraceparent, traceparentField}, {v1alpha1.AnnotationTracestate, tracestateField}} {
		was, had := before.GetAnnotations()[a.key]
		is, has := after.GetAnnotations()[a.key]
		if was != is || had != has {
			refusals = append(refusals, Refusal{codeForbidden, a.field, "expected no change: a run's trace context is given at its creation"})
		}
	}
	return refusals
}
