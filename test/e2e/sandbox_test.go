//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/test/cluster"
	double "github.com/hearthdev/hearth/test/sandbox"
)

const (
	sandboxCRD = "sandboxes.agents.x-k8s.io"
	// hold keeps a deleted Sandbox readable.
	hold = "e2e.hearth.test/hold"
)

// TestSandbox is R13 with the double of test/sandbox and a real kubelet: the kind appears after the controller started; a standing run
// in a Sandbox is delivered to, and so is the goal of a Task; a Pod that terminates does not count, though its Sandbox reads Ready; one
// that comes back under the same name is another one.
func TestSandbox(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "sandbox")
	r.withoutSandboxes()
	inSandbox := func(spec *hearthv1.AgentSpec) {
		spec.Backend = hearthv1.BackendSandbox
		spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](50) // of which work may go on for fifteen seconds
	}
	r.agent(reviewer, inSandbox)
	r.task(worker, inSandbox)
	r.ask("one-shot", worker, "say: boxed")
	for _, name := range []string{r.standing(reviewer).Name, "one-shot"} {
		blocked := r.await(name, "to wait for the kind", shortly, func(run *hearthv1.AgentRun) bool { return succeeded(run).Message == sandbox.Missing })
		assert.Equal(t, hearthv1.ReasonPodNotRunning, succeeded(blocked).Reason)
		assert.Equal(t, hearthv1.PhasePending, blocked.Status.Phase)
	}
	r.playSandboxes()

	standing := r.standing(reviewer).Name
	flip, err := r.watched.first(t.Context(), patiently, func(run *hearthv1.AgentRun) bool {
		return run.Name == standing && acpReady(run).Status == metav1.ConditionTrue
	})
	require.NoError(t, err)
	pod := r.pod(reviewer)
	require.NoError(t, r.dial(t.Context(), pod, flip.run.Status.Address), "the first dial after ACPReady turned True")
	r.nameLeadsTo(pod, flip.at)
	assert.True(t, metav1.IsControlledBy(pod, r.sandboxOf(standing)), "the Sandbox made it")
	assert.Equal(t, pod.UID, flip.run.Status.PodUID)
	r.succeeds("delivered", reviewer)

	r.terminatesWhileReady(standing, pod)
	next := r.standing(reviewer).Name
	assert.NotEqual(t, standing, next, "a standing run of its own for the next Pod")
	r.waitReady(reviewer)
	r.succeeds("after-the-recast", reviewer)

	// Its Pod is deleted at once: the double makes another one of that name as soon as it sees it.
	pod = r.pod(reviewer)
	require.NoError(t, suite.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	ended := r.ended(next, patiently)
	assert.Equal(t, hearthv1.ReasonPodFailed, ended.Status.Reason, ended.Status.Message)
	assert.Equal(t, pod.UID, ended.Status.PodUID, "it never took another Pod for its own")
	assert.Equal(t, hearthv1.ReasonFinished, acpReady(ended).Reason)
	r.waitReady(reviewer)
	r.succeeds("after-the-replacement", reviewer)

	agent := r.readAgent(reviewer)
	require.NoError(t, suite.Client.Delete(t.Context(), agent))
	r.waitGone("what the Agent owned", func(ctx context.Context) ([]string, error) {
		var left []string
		var boxes sandbox.SandboxList
		if err := r.boxes().List(ctx, &boxes, client.InNamespace(r.namespace)); err != nil {
			return nil, err
		}
		for _, box := range boxes.Items {
			if box.Name != "one-shot" {
				left = append(left, box.Name)
			}
		}
		return left, nil
	})
	run := r.ended("one-shot", patiently)
	assert.Equal(t, hearthv1.ReasonCompleted, run.Status.Reason, run.Status.Message)
	require.NotNil(t, run.Status.Output)
	assert.Equal(t, "boxed", run.Status.Output.Value)
}

