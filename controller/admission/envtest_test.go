package admission_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/webhooks"
)

var server = apiserver.New(apiserver.Options{Webhooks: true})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

const (
	user     = "alice"
	patience = time.Minute // for what comes when it comes
)

// world is a namespace with the webhooks served for it, an ordinary user with full rights on Agents and AgentRuns there, the
// controller's service account and the administrator.
type world struct {
	namespace               string
	user, controller, admin client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	serve(t, admission.Options{})
	return newNamespace(t)
}

func newNamespace(t *testing.T) *world {
	t.Helper()
	w := &world{namespace: server.Namespace(t), admin: server.Client(t), user: server.ClientAs(t, user), controller: server.ControllerClient(t)}
	grantAll(t, w.namespace)
	return w
}

// grantAll gives the user more than people are given: every verb on our kinds and on their subresources.
func grantAll(t *testing.T, namespace string) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"hearth.dev"}, Resources: []string{"agents", "agents/status", "agents/finalizers", "agentruns", "agentruns/status", "agentruns/finalizers"}, Verbs: []string{"*"}}}}
	require.NoError(t, server.Client(t).Create(t.Context(), role))
	require.NoError(t, server.Client(t).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"}}))
}

// serve runs the webhooks until the test ends.
func serve(t *testing.T, o admission.Options) {
	t.Helper()
	webhooks.Serve(t, server, o, meddlers())
}

func (w *world) agent(name string) *v1alpha1.Agent {
	return &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.AgentSpec{
			GoalTemplate: "Review ${change} for ${concern}.",
			Parameters:   []v1alpha1.Parameter{{Name: "change"}, {Name: "concern", Default: ptr.To("correctness")}},
			Runtime:      v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{}},
			Template:     corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
		},
	}
}

func (w *world) run(name, agent string) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: agent}, Parameters: map[string]string{"change": "PR 17"}},
	}
}

// known waits until admission's cache has the Agents, for only then names are theirs. of is an Agent that people make runs of.
func (w *world) known(t *testing.T, of string, agents ...string) {
	t.Helper()
	for _, agent := range agents {
		require.Eventually(t, func() bool {
			err := w.user.Create(t.Context(), w.run(agent+"-1", of), client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), string(v1alpha1.RefusalReservedName))
		}, patience, 20*time.Millisecond, "Agent %s", agent)
	}
}

// refused asserts a refusal with a code, in brackets in the message and as a cause with the field.
func refused(t *testing.T, err error, code, field string) {
	t.Helper()
	require.Error(t, err)
	status := apierrors.APIStatus(nil)
	require.ErrorAs(t, err, &status)
	assert.Contains(t, err.Error(), "["+code+"] "+field+": ")
	require.NotNil(t, status.Status().Details, err.Error())
	for _, cause := range status.Status().Details.Causes {
		if string(cause.Type) == code && cause.Field == field {
			assert.NotEmpty(t, cause.Message)
			return
		}
	}
	t.Fatalf("no cause %s for %s in %+v", code, field, status.Status().Details.Causes)
}

// R21: a sparse run is stored complete. The Agent was made a moment before, so the cache may not have it.
func TestSparseRunIsStoredAsACompleteSnapshot(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.agent("reviewer")
	require.NoError(t, w.user.Create(ctx, agent))
	run := w.run("", "reviewer")
	run.GenerateName = "review-"
	require.NoError(t, w.user.Create(ctx, run))

	var stored v1alpha1.AgentRun
	require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(run), &stored))
	assert.Equal(t, v1alpha1.AgentRunSpec{
		AgentRef:   v1alpha1.AgentRef{Name: "reviewer", UID: agent.UID, Generation: 1},
		Parameters: map[string]string{"change": "PR 17", "concern": "correctness"},
		Goal:       "Review PR 17 for correctness.",
		Delivery:   &v1alpha1.DeliverySpec{Port: 4100},
		Runtime: &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Permissions: v1alpha1.Permissions{Policy: v1alpha1.PermissionDeny},
			Output: v1alpha1.OutputRuntime{MediaType: v1alpha1.MediaTypeText}, Steering: v1alpha1.SteeringWatchOnly, Session: v1alpha1.SessionFresh,
			Delivery: &v1alpha1.DeliveryRuntime{Port: 4100, Scheme: v1alpha1.DeliveryHTTPS, Concurrency: 1, Queue: ptr.To[int32](1)}},
		ActiveDeadlineSeconds: ptr.To[int64](1800), StartingDeadlineSeconds: ptr.To[int64](3600), BackoffLimit: ptr.To[int32](0), TTLSecondsAfterFinished: ptr.To[int64](604800),
	}, stored.Spec)
	assert.Empty(t, stored.OwnerReferences, "a delivered run outlives its Agent")
	assert.Empty(t, stored.Finalizers, "no delete ever hangs")
	assert.Empty(t, agent.Finalizers)

	var found v1alpha1.AgentRunList
	require.NoError(t, w.user.List(ctx, &found, client.InNamespace(w.namespace), client.MatchingFields{"spec.agentRef.name": "reviewer"}))
	assert.Len(t, found.Items, 1, "runs can be selected by their Agent")
	require.NoError(t, w.user.List(ctx, &found, client.InNamespace(w.namespace), client.MatchingFields{"spec.agentRef.name": "other"}))
	assert.Empty(t, found.Items)
}

