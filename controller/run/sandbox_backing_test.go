package run

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// served reads Sandboxes of a fake API server that has the kind, or not.
type served struct {
	client.Reader
	absent, noKind bool
}

func (s *served) Absent() bool          { return s.absent }
func (s *served) Source() source.Source { return nil }
func (s *served) Get(ctx context.Context, key client.ObjectKey) (*sandbox.Sandbox, error) {
	return s.Live(ctx, key)
}

func (s *served) Live(ctx context.Context, key client.ObjectKey) (*sandbox.Sandbox, error) {
	if s.absent || s.noKind {
		return nil, sandbox.ErrNoKind
	}
	var found sandbox.Sandbox
	err := s.Reader.Get(ctx, key, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &found, err
}

func sandboxRun() *v1alpha1.AgentRun {
	return runWith(func(r *v1alpha1.AgentRun) { r.Spec.Backend = v1alpha1.BackendSandbox })
}

func sandboxReconciler(t *testing.T, objects ...client.Object) (*Reconciler, *served) {
	t.Helper()
	r := reconciler(t, objects...)
	s := &served{Reader: r.Client}
	r.Sandboxes = s
	return r, s
}

func requestFor(o client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

func saysOf(run *v1alpha1.AgentRun) string {
	return meta.FindStatusCondition(run.Status.Conditions, v1alpha1.AgentRunConditionSucceeded).Message
}

// R13: the Sandbox is made once, with the run's Secret, and no Pod beside it.
func TestASandboxIsMadeOnce(t *testing.T) {
	r, _ := sandboxReconciler(t, sandboxRun())
	run, _ := look(t, r)
	assert.Equal(t, []any{"reviewer-1", ""}, []any{run.Status.PodName, string(run.Status.PodUID)})
	var s sandbox.Sandbox
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &s))
	assert.True(t, sandbox.OwnedBy(&s, run.UID))
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "reviewer-1-01234567-harness"}, &corev1.Secret{}))
	assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &corev1.Pod{})))

	require.NoError(t, r.Client.Delete(t.Context(), &s))
	run, _ = look(t, r)
	assert.Equal(t, []any{v1alpha1.ReasonPodFailed, "the Sandbox was deleted"}, []any{run.Status.Reason, run.Status.Message})
	_, _ = look(t, r)
	assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &s)), "and never again")
}

// While the kind is missing nothing is made, not even the Secret, and the run is looked at again.
func TestARunWaitsForTheKind(t *testing.T) {
	for name, set := range map[string]func(*Reconciler, *served){
		"as far as is known":      func(_ *Reconciler, s *served) { s.absent = true },
		"as the API server says":  func(_ *Reconciler, s *served) { s.noKind = true },
		"no Sandboxes are set up": func(r *Reconciler, _ *served) { r.Sandboxes = nil },
	} {
		r, s := sandboxReconciler(t, sandboxRun())
		set(r, s)
		run, result := look(t, r)
		assert.Equal(t, sandbox.Missing, saysOf(run), name)
		assert.Equal(t, lookAgain, result.RequeueAfter, name)
		assert.Empty(t, run.Status.PodName, name)
		err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "reviewer-1-01234567-harness"}, &corev1.Secret{})
		assert.Equal(t, !s.noKind, apierrors.IsNotFound(err), name)
		s.absent, s.noKind, r.Sandboxes = false, false, s
		run, _ = look(t, r)
		assert.Equal(t, "reviewer-1", run.Status.PodName, name)
	}
}

// A kind that is not served does not prove that a Sandbox is gone: a Pod whose Sandbox would make another is not deleted.
func TestAPodIsLeftAloneWhileNobodyKnowsOfItsSandbox(t *testing.T) {
	o := sandboxed(Observed{Run: runWith(seen), Pod: livePod()})
	r, s := sandboxReconciler(t, o.Run, o.Pod)
	s.noKind = true
	run, _ := look(t, r)
	assert.Nil(t, run.Status.CompletionTime)
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &corev1.Pod{}))
	s.noKind = false
	_, _ = look(t, r)
	assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &corev1.Pod{})), "its Sandbox is gone: so it ends")
}

// R9: what an earlier run of the name left is ended; what a living run has, and what is nobody's, is not.
func TestTheSandboxOfARunThatIsGoneEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sandbox.Sandbox)
		ends   bool
	}{
		"of the run that is gone": {func(*sandbox.Sandbox) {}, true},
		"of nobody":               {func(s *sandbox.Sandbox) { s.OwnerReferences = nil }, false},
		"of another kind":         {func(s *sandbox.Sandbox) { s.OwnerReferences[0].APIVersion = "example.com/v1" }, false},
	} {
		s := theSandbox(sandboxRun())
		c.change(s)
		r, _ := sandboxReconciler(t, s)
		_, err := r.Reconcile(t.Context(), requestFor(s))
		require.NoError(t, err)
		err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(s), &sandbox.Sandbox{})
		assert.Equal(t, c.ends, apierrors.IsNotFound(err), name)
	}
	s := theSandbox(sandboxRun())
	r, served := sandboxReconciler(t, s)
	r.Live = reconciler(t, sandboxRun()).Client // the cache is behind
	served.Reader = r.Client
	_, err := r.Reconcile(t.Context(), requestFor(s))
	require.NoError(t, err)
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(s), &sandbox.Sandbox{}))
}

// The Pod of a Sandbox wakes its run, as a run's own does; one of nobody wakes nobody.
func TestAPodOfASandboxWakesItsRun(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{"of a Sandbox": sandboxed(Observed{Run: standingRun(), Pod: livePod()}).Pod, "of a run": livePod()} {
		key, ok := runOf(p)
		assert.True(t, ok, name)
		assert.Equal(t, "team/reviewer-1", key.String(), name)
	}
	_, ok := runOf(podWith(func(p *corev1.Pod) { p.OwnerReferences = nil }))
	assert.False(t, ok)
}

// A foreign Pod of the name could be adopted by a Sandbox: none is made. A foreign Sandbox is not used.
func TestAForeignPodOrSandboxIsInTheWay(t *testing.T) {
	foreign := podWith(func(p *corev1.Pod) { p.OwnerReferences = nil })
	r, _ := sandboxReconciler(t, sandboxRun(), foreign)
	run, result := look(t, r)
	assert.Equal(t, "Pod reviewer-1 exists and is not this run's", saysOf(run))
	assert.Equal(t, lookAgain, result.RequeueAfter)
	assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &sandbox.Sandbox{})))
	require.NoError(t, r.Client.Delete(t.Context(), foreign))
	run, _ = look(t, r)
	assert.Equal(t, "reviewer-1", run.Status.PodName, "the next look works")

	theirs := theSandbox(sandboxRun())
	theirs.OwnerReferences = nil
	r, _ = sandboxReconciler(t, sandboxRun(), theirs)
	run, _ = look(t, r)
	assert.Equal(t, "Sandbox reviewer-1 exists and is not this run's: delete it", saysOf(run))
	assert.Empty(t, run.Status.PodName)
}