// terminatesWhileReady deletes the Pod while it has work: its Sandbox reads Ready on, and the run does not.
func (r *room) terminatesWhileReady(standing string, pod *corev1.Pod) {
	r.t.Helper()
	ctx := r.t.Context()
	box := r.sandboxOf(standing)
	before := box.DeepCopy()
	controllerutil.AddFinalizer(box, hold)
	require.NoError(r.t, r.boxes().Patch(ctx, box, client.MergeFrom(before)))
	letGo := func() error {
		return r.boxes().Patch(context.WithoutCancel(ctx), box, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	}
	r.t.Cleanup(func() { _ = letGo() }) // also when it fails half-way: else the kind cannot be removed
	held := r.hold(reviewer, "in-flight")
	deleted := time.Now()
	require.NoError(r.t, suite.Client.Delete(ctx, pod))
	flip, err := r.watched.firstAfter(ctx, deleted, shortly, func(run *hearthv1.AgentRun) bool {
		return run.Name == standing && acpReady(run).Status == metav1.ConditionFalse
	})
	require.NoError(r.t, err)
	assert.Equal(r.t, hearthv1.ReasonNotListening, acpReady(flip.run).Reason)
	now := r.sandboxOf(standing)
	ready := cluster.Condition(now.Status.Conditions, double.Ready)
	assert.Equal(r.t, metav1.ConditionTrue, ready.Status, "the Sandbox of a Pod that terminates reads Ready: %s", ready.Message)
	require.NoError(r.t, letGo())
	r.release(held) // work goes on in the grace period
	ended := r.ended(standing, patiently)
	assert.Equal(r.t, pod.UID, ended.Status.PodUID)
	assert.Equal(r.t, hearthv1.ReasonFinished, acpReady(ended).Reason)
}

// withoutSandboxes takes away what an earlier double left, so that the time before the kind appears is seen. Sandboxes that are none of
// ours stay, and the case is skipped.
func (r *room) withoutSandboxes() {
	r.t.Helper()
	if r.sandboxesOfOthers() {
		r.t.Skip("SKIPPED, NOT PASSED: this cluster has Sandboxes of its own, and a controller that the double would be in the way of")
	}
	require.NoError(r.t, double.Uninstall(r.t.Context(), suite.Config))
}

// sandboxesOfOthers: the cluster has the kind, and not from the double.
func (r *room) sandboxesOfOthers() bool {
	r.t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	err := suite.Client.Get(r.t.Context(), client.ObjectKey{Name: sandboxCRD}, &crd)
	require.NoError(r.t, client.IgnoreNotFound(err))
	return err == nil && !slices.ContainsFunc(crd.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == double.FieldOwner })
}

// playSandboxes installs the kind and runs the double until the test ends.
func (r *room) playSandboxes() {
	r.t.Helper()
	require.NoError(r.t, double.Install(r.t.Context(), suite.Config))
	mgr, err := ctrl.NewManager(suite.Config, ctrl.Options{
		Scheme: boxScheme(r.t), Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&sandbox.Sandbox{}, &corev1.Pod{}, &corev1.Service{}}}},
	})
	require.NoError(r.t, err)
	require.NoError(r.t, (&double.Double{Client: mgr.GetClient()}).SetupWithManager(mgr))
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.t.Cleanup(func() {
		stop()
		assert.NoError(r.t, <-ended)
		assert.NoError(r.t, double.Uninstall(context.WithoutCancel(r.t.Context()), suite.Config))
	})
}

func boxScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, sandbox.AddToScheme(scheme))
	return scheme
}

// boxes is a client that knows Sandboxes.
func (r *room) boxes() client.Client {
	r.t.Helper()
	c, err := client.New(suite.Config, client.Options{Scheme: boxScheme(r.t)})
	require.NoError(r.t, err)
	return c
}

func (r *room) sandboxOf(run string) *sandbox.Sandbox {
	r.t.Helper()
	var box sandbox.Sandbox
	require.NoError(r.t, r.boxes().Get(r.t.Context(), r.key(run), &box))
	return &box
}
