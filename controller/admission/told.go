package admission

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
)

// counted counts what a handler refuses.
func counted(handle admission.HandlerFunc) admission.HandlerFunc {
	return func(ctx context.Context, request admission.Request) admission.Response {
		response := handle(ctx, request)
		if codes := codesOf(response); len(codes) > 0 {
			metrics.Refused(codes...)
		}
		return response
	}
}

// codesOf are the codes of a refusal, none where it is none.
func codesOf(response admission.Response) []string {
	if response.Allowed {
		return nil
	}
	if response.Result == nil {
		return []string{metrics.CodeInternal}
	}
	var codes []string
	if d := response.Result.Details; d != nil {
		for _, cause := range d.Causes {
			codes = append(codes, string(cause.Type))
		}
	}
	switch {
	case len(codes) > 0:
		return codes
	case response.Result.Code == http.StatusBadRequest:
		return []string{metrics.CodeMalformed}
	case response.Result.Code == http.StatusConflict:
		return []string{metrics.CodeConflict}
	default:
		return []string{metrics.CodeInternal}
	}
}

// traced tells the span of a run that is let pass at its creation. It is known here as it will be stored, its UID included.
func (r *runs) traced(handle admission.HandlerFunc) admission.HandlerFunc {
	return func(ctx context.Context, request admission.Request) admission.Response {
		begun := r.now()
		response := handle(ctx, request)
		if !response.Allowed || request.Operation != admissionv1.Create || request.SubResource != "" || ptr.Deref(request.DryRun, false) {
			return response
		}
		var run v1alpha1.AgentRun
		if err := r.decoder.DecodeRaw(request.Object, &run); err == nil {
			run.Namespace = request.Namespace
			r.spans.Admitted(&run, begun, r.now()) //nolint:contextcheck // a span's parent is the run's, not the caller's
		}
		return response
	}
}
