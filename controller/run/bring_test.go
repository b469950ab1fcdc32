package run

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/sandbox"
)

func reconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, sandbox.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.AgentRun{}).Build()
	return &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(8), Now: func() time.Time { return now }, Random: rand.Reader}
}

func look(t *testing.T, r *Reconciler) (*v1alpha1.AgentRun, ctrl.Result) {
	t.Helper()
	key := client.ObjectKeyFromObject(standingRun())
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	var run v1alpha1.AgentRun
	require.NoError(t, r.Client.Get(t.Context(), key, &run))
	return &run, result
}

// A success has no message, and an Event without words reads like a mistake.
func TestTheEventOfAnEndHasWords(t *testing.T) {
	for message, told := range map[string]string{"": "Normal Completed the run has ended", "it was late": "Normal Completed it was late"} {
		r := reconciler(t, standingRun())
		run, _ := look(t, r)
		status := run.DeepCopy().Status
		status.Phase, status.Reason, status.Message, status.CompletionTime = v1alpha1.PhaseSucceeded, v1alpha1.ReasonCompleted, message, &metav1.MicroTime{Time: now}
		require.NoError(t, r.write(t.Context(), run, status))
		assert.Equal(t, told, <-r.Events.(*events.FakeRecorder).Events)
	}
}

// A Secret of the run's name that somebody else made could be known to anybody: no Pod starts with it.
func TestAForeignSecretIsNotUsed(t *testing.T) {
	foreign := BuildSecret(standingRun(), "known to somebody")
	foreign.OwnerReferences = nil
	r := reconciler(t, standingRun(), foreign)
	run, result := look(t, r)
	succeeded := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
	require.NotNil(t, succeeded)
	assert.Equal(t, v1alpha1.ReasonPodNotRunning, succeeded.Reason)
	assert.Equal(t, "Secret reviewer-1-01234567-harness exists and is not this run's: delete it", succeeded.Message)
	assert.Equal(t, lookAgain, result.RequeueAfter)
	assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &corev1.Pod{})))

	require.NoError(t, r.Client.Delete(t.Context(), foreign))
	run, _ = look(t, r)
	assert.Equal(t, "reviewer-1", run.Status.PodName, "the next look works")
}

// The controller ended between the Secret and the Pod: the Secret is the run's own, and stays as it is.
func TestTheRunsOwnSecretIsUsedAgain(t *testing.T) {
	r := reconciler(t, standingRun(), BuildSecret(standingRun(), "made before"))
	run, _ := look(t, r)
	assert.Equal(t, "reviewer-1", run.Status.PodName)
	var secret corev1.Secret
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "reviewer-1-01234567-harness"}, &secret))
	assert.Equal(t, "made before", string(secret.Data["token"]))
}

// SPEC.md, Resources: the keys for people are the Agent's. A recast finds them as they were; those of another owner are not used.
func TestAnAgentsKeysStayTheSame(t *testing.T) {
	r := reconciler(t, standingRun())
	_, _ = look(t, r)
	values := map[string]string{}
	for _, name := range []string{"reviewer-acp-view", "reviewer-acp-steer"} {
		var secret corev1.Secret
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &secret))
		assert.True(t, *secret.Immutable)
		assert.Equal(t, []any{"Agent", standingRun().Spec.AgentRef.UID}, []any{secret.OwnerReferences[0].Kind, secret.OwnerReferences[0].UID})
		values[name] = string(secret.Data["secret-key"])
		assert.Len(t, values[name], 43)
	}
	assert.NotEqual(t, values["reviewer-acp-view"], values["reviewer-acp-steer"])

	again := standingRun()
	again.Name, again.UID = "reviewer-2", "another"
	require.NoError(t, r.Client.Create(t.Context(), again))
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(again)})
	require.NoError(t, err)
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(again), &corev1.Pod{}))
	var secret corev1.Secret
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "reviewer-acp-view"}, &secret))
	assert.Equal(t, values["reviewer-acp-view"], string(secret.Data["secret-key"]))

	foreign := BuildKey(standingRun(), "reviewer-acp-steer", "known to somebody")
	foreign.OwnerReferences[0].UID = "an Agent of this name before"
	run, _ := look(t, reconciler(t, standingRun(), foreign))
	succeeded := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
	assert.Equal(t, "Secret reviewer-acp-steer exists and is not this Agent's: delete it", succeeded.Message)
}

// An Agent was made again under the name while a one-shot run of the one before waited: the run goes on, and the new Agent's people do
// not get into its Pod.
func TestAOneShotRunDoesWithoutTheKeysOfAnotherAgent(t *testing.T) {
	for _, others := range []string{"reviewer-acp-view", "reviewer-acp-steer"} {
		foreign := BuildKey(oneShotRun(), others, "another Agent's")
		foreign.OwnerReferences[0].UID = "an Agent of this name after"
		r := reconciler(t, oneShotRun(), foreign)
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(oneShotRun())})
		require.NoError(t, err)
		var made corev1.Pod
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(oneShotRun()), &made), others)
		for _, e := range made.Spec.Containers[0].Env {
			assert.NotContains(t, []string{pod.EnvViewKey, pod.EnvSteerKey}, e.Name)
		}
	}
}

// The cache shows a run that never had a Pod; the API server knows that it had one. One run never has two.
func TestAStaleRunMakesNothing(t *testing.T) {
	r := reconciler(t, standingRun())
	r.Live = reconciler(t, runWith(seen)).Client
	_, result := look(t, r)
	assert.Equal(t, lookSoon, result.RequeueAfter)
	var made corev1.PodList
	require.NoError(t, r.Client.List(t.Context(), &made))
	assert.Empty(t, made.Items)
}

// I1, fault row 7: what happens to a run while its Secrets are made counts. It is cancelled here, is given a Pod by another controller,
// or goes: no Pod is made, and none of that is an error.
func TestARunThatChangesBeforeItsPodIsMadeGetsNone(t *testing.T) {
	for name, change := range map[string]func(*testing.T, client.Client, *v1alpha1.AgentRun){
		"cancelled": func(t *testing.T, c client.Client, run *v1alpha1.AgentRun) {
			t.Helper()
			run.Spec.Cancel = true
			require.NoError(t, c.Update(t.Context(), run))
		},
		"has had a Pod": func(t *testing.T, c client.Client, run *v1alpha1.AgentRun) {
			t.Helper()
			run.Status.PodUID = "of another controller"
			require.NoError(t, c.Status().Update(t.Context(), run))
		},
		"deleted": func(t *testing.T, c client.Client, run *v1alpha1.AgentRun) {
			t.Helper()
			require.NoError(t, c.Delete(t.Context(), run))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := reconciler(t, standingRun())
			key := client.ObjectKeyFromObject(standingRun())
			r.Random = meanwhile(func() {
				var run v1alpha1.AgentRun
				if r.Client.Get(t.Context(), key, &run) == nil && run.ResourceVersion == "999" {
					change(t, r.Client, &run)
				}
			})
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			require.NoError(t, err)
			assert.Equal(t, lookSoon, result.RequeueAfter)
			assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), key, &corev1.Pod{})))
		})
	}
}

// meanwhile is a source of random before which something happens.
type meanwhile func()

func (f meanwhile) Read(b []byte) (int, error) { f(); return rand.Read(b) }

// Without a Secret there is no Pod.
func TestASourceOfRandomThatFailsMakesNothing(t *testing.T) {
	r := reconciler(t, standingRun())
	r.Random = broken{}
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(standingRun())})
	require.ErrorContains(t, err, "make the root secret")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, assert.AnError }
