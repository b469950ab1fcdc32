package sandbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/test/apiserver/room"
	double "github.com/hearthdev/hearth/test/sandbox"
)

// R13: Agent → standing run → Secret and Sandbox → Pod and Service; ACPReady with the Pod's address, once both are Ready. The Pod terminates
// (a Sandbox stays Ready): not Listening, and no other Pod comes in its place, but another run.
func TestAStandingRunOfASandbox(t *testing.T) {
	w := newWorld(t)
	w.agent("reviewer")
	p := w.Pod("reviewer-1")
	s, r := w.theSandbox("reviewer-1"), w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool { return r.Status.PodUID == p.UID })
	assert.True(t, metav1.IsControlledBy(s, r))
	assert.True(t, metav1.IsControlledBy(p, s))
	assert.Equal(t, "reviewer-1", p.Labels[v1alpha1.LabelRun])
	assert.Empty(t, s.Finalizers)
	w.Eventually("its Service", func(ctx context.Context) bool { return w.Get(ctx, w.Key("reviewer-1"), &corev1.Service{}) == nil })

	w.Kubelet("reviewer-1", func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning })
	w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool {
		return r.Status.Phase == v1alpha1.PhaseRunning && !room.IsListening(r)
	})
	w.failing.Store(true)
	w.Kubelet("reviewer-1", room.Listens)
	w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool { return acpSays(r) == "Error seen: not now" && !room.IsListening(r) })
	w.failing.Store(false)
	r = w.Run("reviewer-1", room.IsListening)
	assert.Equal(t, "10.77.0.9:4000", r.Status.Address)

	require.NoError(t, w.Delete(t.Context(), p))
	r = w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool { return !room.IsListening(r) })
	assert.Equal(t, "Pod reviewer-1 is terminating", acpSays(r))
	w.Gone(s) // before the Pod is
	require.NoError(t, w.Get(t.Context(), w.Key("reviewer-1"), p))
	w.Remove(p)
	r = w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, []any{v1alpha1.ReasonPodFailed, "the Pod was deleted"}, []any{r.Status.Reason, r.Status.Message})
	w.Pod("reviewer-2")
}

// A Sandbox's Pod comes back under the same name: that is another Pod. The run ends, and so does the Sandbox.
func TestAPodThatCameBackIsAnother(t *testing.T) {
	w := newWorld(t)
	w.agent("reviewer")
	w.Kubelet("reviewer-1", room.Listens)
	r := w.Run("reviewer-1", room.IsListening)
	p, s := w.Pod("reviewer-1"), w.theSandbox("reviewer-1")
	w.Remove(p) // at once, as with a node that is lost
	ended := w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, []any{v1alpha1.ReasonPodFailed, r.Status.PodUID}, []any{ended.Status.Reason, ended.Status.PodUID})
	w.Gone(s)
	w.Pod("reviewer-2")
	assert.False(t, room.IsListening(ended))
}

// The Pod ends: its own termination decides, and the Sandbox goes, or it would start the work again when the Pod is cleaned away.
func TestAOneShotRunOfASandboxEndsOnce(t *testing.T) {
	w := newWorld(t)
	w.oneShot("task-1")
	w.Kubelet("task-1", room.Listens)
	r := w.Run("task-1", room.IsListening)
	s := w.theSandbox("task-1")
	w.Kubelet("task-1", func(s *corev1.PodStatus) {
		s.Phase, s.ContainerStatuses[0].State = corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			StartedAt: metav1.NewTime(time.Unix(1, 0)), FinishedAt: metav1.NewTime(time.Unix(31, 0))}}
	})
	ended := w.Run("task-1", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, []any{v1alpha1.PhaseSucceeded, r.Status.PodUID}, []any{ended.Status.Phase, ended.Status.PodUID})
	assert.Equal(t, time.Unix(31, 0).UTC(), ended.Status.CompletionTime.UTC())
	w.Gone(s)
	w.Gone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "task-1", UID: ended.Status.PodUID}})
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), w.Key("task-1"), &corev1.Pod{})), "it did not come back")
}

// R9: cancel ends a Sandbox that is pending, and so does the deletion of its run; each waits for nobody.
func TestAPendingSandboxEndsWithItsRun(t *testing.T) {
	w := newWorld(t)
	w.oneShot("cancelled")
	w.oneShot("deleted")
	s, other := w.theSandbox("cancelled"), w.theSandbox("deleted")
	r := w.Run("cancelled", room.HasPod)
	require.Equal(t, v1alpha1.PhasePending, r.Status.Phase)
	require.NoError(t, w.Patch(t.Context(), r, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))))
	w.Gone(s)
	w.Remove(w.Terminating("cancelled"))
	assert.Equal(t, v1alpha1.ReasonCancelled, w.Run("cancelled", (*v1alpha1.AgentRun).Ended).Status.Reason)

	require.NoError(t, w.Delete(t.Context(), w.Run("deleted", room.Exists)))
	w.Gone(other)
}

