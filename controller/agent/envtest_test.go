package agent_test

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/test/apiserver/room"
)

// Agent → standing run → Secret and Pod, each owned by the one before, and none with a finalizer.
func TestAServiceAgentGetsOneStandingRunWithItsSecretAndPod(t *testing.T) {
	w := newWorld(t)
	a := w.Agent("reviewer")
	r := w.Run("reviewer-1", room.HasPod)
	assert.True(t, metav1.IsControlledBy(r, a))
	assert.Equal(t, map[string]string{v1alpha1.LabelAgent: "reviewer"}, r.Labels)
	assert.Equal(t, "1", r.Annotations[v1alpha1.AnnotationGeneration])
	assert.Nil(t, r.Spec.Delivery)
	assert.Nil(t, r.Spec.ActiveDeadlineSeconds, "a standing run has no deadline")
	assert.Equal(t, v1alpha1.AgentRef{Name: "reviewer", UID: a.UID, Generation: 1}, r.Spec.AgentRef)

	p := w.Pod("reviewer-1")
	assert.True(t, pod.OwnedBy(p, r.UID))
	assert.Equal(t, p.UID, r.Status.PodUID)
	var secret corev1.Secret
	require.NoError(t, w.Get(t.Context(), w.Key(v1alpha1.RunSecretName(r.Name, r.UID)), &secret))
	assert.Len(t, secret.Data["token"], 43)
	assert.Equal(t, "You review changes.", string(secret.Data["goal"]))
	assert.True(t, metav1.IsControlledBy(&secret, r))
	for _, o := range []client.Object{a, r, p, &secret} {
		assert.Empty(t, o.GetFinalizers(), "%T: no delete ever hangs", o)
		for _, owner := range o.GetOwnerReferences() {
			assert.Nil(t, owner.BlockOwnerDeletion, "%T", o)
		}
	}
	secret.Data["token"] = []byte("x")
	assert.True(t, apierrors.IsInvalid(w.Update(t.Context(), &secret)), "the Secret is immutable")

	w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotListening)
	w.Kubelet("reviewer-1", room.Listens)
	r = w.Run("reviewer-1", room.IsListening)
	assert.Equal(t, "10.77.0.9:4000", r.Status.Address)
	assert.Equal(t, v1alpha1.PhaseRunning, r.Status.Phase)
	a = w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding)
	assert.Equal(t, []int32{1, 1, 0}, []int32{a.Status.Replicas, a.Status.ReadyReplicas, a.Status.Recasts})
	w.agentIs("reviewer", v1alpha1.AgentConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStanding)
}

// R29: a standing run that ends is replaced after the backoff, which is counted; the record of the ended one is final.
func TestARunWhosePodFailsIsRecast(t *testing.T) {
	w := newWorld(t)
	w.Agent("reviewer")
	w.Kubelet("reviewer-1", room.Listens)
	w.Run("reviewer-1", room.IsListening)
	w.Kubelet("reviewer-1", fails)
	r := w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended)
	assert.True(t, is(r, v1alpha1.AgentRunConditionSucceeded, metav1.ConditionFalse, v1alpha1.ReasonPodFailed))
	assert.True(t, is(r, v1alpha1.AgentRunConditionACPReady, metav1.ConditionFalse, v1alpha1.ReasonFinished))
	assert.Equal(t, "Evicted: low on memory", r.Status.Message)
	next := w.Run("reviewer-2", room.Exists)
	assert.GreaterOrEqual(t, next.CreationTimestamp.Unix(), r.Status.CompletionTime.Unix())
	a := w.agentIs("reviewer", v1alpha1.AgentConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonNotListening)
	assert.Equal(t, int32(1), a.Status.Recasts)
	assert.Equal(t, int32(2), a.Status.RecastBackoffSeconds)
	assert.Equal(t, []string{"reviewer-2"}, w.standing(t.Context(), "reviewer"))
}

// Only a live read may call a Pod gone; then the run ends and is recast.
func TestAPodThatIsDeletedEndsItsRun(t *testing.T) {
	w := newWorld(t)
	w.Agent("reviewer")
	w.Kubelet("reviewer-1", room.Listens)
	r := w.Run("reviewer-1", room.IsListening)

	p := w.Pod("reviewer-1") // row 51: a label taken away hides the Pod from the cache, and proves nothing
	unlabelled := p.DeepCopy()
	delete(unlabelled.Labels, v1alpha1.LabelRun)
	require.NoError(t, w.Patch(t.Context(), unlabelled, client.MergeFrom(p)))
	w.Kubelet("reviewer-1", func(s *corev1.PodStatus) { s.ContainerStatuses[0].RestartCount = 7 })
	w.Touch(r.DeepCopy())
	r = w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool { return r.Status.Restarts == 7 })
	assert.True(t, room.IsListening(r), "it was read live")

	w.Remove(p)
	w.Touch(r)
	ended := w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, "the Pod was deleted", ended.Status.Message)
	w.Run("reviewer-2", room.Exists)
}

