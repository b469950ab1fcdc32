package admission

import (
	"context"
	"net/http"
	"time"

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

// begun is when a question was begun with, where a span tells it.
func (r *runs) begun() time.Time {
	if r.spans == nil || r.now == nil {
		return time.Time{}
	}
	return r.now()
}

// admitted tells the span of a run that is let pass at its creation. It is known here as it will be stored, its UID included.
func (r *runs) admitted(request admission.Request, run *v1alpha1.AgentRun, begun time.Time) {
	if begun.IsZero() || ptr.Deref(request.DryRun, false) {
		return
	}
	run.Namespace = request.Namespace
	r.spans.Admitted(run, begun, r.now())
}