// A Sandbox that somebody deletes takes its Pod along, though nobody collects it.
func TestASandboxThatSomebodyDeletedEndsItsRun(t *testing.T) {
	w := newWorld(t)
	w.agent("reviewer")
	w.Kubelet("reviewer-1", room.Listens)
	w.Run("reviewer-1", room.IsListening)
	s := w.theSandbox("reviewer-1")
	require.NoError(t, w.Delete(t.Context(), s, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	s.Finalizers = nil // the garbage collector's part in orphaning
	w.Eventually("the Sandbox to be orphaned and gone", func(ctx context.Context) bool {
		return client.IgnoreNotFound(w.Patch(ctx, s, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))) == nil
	})
	w.Gone(s)
	w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool { return !room.IsListening(r) })
	w.Remove(w.Terminating("reviewer-1"))
	assert.Equal(t, v1alpha1.ReasonPodFailed, w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended).Status.Reason)
	w.Pod("reviewer-2")
}

// Nothing of the name that is not the run's own is adopted: the run waits, and says so.
func TestAForeignSandboxOrPodOfTheNameIsNotAdopted(t *testing.T) {
	w := newWorld(t)
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i"}}}}
	s, p := sandbox.Build(bare), bare.DeepCopy()
	s.Name, p.Name = "taken", "occupied"
	require.NoError(t, w.Create(t.Context(), s))
	require.NoError(t, w.Create(t.Context(), p))
	w.Kubelet("taken", room.Listens)
	w.oneShot("taken")
	w.oneShot("occupied")
	r := w.Run("taken", waitsBecause("Sandbox taken exists and is not this run's: delete it"))
	assert.Empty(t, r.Status.PodUID)
	w.Run("occupied", waitsBecause("Pod occupied exists and is not this run's"))
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), w.Key("occupied"), &sandbox.Sandbox{})), "a Sandbox could adopt the Pod")

	foreign := w.Pod("taken") // before its Sandbox goes: then another may have the name
	require.NoError(t, w.Delete(t.Context(), s))
	require.NoError(t, w.Delete(t.Context(), p))
	w.Remove(foreign)
	for _, name := range []string{"taken", "occupied"} {
		r := w.Run(name, room.HasPod)
		assert.True(t, metav1.IsControlledBy(w.theSandbox(name), r))
	}
}

// The kind is optional: without it a run waits and says what to install, other runs work, and it is noticed when it comes, and
// survived when it goes. With a list of namespaces, too.
func TestTheKindComesLaterAndGoesAgain(t *testing.T) {
	for name, namespaces := range map[string][]string{"all namespaces": nil, "a few": {}} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, double.Uninstall(t.Context(), server.Admin(t)))
			w := bareWorld(t, namespaces)
			w.agent("reviewer")
			r := w.Run("reviewer-1", waitsBecause(sandbox.Missing))
			assert.Equal(t, v1alpha1.PhasePending, r.Status.Phase)
			assert.Empty(t, r.Status.PodName)
			w.agent("plain", func(a *v1alpha1.Agent) { a.Spec.Backend = v1alpha1.BackendPod })
			w.Eventually("a Pod of another run", func(ctx context.Context) bool {
				var pods corev1.PodList
				return w.List(ctx, &pods, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelAgent: "plain"}) == nil && len(pods.Items) == 1
			})

			require.NoError(t, double.Install(t.Context(), server.Admin(t)))
			w.double()
			w.look()
			p := w.Pod("reviewer-1")
			w.Run("reviewer-1", func(r *v1alpha1.AgentRun) bool { return r.Status.PodUID == p.UID })
			w.Kubelet("reviewer-1", room.Listens)
			w.Run("reviewer-1", room.IsListening) // the Sandbox's own event woke it

			require.NoError(t, double.Uninstall(t.Context(), server.Admin(t)))
			w.look()
			w.Remove(p)
			w.Run("reviewer-1", (*v1alpha1.AgentRun).Ended)
			w.Run("reviewer-2", waitsBecause(sandbox.Missing))
			require.NoError(t, double.Install(t.Context(), server.Admin(t)))
			w.look()
			assert.Equal(t, ptr.To(true), w.theSandbox("reviewer-2").Spec.Service)
		})
	}
}

// look lets the Presence look, and waits until it has.
func (w *world) look() {
	w.t.Helper()
	for range 2 { // the second is taken only after the first led to something
		select {
		case w.looks <- time.Now():
		case <-time.After(room.Patience):
			w.t.Fatal("nobody looks for the kind")
		}
	}
}
