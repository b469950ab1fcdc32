package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	hooks "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
)

// meddler is somebody's mutating webhook: the API server calls webhooks in the order of their configurations' names, ours is
// hearth-admission, and again after a later one changed something when they ask for it.
type meddler struct {
	configuration string
	again         bool // asks to be called again
	patch         jsonpatch.Operation
	onlyResolved  bool // leaves a run alone that is not resolved yet
	says          []string
}

const exempt = "exempt agentruns.hearth.dev from that"

// fault row 45, R31.
var meddling = map[string]meddler{
	"later-goal":       {"zz-later", false, jsonpatch.NewOperation("replace", "/spec/goal", "else"), false, []string{"[Forbidden] spec.goal", "another mutating webhook changed it, " + exempt}},
	"later-runtime":    {"zz-later", false, jsonpatch.NewOperation("replace", "/spec/runtime/permissions/policy", "Allow"), false, []string{"[Forbidden] spec.runtime", exempt}},
	"later-parameters": {"zz-later", false, jsonpatch.NewOperation("add", "/spec/parameters/concern", "style"), false, []string{"[Forbidden] spec.goal", exempt}},
	"later-deadline":   {"zz-later", false, jsonpatch.NewOperation("remove", "/spec/activeDeadlineSeconds", nil), false, []string{"[Forbidden] spec.activeDeadlineSeconds", exempt}},
	"later-template":   {"zz-later", false, jsonpatch.NewOperation("add", "/spec/template", map[string]any{"spec": map[string]any{"containers": []any{}}}), false, []string{"[Forbidden] spec.template", exempt}},
	"later-spec":       {"zz-later", false, jsonpatch.NewOperation("replace", "/spec", map[string]any{"agentRef": map[string]any{"name": "reviewer"}, "parameters": map[string]any{"change": "PR 17"}}), false, []string{"[Forbidden] spec.delivery", exempt}},
	"later-agent":      {"zz-later", false, jsonpatch.NewOperation("replace", "/spec/agentRef/generation", 7), false, []string{"another mutating webhook changes spec.agentRef, exempt agentruns.hearth.dev from it"}},
	"later-label":      {"zz-later", false, jsonpatch.NewOperation("add", "/metadata/labels/hearth.dev~1agent", "reviewer"), false, []string{"[Forbidden] metadata.labels", otherPrefix}},
	"later-shard":      {"zz-later", false, jsonpatch.NewOperation("add", "/metadata/labels/hearth.dev~1shard", "green"), false, []string{"[Forbidden] metadata.labels[hearth.dev/shard]", "another mutating webhook changed it, " + exempt}},
	"earlier-goal":     {"aa-earlier", false, jsonpatch.NewOperation("add", "/spec/goal", "else"), false, []string{"[ConflictingFields] spec.goal", "a mutating webhook set it: " + exempt}},
	"again-goal":       {"aa-again", true, jsonpatch.NewOperation("replace", "/spec/goal", "else"), true, []string{"[Forbidden] spec.goal", exempt}},
}

func meddlePath(name string) string { return "/meddle-" + name }

func meddlers() map[string]hooks.Handler {
	handlers := map[string]hooks.Handler{}
	for name, m := range meddling {
		handlers[meddlePath(name)] = hooks.HandlerFunc(func(_ context.Context, request hooks.Request) hooks.Response {
			var run v1alpha1.AgentRun
			if err := json.Unmarshal(request.Object.Raw, &run); err != nil {
				return hooks.Errored(http.StatusBadRequest, err)
			}
			if m.onlyResolved && run.Spec.Goal == "" {
				return hooks.Allowed("")
			}
			return hooks.Patched("", m.patch)
		})
	}
	return handlers
}

// Whatever another's mutating webhook does to a resolved run, before ours, after it or when it is called again: the run is refused,
// and the message says what its author can do.
func TestARunThatAnotherMutatorChangedIsRefused(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	require.NoError(t, w.user.Create(ctx, w.agent("reviewer")))
	var ours admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, w.admin.Get(ctx, client.ObjectKey{Name: "hearth-admission"}, &ours))
	theirs := map[string]*admissionregistrationv1.MutatingWebhookConfiguration{}
	for name, m := range meddling {
		hook := *ours.Webhooks[0].DeepCopy()
		hook.Name, hook.MatchConditions = name+".example.com", nil
		hook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace}}
		hook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"meddle": name}}
		hook.ClientConfig.URL = ptr.To(strings.Replace(*hook.ClientConfig.URL, admission.PathMutateRun, meddlePath(name), 1))
		if m.again {
			hook.ReinvocationPolicy = ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy)
		}
		if theirs[m.configuration] == nil {
			theirs[m.configuration] = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: m.configuration}}
		}
		theirs[m.configuration].Webhooks = append(theirs[m.configuration].Webhooks, hook)
	}
	for _, configuration := range theirs {
		require.NoError(t, w.admin.Create(ctx, configuration))
		t.Cleanup(func() { assert.NoError(t, w.admin.Delete(context.WithoutCancel(t.Context()), configuration)) })
	}
	for name, m := range meddling {
		t.Run(name, func(t *testing.T) {
			run := w.run("work", "reviewer")
			run.Labels = map[string]string{"meddle": name}
			got := ""
			require.Eventually(t, func() bool { // the API server takes a moment to call a new webhook
				err := w.user.Create(t.Context(), run.DeepCopy(), client.DryRunAll)
				got = fmt.Sprint(err)
				return err != nil
			}, patience, 100*time.Millisecond)
			for _, says := range m.says {
				assert.Contains(t, got, says)
			}
			require.Error(t, w.user.Create(t.Context(), run))
		})
	}
	require.NoError(t, w.user.Create(ctx, w.run("work", "reviewer")), "a run that nobody meddles with passes")
}