// R9: cancel ends the Pod while the run is still Pending, and the run ends when the Pod has.
func TestCancelEndsThePodOfAPendingRun(t *testing.T) {
	w := newWorld(t)
	w.Agent("reviewer")
	r := w.Run("reviewer-1", room.HasPod)
	require.Equal(t, v1alpha1.PhasePending, r.Status.Phase)
	cancelled := r.DeepCopy()
	cancelled.Spec.Cancel = true
	require.NoError(t, w.Patch(t.Context(), cancelled, client.MergeFrom(r)))
	r = w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended) // without a node, the API server removes a Pod at once
	assert.Equal(t, v1alpha1.ReasonCancelled, r.Status.Reason)
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), w.Key("reviewer-1"), &corev1.Pod{})))
	w.Run("reviewer-2", room.Exists)
}

// R9 and R42: a deleted run is gone at once, and so is its Pod, without the garbage collector.
func TestDeletingARunEndsItsPod(t *testing.T) {
	w := newWorld(t)
	w.Agent("reviewer")
	old := w.Pod("reviewer-1")
	w.Run("reviewer-1", room.HasPod)
	require.NoError(t, w.Delete(t.Context(), &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "reviewer-1"}}))
	w.Gone(old)
	w.Eventually("another standing run", func(ctx context.Context) bool { return len(w.standing(ctx, "reviewer")) == 1 })
}

// A change of what the standing Pod is made from replaces it, once the next one is ready; a change of what only deliveries use does not.
func TestATemplateChangeReplacesTheStandingRun(t *testing.T) {
	w := newWorld(t)
	a := w.Agent("reviewer")
	w.Kubelet("reviewer-1", room.Listens)
	first := w.Run("reviewer-1", room.IsListening)

	w.change(a, func(a *v1alpha1.Agent) { a.Spec.GoalTemplate = "Look at ${change}." })
	w.Eventually("the new generation is seen", func(ctx context.Context) bool {
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.ObservedGeneration == 2
	})
	same := w.Run("reviewer-1", room.Exists)
	assert.Equal(t, first.UID, same.UID)

	w.change(a, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.Containers[0].Image = "registry/agent:2" })
	assert.Equal(t, "registry/agent:2", w.Pod("reviewer-2").Spec.Containers[0].Image)
	w.Eventually("two are counted, of which one is ready", func(ctx context.Context) bool { // it is said to roll before the second one is made
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.Replicas == 2 && a.Status.ReadyReplicas == 1
	})
	w.agentIs("reviewer", v1alpha1.AgentConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRolling)
	w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding)
	assert.Nil(t, w.Run("reviewer-1", room.IsListening).Status.CordonedAt, "a new template that is not ready takes nothing away")

	w.Kubelet("reviewer-2", room.Listens)
	w.Eventually("only the new one stands", func(ctx context.Context) bool {
		return slices.Equal(w.standing(ctx, "reviewer"), []string{"reviewer-2"})
	})
	a = w.agentIs("reviewer", v1alpha1.AgentConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStanding)
	assert.Zero(t, a.Status.Recasts, "replacing is no recast")
}

// kubectl scale goes by the scale subresource.
func TestKubectlScalesAnAgent(t *testing.T) {
	w := newWorld(t)
	w.Agent("reviewer")
	w.Run("reviewer-1", room.Exists)
	server.Kubectl(t, "scale", "agent/reviewer", "--replicas=3", "-n", w.Namespace)
	w.Run("reviewer-3", room.Exists)
	w.Kubelet("reviewer-2", room.Listens)
	w.Eventually("its status", func(ctx context.Context) bool {
		a := &v1alpha1.Agent{}
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.Replicas == 3 && a.Status.ReadyReplicas == 1
	})
	assert.Equal(t, []string{"reviewer-1", "reviewer-2", "reviewer-3"}, w.standing(t.Context(), "reviewer"))

	server.Kubectl(t, "scale", "agent/reviewer", "--replicas=1", "-n", w.Namespace)
	w.Eventually("the one that listens stays", func(ctx context.Context) bool {
		return slices.Equal(w.standing(ctx, "reviewer"), []string{"reviewer-2"})
	})
	server.Kubectl(t, "scale", "agent/reviewer", "--replicas=0", "-n", w.Namespace)
	w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero)
	w.Eventually("none stands", func(ctx context.Context) bool { return len(w.standing(ctx, "reviewer")) == 0 })
}

// R34: a Task Agent keeps nothing standing and says that runs can be made.
func TestATaskAgentSaysThatItAcceptsRuns(t *testing.T) {
	w := newWorld(t)
	w.Agent("once", func(a *v1alpha1.Agent) {
		a.Spec.Mode, a.Spec.Goal, a.Spec.Runtime.Delivery = v1alpha1.AgentModeTask, "", nil
	})
	w.agentIs("once", v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAcceptsRuns)
	assert.Empty(t, w.standing(t.Context(), "once"))
}

