package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

// The root rule: a terminal status never changes again, whoever writes it and however.
func TestATerminalStatusCannotBeEvaded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	require.NoError(t, w.user.Create(ctx, w.agent("reviewer")))
	run := w.run("work", "reviewer")
	require.NoError(t, w.user.Create(ctx, run))
	at := metav1.NewMicroTime(time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC))
	run.Status = v1alpha1.AgentRunStatus{
		Phase: v1alpha1.PhaseSucceeded, Outcome: "Succeeded", Reason: v1alpha1.ReasonCompleted, Message: strings.Repeat("m", v1alpha1.MaxMessageBytes),
		StartTime: &at, CompletionTime: &at, RecordedAt: &at, Output: &v1alpha1.Output{MediaType: "text/plain", Value: strings.Repeat("v", v1alpha1.MaxOutputBytes)},
		Delivery: &v1alpha1.DeliveryStatus{Attempt: 1, PodName: "reviewer-1", PodUID: "u", ReservedAt: &at},
	}
	meta.SetStatusCondition(&run.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted})
	require.NoError(t, w.controller.Status().Update(ctx, run), "the largest record fits the rules' cost budget")

	for name, evade := range map[string]func(*unstructured.Unstructured){
		"a field changes":        func(u *unstructured.Unstructured) { set(t, u, "another", "status", "reason") },
		"a nested field changes": func(u *unstructured.Unstructured) { set(t, u, int64(2), "status", "delivery", "attempt") },
		"a field is added":       func(u *unstructured.Unstructured) { set(t, u, "10.0.0.1:4000", "status", "address") },
		"a field is removed":     func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "status", "output") },
		"completionTime removed": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "status", "completionTime")
		},
		"completionTime changes": func(u *unstructured.Unstructured) {
			set(t, u, "2027-01-01T00:00:00.000000Z", "status", "completionTime")
		},
		"status removed as a whole": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "status") },
		"status emptied":            func(u *unstructured.Unstructured) { set(t, u, map[string]any{}, "status") },
	} {
		t.Run(name, func(t *testing.T) {
			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentRun"))
			require.NoError(t, w.controller.Get(t.Context(), client.ObjectKeyFromObject(run), stored))
			changed := stored.DeepCopy()
			evade(changed)
			ruled(t, w.controller.Status().Update(t.Context(), changed), "its status is a record and never changes")
			ruled(t, w.admin.Status().Patch(t.Context(), changed, client.MergeFrom(stored)), "its status is a record and never changes")
		})
	}
	touched := run.DeepCopy()
	touched.Labels = map[string]string{"audited": "yes"}
	require.NoError(t, w.user.Patch(ctx, touched, client.MergeFrom(run)), "the rest of the object lives on")
	require.NoError(t, w.user.Delete(ctx, run))
}

// I7: a living run's attempt number survives whoever may write status; without it a wiped run could be reserved as attempt 1 again.
func TestAnAttemptNumberOnlyGrows(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	require.NoError(t, w.user.Create(ctx, w.agent("reviewer")))
	run := w.run("work", "reviewer")
	require.NoError(t, w.user.Create(ctx, run))
	run.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseRunning, Delivery: &v1alpha1.DeliveryStatus{Attempt: 2, PodName: "reviewer-1", PodUID: "u"}}
	require.NoError(t, w.controller.Status().Update(ctx, run))
	for name, evade := range map[string]func(*unstructured.Unstructured){
		"it falls": func(u *unstructured.Unstructured) { set(t, u, int64(1), "status", "delivery", "attempt") },
		"it goes away": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "status", "delivery", "attempt")
		},
		"delivery removed": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "status", "delivery") },
		"status removed":   func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "status") },
	} {
		t.Run(name, func(t *testing.T) {
			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentRun"))
			require.NoError(t, w.controller.Get(t.Context(), client.ObjectKeyFromObject(run), stored))
			evade(stored)
			ruled(t, w.controller.Status().Update(t.Context(), stored), "status.delivery.attempt only grows and never goes away")
		})
	}
	run.Status.Delivery = &v1alpha1.DeliveryStatus{Attempt: 3}
	require.NoError(t, w.controller.Status().Update(ctx, run), "the next attempt, and the rest given back")
}

// A delivered run has one port, wherever it is read; a rule of the schema says so, because it holds for whoever needs no admission.
func TestADeliveredRunHasOnePort(t *testing.T) {
	w, ctx := newNamespace(t), t.Context()
	run := func(name string, delivery *v1alpha1.DeliverySpec, runtime *v1alpha1.AgentRuntime) *v1alpha1.AgentRun {
		r := w.run(name, "reviewer")
		r.Spec.Delivery, r.Spec.Runtime = delivery, runtime
		return r
	}
	at := func(port int32) *v1alpha1.AgentRuntime {
		return &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{Port: port}}
	}
	undelivered := &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}}
	for name, r := range map[string]*v1alpha1.AgentRun{"another port": run("work", &v1alpha1.DeliverySpec{Port: 4101}, at(4100)), "no delivery": run("work", &v1alpha1.DeliverySpec{Port: 4100}, undelivered)} {
		t.Run(name, func(t *testing.T) {
			ruled(t, w.controller.Create(t.Context(), r), "spec.delivery.port must equal spec.runtime.delivery.port")
		})
	}
	for name, r := range map[string]*v1alpha1.AgentRun{"delivered": run("delivered", &v1alpha1.DeliverySpec{Port: 4100}, at(4100)), "unresolved": run("unresolved", &v1alpha1.DeliverySpec{Port: 4100}, nil),
		"with a Pod": run("pod", nil, undelivered), "sparse": run("sparse", nil, nil)} {
		require.NoError(t, w.controller.Create(ctx, r), name)
		r.Status.Phase = v1alpha1.PhasePending
		require.NoError(t, w.controller.Status().Update(ctx, r), name)
		r.Status = v1alpha1.AgentRunStatus{}
		require.NoError(t, w.controller.Status().Update(ctx, r), "%s: a status that has neither an attempt nor an end may go", name)
	}
}

