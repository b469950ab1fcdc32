package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// adHoc is what an author must write of a run without an Agent.
func adHoc() v1alpha1.AgentRunSpec {
	return v1alpha1.AgentRunSpec{
		Goal:     "Tidy ${up}, $${twice}.",
		Runtime:  &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}},
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
	}
}

// SPEC.md, Admission: an ad-hoc run is stored complete.
func TestAnAdHocRunGetsAnAgentsDefaults(t *testing.T) {
	want := adHoc()
	want.Backend, want.ActiveDeadlineSeconds, want.StartingDeadlineSeconds, want.TTLSecondsAfterFinished = v1alpha1.BackendPod, new(int64(1800)), new(int64(3600)), new(int64(604800))
	spec, refusals := ResolveAdHoc(adHoc())
	require.Empty(t, refusals)
	assert.Equal(t, want, spec)
	again, refusals := ResolveAdHoc(spec)
	require.Empty(t, refusals)
	assert.Equal(t, spec, again, "the validating webhook computes the same")

	own := adHoc()
	own.Backend, own.ActiveDeadlineSeconds, own.StartingDeadlineSeconds, own.TTLSecondsAfterFinished = v1alpha1.BackendSandbox, new(int64(1)), new(int64(2)), new(int64(0))
	own.Budget, own.Cancel = &v1alpha1.Budget{Tokens: new(int64(9))}, true
	spec, refusals = ResolveAdHoc(own)
	require.Empty(t, refusals)
	assert.Equal(t, own, spec, "what its author wrote stays")
}

func TestAnAdHocRunThatCannotBeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRunSpec)
		code   v1alpha1.RefusalCode
		field  string
	}{
		"no goal":           {func(s *v1alpha1.AgentRunSpec) { s.Goal = "" }, codeInvalid, "spec.goal"},
		"an empty goal":     {func(s *v1alpha1.AgentRunSpec) { s.Goal = " \n" }, codeInvalid, "spec.goal"},
		"a goal too large":  {func(s *v1alpha1.AgentRunSpec) { s.Goal = strings.Repeat("😀", v1alpha1.MaxGoalBytes/4+1) }, codeInvalid, "spec.goal"},
		"no runtime":        {func(s *v1alpha1.AgentRunSpec) { s.Runtime = nil }, codeInvalid, "spec.runtime"},
		"no template":       {func(s *v1alpha1.AgentRunSpec) { s.Template = nil }, codeInvalid, "spec.template"},
		"delivered":         {func(s *v1alpha1.AgentRunSpec) { s.Delivery = &v1alpha1.DeliverySpec{Port: 4100} }, v1alpha1.RefusalInvalidDelivery, "spec.delivery"},
		"a delivery port":   {func(s *v1alpha1.AgentRunSpec) { s.Runtime.Delivery = &v1alpha1.DeliveryRuntime{Port: 4100} }, v1alpha1.RefusalInvalidDelivery, "spec.runtime.delivery"},
		"parameters":        {func(s *v1alpha1.AgentRunSpec) { s.Parameters = map[string]string{"up": "x"} }, v1alpha1.RefusalUnusedParameters, "spec.parameters"},
		"more attempts":     {func(s *v1alpha1.AgentRunSpec) { s.BackoffLimit = new(int32(1)) }, codeInvalid, "spec.backoffLimit"},
		"the host's":        {func(s *v1alpha1.AgentRunSpec) { s.Template.Spec.HostNetwork = true }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.hostNetwork"},
		"restarts":          {func(s *v1alpha1.AgentRunSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.restartPolicy"},
		"no agent in it":    {func(s *v1alpha1.AgentRunSpec) { s.Template.Spec.Containers[0].Name = "main" }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.containers"},
		"our own variables": {func(s *v1alpha1.AgentRunSpec) { s.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD_UID"}} }, v1alpha1.RefusalInvalidTemplate, "spec.template.spec.containers[0].env[0].name"},
	} {
		asked := adHoc()
		c.change(&asked)
		spec, refusals := ResolveAdHoc(asked)
		require.Len(t, refusals, 1, name)
		assert.Equal(t, c.code, refusals[0].Code, name)
		assert.Equal(t, c.field, refusals[0].Field, name)
		assert.Contains(t, refusals[0].Expected, "expected ", name)
		assert.NotContains(t, refusals[0].String(), "Tidy", name)
		assert.Empty(t, spec, name)
	}
	_, refusals := ResolveAdHoc(v1alpha1.AgentRunSpec{})
	assert.Len(t, refusals, 3, "what is missing is said at once")
}

// The default: nobody makes a run without an Agent, however complete it is, and the message says what is off.
func TestAdHocRunsAreOffByDefault(t *testing.T) {
	r := behind(t, nil, nil)
	complete, refusals := ResolveAdHoc(adHoc())
	require.Empty(t, refusals)
	for name, spec := range map[string]v1alpha1.AgentRunSpec{"as its author wrote it": adHoc(), "as it would be stored": complete, "empty": {}} {
		const says = "[MissingAgent] spec.agentRef.name: expected the name of an Agent in this namespace: runs without one (ad hoc) are off, the controller's --allow-ad-hoc-runs"
		assert.Contains(t, r.mutate(t.Context(), creation(t, spec)).Result.Message, says, name)
		assert.Contains(t, r.validate(t.Context(), creation(t, spec)).Result.Message, says, name)
	}
}

// SPEC.md, Admission: whoever makes a Pod this way must be allowed to make one; who cannot be asked about makes none.
func TestTheAuthorOfAnAdHocRunMustBeAllowedToCreatePods(t *testing.T) {
	complete, refusals := ResolveAdHoc(adHoc())
	require.Empty(t, refusals)
	request := creation(t, complete)
	request.UserInfo = authenticationv1.UserInfo{Username: "alice", UID: "alice-uid", Groups: []string{"payments"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}}}
	r := behind(t, nil, nil)
	for name, c := range map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		err    error
		code   int32
		says   string
	}{
		"allowed":            {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}},
		"not allowed":        {code: http.StatusForbidden, says: "[Forbidden] spec.template: expected an author who may create Pods in this namespace"},
		"denied":             {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, code: http.StatusForbidden, says: "[Forbidden] spec.template"},
		"could not be told":  {status: authorizationv1.SubjectAccessReviewStatus{EvaluationError: "no"}, code: http.StatusForbidden, says: "[Forbidden] spec.template"},
		"could not be asked": {err: errors.New("no right to ask"), code: http.StatusInternalServerError, says: "may create Pods in team: no right to ask"},
	} {
		var asked authorizationv1.SubjectAccessReviewSpec
		r.access = func(_ context.Context, review *authorizationv1.SubjectAccessReview) error {
			asked, review.Status = review.Spec, c.status
			return c.err
		}
		response := r.validate(t.Context(), request)
		assert.Equal(t, c.says == "", response.Allowed, name)
		if c.says != "" {
			assert.Equal(t, c.code, response.Result.Code, name)
			assert.Contains(t, response.Result.Message, c.says, name)
		}
		assert.Equal(t, authorizationv1.SubjectAccessReviewSpec{
			User: "alice", UID: "alice-uid", Groups: []string{"payments"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "team", Verb: "create", Version: "v1", Resource: "pods"},
		}, asked, name)
	}

	// What another webhook left incomplete is refused without a question, and a stored one is immutable like any other.
	r.access = nil
	assert.False(t, r.validate(t.Context(), request).Allowed)
	r.access = func(context.Context, *authorizationv1.SubjectAccessReview) error { panic("nothing is asked") }
	stripped := complete
	stripped.ActiveDeadlineSeconds = nil
	assert.Contains(t, r.validate(t.Context(), creation(t, stripped)).Result.Message, "[Forbidden] spec.activeDeadlineSeconds")
	for name, change := range map[string]func(*v1alpha1.AgentRunSpec){
		"spec.goal":     func(s *v1alpha1.AgentRunSpec) { s.Goal = "x" },
		"spec.agentRef": func(s *v1alpha1.AgentRunSpec) { s.AgentRef.Name = "reviewer" },
		"spec.template": func(s *v1alpha1.AgentRunSpec) { s.Template.Spec.Containers[0].Image = "evil" },
		"spec.backend":  func(s *v1alpha1.AgentRunSpec) { s.Backend = v1alpha1.BackendSandbox },
		"spec.budget":   func(s *v1alpha1.AgentRunSpec) { s.Budget = &v1alpha1.Budget{Tokens: new(int64(1))} },
	} {
		after := *complete.DeepCopy()
		change(&after)
		update := creation(t, after)
		update.Operation, update.OldObject = "UPDATE", creation(t, complete).Object
		response := r.validate(t.Context(), update)
		require.False(t, response.Allowed, name)
		assert.Contains(t, response.Result.Message, "[Forbidden] "+name+": expected no change: a run's spec is immutable but for cancel", name)
	}
	cancelled := *complete.DeepCopy()
	cancelled.Cancel = true
	update := creation(t, cancelled)
	update.Operation, update.OldObject = "UPDATE", creation(t, complete).Object
	assert.True(t, r.validate(t.Context(), update).Allowed, "who may update it may cancel it")
}

// An ad-hoc run's author writes to a schema whose Agents have these defaults: they are the same.
func TestTheDefaultsOfAdHocRunsAreThoseOfAgents(t *testing.T) {
	defaults := agentDefaults(t)
	spec, refusals := ResolveAdHoc(adHoc())
	require.Empty(t, refusals)
	for field, value := range map[string]any{
		"activeDeadlineSeconds": *spec.ActiveDeadlineSeconds, "startingDeadlineSeconds": *spec.StartingDeadlineSeconds,
		"ttlSecondsAfterFinished": *spec.TTLSecondsAfterFinished, "backend": spec.Backend,
	} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		assert.JSONEq(t, string(defaults[field]), string(text), field)
	}
}

// agentDefaults are the defaults in the CRD of Agents, by the field of spec.
func agentDefaults(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/hearth.dev_agents.yaml")
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties map[string]struct {
							Properties map[string]struct {
								Default json.RawMessage `json:"default"`
							} `json:"properties"`
						} `json:"properties"`
					} `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(text, &crd))
	defaults := map[string]json.RawMessage{}
	for name, field := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		defaults[name] = field.Default
	}
	return defaults
}