// R21: the codes, through the real API server; for runs with a Pod of their own see TestOneShotRunsThroughTheRealAPIServer.
func TestRefusalsReachTheUserWithTheirCodes(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	require.NoError(t, w.user.Create(ctx, w.agent("reviewer")))
	silent := w.agent("silent")
	silent.Spec.Runtime.Delivery, silent.Spec.GoalTemplate = nil, ""
	require.NoError(t, w.user.Create(ctx, silent))
	// An Agent that was stored before the webhooks were installed, as it looks to them.
	broken := w.agent("broken")
	broken.Spec.GoalTemplate = "${"
	require.NoError(t, w.controller.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "reviewer"}, &v1alpha1.Agent{}))
	require.NoError(t, server.ClientAsGroup(t, apiserver.GarbageCollector, "system:masters").Create(ctx, broken))
	w.known(t, "reviewer", "reviewer", "silent")

	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRun)
		code   v1alpha1.RefusalCode
		field  string
	}{
		"missing Agent":     {func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = "nobody" }, v1alpha1.RefusalMissingAgent, "spec.agentRef.name"},
		"no Agent":          {func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = "" }, v1alpha1.RefusalMissingAgent, "spec.agentRef.name"},
		"preset goal":       {func(r *v1alpha1.AgentRun) { r.Spec.Goal = "mine" }, v1alpha1.RefusalConflictingFields, "spec.goal"},
		"delivery disabled": {func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = "silent" }, v1alpha1.RefusalDeliveryDisabled, "spec.agentRef.name"},
		"reserved name":     {func(r *v1alpha1.AgentRun) { r.Name = "reviewer-12" }, v1alpha1.RefusalReservedName, "metadata.name"},
		"another's name":    {func(r *v1alpha1.AgentRun) { r.Name = "silent-0001" }, v1alpha1.RefusalReservedName, "metadata.name"},
		"broken template":   {func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = "broken" }, v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name"},
		"missing":           {func(r *v1alpha1.AgentRun) { r.Spec.Parameters = nil }, v1alpha1.RefusalMissingParameters, "spec.parameters"},
		"unused":            {func(r *v1alpha1.AgentRun) { r.Spec.Parameters["chnage"] = "x" }, v1alpha1.RefusalUnusedParameters, "spec.parameters"},
		"300 KiB":           {func(r *v1alpha1.AgentRun) { r.Spec.Parameters["change"] = strings.Repeat("x", 300<<10) }, v1alpha1.RefusalInvalidDelivery, "spec.parameters.change"},
	} {
		t.Run(name, func(t *testing.T) {
			run := w.run("work", "reviewer")
			c.change(run)
			refused(t, w.user.Create(t.Context(), run), string(c.code), c.field)
		})
	}
	for _, free := range []string{"reviewer-12345", "review-1", "reviewer-x", "work"} {
		assert.NoError(t, w.user.Create(ctx, w.run(free, "reviewer")), "%s is nobody's", free)
	}
}

func (w *world) standing(agent *v1alpha1.Agent, name string) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelAgent: agent.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "hearth.dev/v1alpha1", Kind: "Agent", Name: agent.Name, UID: agent.UID, Controller: ptr.To(true)}},
		},
		Spec: v1alpha1.AgentRunSpec{
			AgentRef: v1alpha1.AgentRef{Name: agent.Name, UID: agent.UID, Generation: agent.Generation},
			Runtime:  agent.Spec.Runtime.DeepCopy(), Template: agent.Spec.Template.DeepCopy(),
		},
	}
}

// kubectl users write numbers and booleans without quotes; the message says which field and what to do.
func TestAParameterThatIsNoTextIsNamed(t *testing.T) {
	w := newWorld(t)
	run := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": w.namespace, "name": "work"},
		"spec":     map[string]any{"agentRef": map[string]any{"name": "reviewer"}, "parameters": map[string]any{"change": int64(17)}},
	}}
	run.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentRun"))
	err := w.user.Create(t.Context(), run)
	require.ErrorContains(t, err, "spec.parameters: expected text, got a number: put it in quotes")
}