// A Secret, a Pod and a run of our names that somebody else made are not used and not touched.
func TestForeignObjectsOfOurNamesAreNotUsed(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	taken := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "reviewer-1"},
		Spec: v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "other"}, Delivery: &v1alpha1.DeliverySpec{Port: 4100}}}
	require.NoError(t, w.Create(ctx, taken))
	foreign := run.BuildPod(&v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "reviewer-2"},
		Spec: v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "reviewer"}, Runtime: &v1alpha1.AgentRuntime{}, Template: &corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "x"}}}}}})
	foreign.OwnerReferences, foreign.Labels = nil, nil
	require.NoError(t, w.Create(ctx, foreign))
	w.Agent("reviewer")
	r := w.Run("reviewer-2", room.Says("Pod reviewer-2 exists and is not this run's"))
	assert.Equal(t, v1alpha1.PhasePending, r.Status.Phase)
	assert.Empty(t, r.Status.PodUID)
	var still corev1.Pod
	require.NoError(t, w.Get(ctx, w.Key("reviewer-2"), &still))
	assert.Equal(t, foreign.UID, still.UID)
	require.NoError(t, w.Get(ctx, w.Key("reviewer-1"), taken))
	assert.Empty(t, taken.Status.Phase, "a delivered run is none of this controller's business (R22)")
}

// Row 36 and 48: a Secret that is lost under a living Pod is not made anew: its standing run is replaced by one with a Secret of
// its own, and drains.
func TestARunThatLostItsSecretIsReplaced(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.Agent("reviewer")
	w.Kubelet("reviewer-1", room.Listens)
	r := w.Run("reviewer-1", room.IsListening)
	secret := w.Key(v1alpha1.RunSecretName(r.Name, r.UID))
	require.NoError(t, w.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}}))
	w.Touch(r.DeepCopy()) // it may be gone by now: whoever looked at it meanwhile has seen that, too
	w.Eventually("another run", func(ctx context.Context) bool {
		alive := w.standing(ctx, "reviewer")
		var next v1alpha1.AgentRun
		return len(alive) == 1 && w.Get(ctx, w.Key(alive[0]), &next) == nil && next.UID != r.UID &&
			w.Get(ctx, w.Key(v1alpha1.RunSecretName(next.Name, next.UID)), &corev1.Secret{}) == nil
	})
	assert.True(t, apierrors.IsNotFound(w.Get(ctx, secret, &corev1.Secret{})))
	a := &v1alpha1.Agent{}
	require.NoError(t, w.Get(ctx, w.Key("reviewer"), a))
	assert.Zero(t, a.Status.Recasts, "replacing is no recast")
}

// A template that the webhook did not see (it was stored before it) makes no Pod and says why.
func TestAnAgentThatContradictsTheContractMakesNoRun(t *testing.T) {
	w := newWorld(t)
	w.Agent("broken", func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostNetwork = true })
	a := w.agentIs("broken", v1alpha1.AgentConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate)
	assert.Contains(t, meta.FindStatusCondition(a.Status.Conditions, v1alpha1.AgentConditionReady).Message, "spec.template.spec.hostNetwork")
	assert.Empty(t, w.standing(t.Context(), "broken"))

	w.change(a, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostNetwork = false })
	w.Run("broken-1", room.Exists)
}

// A namespace that is being deleted takes nothing new. That is no error to be logged and tried again: everything in it goes.
func TestNothingIsMadeInANamespaceThatIsBeingDeleted(t *testing.T) {
	w, ctx := room.New(t, server), t.Context()
	w.Agent("reviewer")
	agents := &agent.Reconciler{Client: uncached{w.Client}, Live: w.Client, Loads: room.Idle{}, Events: events.NewFakeRecorder(9), Now: time.Now}
	runs := &run.Reconciler{Client: w.Client, Live: w.Client, Events: events.NewFakeRecorder(9), Now: time.Now, Random: rand.Reader}
	request := func(name string) ctrl.Request { return ctrl.Request{NamespacedName: w.Key(name)} }
	_, err := agents.Reconcile(ctx, request("reviewer"))
	require.NoError(t, err)
	require.NoError(t, w.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}})) // no controller here ends it

	_, err = runs.Reconcile(ctx, request("reviewer-1"))
	require.NoError(t, err)
	require.NoError(t, w.Delete(ctx, w.Run("reviewer-1", room.Says("is being terminated"))))
	result, err := agents.Reconcile(ctx, request("reviewer"))
	require.NoError(t, err)
	assert.Zero(t, result)
}

// What Kubernetes refuses (here: a Pod that is invalid) is on the run, in the API server's words.
func TestAPodThatTheAPIServerRefusesIsSaidOnTheRun(t *testing.T) {
	w := newWorld(t)
	a := w.Agent("reviewer")
	w.change(a, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.NodeSelector = map[string]string{"not a label": "x"} })
	w.Eventually("the run says it", func(ctx context.Context) bool {
		for _, name := range w.standing(ctx, "reviewer") {
			var r v1alpha1.AgentRun
			if w.Get(ctx, w.Key(name), &r) == nil && room.Says("the API server refused the Pod")(&r) && room.Says("nodeSelector")(&r) {
				return r.Status.Phase == v1alpha1.PhasePending
			}
		}
		return false
	})
}
