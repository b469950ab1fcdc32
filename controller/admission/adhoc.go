package admission

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

// askAccess has the API server fill in a review's status.
type askAccess func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error

// ResolveAdHoc makes the complete snapshot of a run without an Agent: its author wrote goal, runtime and template, and what is
// missing of the rest has an Agent's defaults (SPEC.md, Admission). It has a Pod of its own.
func ResolveAdHoc(asked v1alpha1.AgentRunSpec) (v1alpha1.AgentRunSpec, []Refusal) {
	if refusals := incomplete(asked); len(refusals) > 0 {
		return v1alpha1.AgentRunSpec{}, refusals
	}
	var refusals []Refusal
	switch size := len(asked.Goal); {
	case size > v1alpha1.MaxGoalBytes: // the schema counts characters
		refusals = append(refusals, Refusal{codeInvalid, "spec.goal", fmt.Sprintf("expected at most %d bytes, it has %d", v1alpha1.MaxGoalBytes, size)})
	case strings.TrimSpace(asked.Goal) == "":
		refusals = append(refusals, Refusal{codeInvalid, "spec.goal", "expected a goal, it is empty"})
	}
	for _, c := range pod.Contradictions(&v1alpha1.AgentSpec{Mode: v1alpha1.AgentModeTask, Runtime: *asked.Runtime, Template: *asked.Template}) {
		refusals = append(refusals, Refusal{v1alpha1.RefusalInvalidTemplate, c.Field, c.Expected})
	}
	if len(refusals) > 0 {
		return v1alpha1.AgentRunSpec{}, refusals
	}
	spec := *asked.DeepCopy()
	if spec.Backend == "" {
		spec.Backend = v1alpha1.BackendPod
	}
	for _, d := range []struct {
		field     **int64
		otherwise int64
	}{
		{&spec.ActiveDeadlineSeconds, v1alpha1.DefaultActiveDeadlineSeconds},
		{&spec.StartingDeadlineSeconds, v1alpha1.DefaultStartingDeadlineSeconds},
		{&spec.TTLSecondsAfterFinished, v1alpha1.DefaultTTLSecondsAfterFinished},
	} {
		if *d.field == nil {
			*d.field = new(d.otherwise)
		}
	}
	return spec, nil
}

// incomplete: what an ad-hoc run must have, and what it cannot have.
func incomplete(s v1alpha1.AgentRunSpec) []Refusal {
	var refusals []Refusal
	for _, f := range []struct {
		field string
		there bool
	}{{"spec.goal", s.Goal != ""}, {"spec.runtime", s.Runtime != nil}, {"spec.template", s.Template != nil}} {
		if !f.there {
			refusals = append(refusals, Refusal{codeInvalid, f.field, "expected a value: a run without spec.agentRef is complete in itself"})
		}
	}
	if s.Delivery != nil || s.Runtime != nil && s.Runtime.Delivery != nil {
		field := "spec.delivery"
		if s.Delivery == nil {
			field = "spec.runtime.delivery"
		}
		refusals = append(refusals, Refusal{v1alpha1.RefusalInvalidDelivery, field, "expected it not to be set: only runs of a Service Agent are delivered, write spec.agentRef.name"})
	}
	if len(s.Parameters) > 0 {
		refusals = append(refusals, Refusal{v1alpha1.RefusalUnusedParameters, "spec.parameters", "expected none: the goal of a run without spec.agentRef stands for itself"})
	}
	if s.BackoffLimit != nil && *s.BackoffLimit != 0 {
		refusals = append(refusals, Refusal{codeInvalid, "spec.backoffLimit", "expected 0 or nothing: a run with a Pod of its own has one attempt"})
	}
	return refusals
}

// adHoc resolves a run without an Agent, if this controller lets anybody make one.
func (r *runs) adHoc(asked v1alpha1.AgentRunSpec) (v1alpha1.AgentRunSpec, []Refusal) {
	if r.access == nil {
		return v1alpha1.AgentRunSpec{}, []Refusal{{v1alpha1.RefusalMissingAgent, "spec.agentRef.name",
			"expected the name of an Agent in this namespace: runs without one (ad hoc) are off, the controller's --allow-ad-hoc-runs lets who may create Pods make them"}}
	}
	return ResolveAdHoc(asked)
}

// mayCreatePods: an ad-hoc run is a Pod of its author's making, so its author must be allowed to make one. An error means that it
// could not be told.
func (r *runs) mayCreatePods(ctx context.Context, request admission.Request) ([]Refusal, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: request.UserInfo.Username, UID: request.UserInfo.UID, Groups: request.UserInfo.Groups, Extra: extra(request.UserInfo.Extra),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: request.Namespace, Verb: "create", Version: "v1", Resource: "pods"},
	}}
	if err := r.access(ctx, review); err != nil {
		return nil, fmt.Errorf("ask whether the author of an ad-hoc run may create Pods in %s: %w", request.Namespace, err)
	}
	if review.Status.Allowed && !review.Status.Denied {
		return nil, nil
	}
	return []Refusal{{codeForbidden, "spec.template", "expected an author who may create Pods in this namespace: an ad-hoc run is a Pod; write spec.agentRef.name of an Agent instead"}}, nil
}

func extra(of map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	if of == nil {
		return nil
	}
	to := make(map[string]authorizationv1.ExtraValue, len(of))
	for key, values := range of {
		to[key] = authorizationv1.ExtraValue(values)
	}
	return to
}
