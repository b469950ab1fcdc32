package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/trace"
)

// subresourceStatus is where status is written.
const subresourceStatus = "status"

// runs carries out admission of AgentRuns.
type runs struct {
	// cached is asked first, live before anything is refused for what the cache says, but for whose name it is.
	cached, live client.Reader
	decoder      admission.Decoder
	// controller is the user name that our own writes come from.
	controller string
	served     served
	// spans and now tell of the runs that are let pass; without spans nobody is told.
	spans *trace.Spans
	now   func() time.Time
	// access is asked before an ad-hoc run is stored; nil means that there are none.
	access askAccess
}

// trusted users write what the others may not: standing runs and their marks.
func trusted(request admission.Request, controller string) bool {
	return slices.Contains([]string{controller, garbageCollector, allInOneManager}, request.UserInfo.Username)
}

// mutate resolves a sparse run at its creation.
func (r *runs) mutate(ctx context.Context, request admission.Request) admission.Response {
	if trusted(request, r.controller) || request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	if refusals := r.served.refusals(request); len(refusals) > 0 {
		return answer(request, refusals)
	}
	var run v1alpha1.AgentRun
	if err := r.decoder.DecodeRaw(request.Object, &run); err != nil {
		return admission.Errored(http.StatusBadRequest, unreadable(err))
	}
	spec, agent, refusals, err := r.resolve(ctx, r.cached, request.Namespace, run.Spec)
	if err == nil && len(refusals) > 0 && !run.AdHoc() && !isPreset(refusals) {
		spec, agent, refusals, err = r.resolve(ctx, r.live, request.Namespace, run.Spec)
	}
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if len(refusals) > 0 {
		return answer(request, refusals)
	}
	patches := append(stamp(&run, agent), jsonpatch.NewOperation("add", "/spec", spec))
	if untold(run.ManagedFields) {
		patches = append(patches, jsonpatch.NewOperation("remove", "/metadata/managedFields", nil))
	}
	return admission.Patched("", patches...)
}

// untold: nobody who applies (kubectl apply --server-side) needs these entries. The spec of a run never changes and its status has one
// writer, so they tell nothing; without them there are none later either, and the API server has less to do for each status write, on an
// object of about half the size.
func untold(fields []metav1.ManagedFieldsEntry) bool {
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Operation == metav1.ManagedFieldsOperationApply })
}