// ruled: a rule of the schema refuses it, in the words of the rule and no others.
func ruled(t *testing.T, err error, message string) {
	t.Helper()
	require.ErrorContains(t, err, message)
	assert.NotContains(t, err.Error(), "evaluating rule")
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	require.NoError(t, unstructured.SetNestedField(u.Object, value, path...))
}

func TestAnAgentThatContradictsTheContractIsRefused(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for name, c := range map[string]struct {
		change func(*v1alpha1.Agent)
		code   string
		field  string
	}{
		"host network": {func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostNetwork = true }, "InvalidTemplate", "spec.template.spec.hostNetwork"},
		"no agent":     {func(a *v1alpha1.Agent) { a.Spec.Template.Spec.Containers[0].Name = "main" }, "InvalidTemplate", "spec.template.spec.containers"},
		"undeclared":   {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${change} ${other}" }, "InvalidTemplate", "spec.goalTemplate"},
		"bad template": {func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "${change" }, "InvalidTemplate", "spec.goalTemplate"},
		"dot in name":  {func(a *v1alpha1.Agent) { a.Name = "a.b" }, "Invalid", "metadata.name"},
		"digit first":  {func(a *v1alpha1.Agent) { a.Name = "1a" }, "Invalid", "metadata.name"},
		"goal of 400,000 bytes in 100,000 characters": {func(a *v1alpha1.Agent) { a.Spec.Goal = strings.Repeat("😀", 100_000) }, "Invalid", "spec.goal"},
		"name too long": {func(a *v1alpha1.Agent) { a.Name = strings.Repeat("a", 51) }, "Invalid", "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := w.agent("reviewer")
			c.change(agent)
			refused(t, w.user.Create(t.Context(), agent), c.code, c.field)
		})
	}
	longest := w.agent(strings.Repeat("a", 50))
	require.NoError(t, w.user.Create(ctx, longest))
	changed := longest.DeepCopy()
	changed.Spec.Template.Spec.HostPID = true
	refused(t, w.user.Patch(ctx, changed, client.MergeFrom(longest)), "InvalidTemplate", "spec.template.spec.hostPID")

	untaught := w.agent("untaught")
	untaught.Spec.GoalTemplate = ""
	require.ErrorContains(t, w.user.Create(ctx, untaught), "goalTemplate is required exactly when runtime.delivery is set")
	untaught = w.agent("reserved-port")
	untaught.Spec.Runtime.Delivery.Port = 4000
	require.ErrorContains(t, w.user.Create(ctx, untaught), "4000 is the port of the ACP endpoint")
}

// Without a controller nothing is stored that must be resolved, and neither the controller's own start nor a deletion with
// --cascade=foreground waits for one.
func TestWithoutAWebhookServerOnlyTrustedWritesPass(t *testing.T) {
	ctx := t.Context()
	w := &world{namespace: server.Namespace(t), admin: server.Client(t), user: server.ClientAs(t, user), controller: server.ControllerClient(t)}
	grantAll(t, w.namespace)
	require.ErrorContains(t, w.user.Create(ctx, w.agent("reviewer")), "failed calling webhook")
	require.ErrorContains(t, w.user.Create(ctx, w.run("work", "reviewer")), "failed calling webhook")
	for _, name := range []string{apiserver.GarbageCollector, "system:kube-controller-manager"} {
		collector := server.ClientAsGroup(t, name, "system:masters")
		agent := w.agent("reviewer")
		require.NoError(t, collector.Create(ctx, agent), name)
		finalized := agent.DeepCopy()
		finalized.Finalizers = []string{metav1.FinalizerDeleteDependents}
		require.NoError(t, collector.Patch(ctx, finalized, client.MergeFrom(agent)), name)
		standing := w.standing(agent, "reviewer-1")
		require.NoError(t, w.controller.Create(ctx, standing))
		standing.Status.Phase, finalized.Status.Recasts = v1alpha1.PhasePending, 1
		require.NoError(t, w.controller.Status().Update(ctx, standing), "a status is written without a call")
		require.NoError(t, w.controller.Status().Update(ctx, finalized))
		require.ErrorContains(t, w.user.Status().Update(ctx, standing), "failed calling webhook")
		require.NoError(t, w.user.Delete(ctx, standing))
		released := finalized.DeepCopy()
		released.Finalizers = nil
		require.NoError(t, collector.Patch(ctx, released, client.MergeFrom(finalized)), name)
		require.NoError(t, w.user.Delete(ctx, released))
	}
}