// validate recomputes what mutate resolved, so that a change made after it is refused, and guards stored runs.
func (r *runs) validate(ctx context.Context, request admission.Request) admission.Response {
	if trusted(request, r.controller) {
		return admission.Allowed("")
	}
	begun := r.begun()
	if request.SubResource == subresourceStatus {
		return answer(request, statusWrite("set spec.cancel to stop a run, delete it to forget it"))
	}
	if refusals := r.served.refusals(request); len(refusals) > 0 {
		return answer(request, refusals)
	}
	var run v1alpha1.AgentRun
	if err := r.decoder.DecodeRaw(request.Object, &run); err != nil {
		return admission.Errored(http.StatusBadRequest, unreadable(err))
	}
	if request.Operation == admissionv1.Update {
		var before v1alpha1.AgentRun
		if err := r.decoder.DecodeRaw(request.OldObject, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		return answer(request, slices.Concat(forged(&before, &run, traceKeys...), retraced(&before, &run), moved(&before, &run, "make a new run"), held(&before, &run), immutable(&before, &run)))
	}
	response := r.create(ctx, request, &run)
	if response.Allowed {
		r.admitted(request, &run, begun) //nolint:contextcheck // a span's parent is the run's, not the caller's
	}
	return response
}

// create judges a run that is new.
func (r *runs) create(ctx context.Context, request admission.Request, run *v1alpha1.AgentRun) admission.Response {
	refusals := slices.Concat(forged(nil, run, traceKeys...), traced(run), named(run), placed(run))
	reserved, err := r.reserved(ctx, run)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if refusals = append(refusals, reserved...); len(refusals) > 0 {
		return answer(request, refusals)
	}
	if run.AdHoc() {
		return r.complete(ctx, request, run)
	}
	return r.recompute(ctx, request, run)
}

// complete lets an ad-hoc run pass that has everything and whose author may create its Pod.
func (r *runs) complete(ctx context.Context, request admission.Request, run *v1alpha1.AgentRun) admission.Response {
	want, refusals := r.adHoc(run.Spec)
	if len(refusals) > 0 {
		return answer(request, refusals)
	}
	for _, field := range changed(&want, &run.Spec) {
		refusals = append(refusals, Refusal{codeForbidden, field, "expected its default or a value: another mutating webhook took it away, exempt agentruns.hearth.dev from that webhook"})
	}
	if len(refusals) > 0 {
		return answer(request, refusals)
	}
	refusals, err := r.mayCreatePods(ctx, request)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return answer(request, refusals)
}

// recompute compares the run with what its Agent gives now. The cache may be behind, so only a live read refuses.
func (r *runs) recompute(ctx context.Context, request admission.Request, run *v1alpha1.AgentRun) admission.Response {
	var want v1alpha1.AgentRunSpec
	var refusals []Refusal
	for _, reader := range []client.Reader{r.cached, r.live} {
		spec, agent, refused, err := r.resolve(ctx, reader, request.Namespace, Sparse(run.Spec))
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		if len(refused) > 0 && reader == r.live {
			return answer(request, refused)
		}
		if len(refused) > 0 {
			continue
		}
		if refusals = astray(agent, run); len(refusals) == 0 && len(changed(&spec, &run.Spec)) == 0 {
			return admission.Allowed("")
		}
		want = spec
	}
	if run.Spec.AgentRef.UID != "" && run.Spec.AgentRef != want.AgentRef {
		return outrun(request, want.AgentRef.Name)
	}
	for _, field := range changed(&want, &run.Spec) {
		refusals = append(refusals, Refusal{codeForbidden, field,
			"expected what was resolved from the Agent: another mutating webhook changed it, exempt agentruns.hearth.dev from that webhook"})
	}
	return answer(request, refusals)
}

// reserved refuses names of runs that the controller makes (R23). A name is known only here: generateName is expanded after the
// mutating webhook. It asks the cache alone: who takes a name while an Agent is so new that it is not there has what who came before
// the Agent has: the controller takes the next number, or misses that time. People end the names of their own runs with numbers, too.
func (r *runs) reserved(ctx context.Context, run *v1alpha1.AgentRun) ([]Refusal, error) {
	name, scheduled := makerOf(run.Name)
	agent, err := get(ctx, r.cached, run.Namespace, name)
	if err != nil || agent == nil || scheduled && agent.Spec.Mode != v1alpha1.AgentModeScheduled {
		return nil, err
	}
	return []Refusal{nameTaken(name)}, nil
}

func nameTaken(agent string) Refusal {
	return Refusal{v1alpha1.RefusalReservedName, "metadata.name",
		fmt.Sprintf("expected a name other than %s-<number>: those are for the runs that the controller makes of Agent %s; generateName makes one that is free", agent, agent)}
}

// resolve gives the complete spec, and the Agent that it is made from, nil where there is none.
func (r *runs) resolve(ctx context.Context, reader client.Reader, namespace string, asked v1alpha1.AgentRunSpec) (v1alpha1.AgentRunSpec, *v1alpha1.Agent, []Refusal, error) {
	if asked.AgentRef == (v1alpha1.AgentRef{}) {
		spec, refusals := r.adHoc(asked)
		return spec, nil, refusals, nil
	}
	agent, err := get(ctx, reader, namespace, asked.AgentRef.Name)
	if err != nil {
		return v1alpha1.AgentRunSpec{}, nil, nil, err
	}
	spec, refusals := Resolve(agent, asked)
	return spec, agent, refusals, nil
}

// get is the Agent, nil when there is none.
func get(ctx context.Context, reader client.Reader, namespace, name string) (*v1alpha1.Agent, error) {
	if name == "" || len(path.IsValidPathSegmentName(name)) > 0 {
		return nil, nil //nolint:nilnil // no Agent, and no error: the name was not given, or can be nobody's
	}
	var agent v1alpha1.Agent
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &agent, client.UnsafeDisableDeepCopy) // it is only read
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer here
	}
	if err != nil {
		return nil, fmt.Errorf("read Agent %s/%s: %w", namespace, name, err)
	}
	return &agent, nil
}

// isPreset tells refusals that no Agent can change, for which a live read would be wasted.
func isPreset(refusals []Refusal) bool {
	return refusals[0].Code == v1alpha1.RefusalConflictingFields
}
