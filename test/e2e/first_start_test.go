//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
	double "github.com/hearthdev/hearth/test/sandbox"
)

const (
	webhookSecret        = "hearth-webhook-certificate" //nolint:gosec // a name
	webhookConfiguration = "hearth-admission"
	// saysNoController is in what a user reads who makes a run while no controller is there (docs/operating.md).
	saysNoController = `failed calling webhook "resolve.agentruns.hearth.dev"`
	// noWatchList has client-go list before it watches, as it does with API servers that have no streaming lists.
	noWatchList = "KUBE_FEATURE_WatchListClient"
)

// TestControllerStartsFromNothing: with its certificate, the authority in the webhook configurations and its lease gone, and an API
// server that has no streaming lists but has Sandboxes, the controller makes what it needs by itself and with the rights it has. It is
// started with the component config/ad-hoc, so that what that allows and grants is used, too.
func TestControllerStartsFromNothing(t *testing.T) {
	r := newRoom(t, "first-start")
	r.readyAgent(reviewer, nil)
	r.adHocIsOff()
	var before appsv1.Deployment
	key := client.ObjectKey{Namespace: cluster.SystemNamespace, Name: cluster.ControllerAccount}
	require.NoError(t, suite.Client.Get(t.Context(), key, &before))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		assert.NoError(t, redeploy(ctx, key, before.Spec))
		assert.NoError(t, suite.WaitAvailable(ctx, key))
	})

	stopped := *before.Spec.DeepCopy()
	stopped.Replicas = ptr.To[int32](0)
	require.NoError(t, redeploy(t.Context(), key, stopped))
	r.wait("the controller to end", shortly, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := suite.Client.List(ctx, &pods, client.InNamespace(cluster.SystemNamespace), client.MatchingLabels(before.Spec.Selector.MatchLabels))
		return err == nil && len(pods.Items) == 0, fmt.Sprintf("%d Pods", len(pods.Items)), err
	})
	err := suite.Client.Create(t.Context(), r.sparse("nobody-there", reviewer, map[string]string{"task": "say: hello"}))
	require.ErrorContains(t, err, saysNoController)
	assert.Empty(t, r.watched.of("nobody-there"), "admission fails closed")
	secret, mutating, validating, lease := r.forgetTheController()

	older := *before.Spec.DeepCopy()
	env := &older.Template.Spec.Containers[0].Env
	*env = append(*env, corev1.EnvVar{Name: noWatchList, Value: "false"})
	r.withAdHoc(&older)
	r.sandboxesAreThere()
	require.NoError(t, redeploy(t.Context(), key, older))
	require.NoError(t, suite.WaitAvailable(t.Context(), key))
	require.NoError(t, suite.WaitAdmission(t.Context()))

	for _, object := range []client.Object{secret, mutating, validating} {
		require.NoError(t, suite.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}
	authority := secret.Data["ca.crt"]
	require.NotEmpty(t, authority)
	for _, webhook := range mutating.Webhooks {
		assert.Equal(t, string(authority), string(webhook.ClientConfig.CABundle), webhook.Name)
	}
	for _, webhook := range validating.Webhooks {
		assert.Equal(t, string(authority), string(webhook.ClientConfig.CABundle), webhook.Name)
	}
	r.succeeds("first", reviewer)
	r.listsSandboxes()
	r.adHocIsForThoseWhoMakePods()
	require.NoError(t, suite.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease))
	assert.NotEmpty(t, ptr.Deref(lease.Spec.HolderIdentity, ""), "somebody leads")
}

// sandboxesAreThere installs the kind, until the test ends, without anybody who makes Pods of it.
func (r *room) sandboxesAreThere() {
	r.t.Helper()
	if r.sandboxesOfOthers() {
		return
	}
	require.NoError(r.t, double.Install(r.t.Context(), suite.Config))
	r.t.Cleanup(func() { assert.NoError(r.t, double.Uninstall(context.WithoutCancel(r.t.Context()), suite.Config)) })
}

// listsSandboxes: the controller found the kind, so it lists it, as it does nowhere else: with streaming lists it only watches.
func (r *room) listsSandboxes() {
	r.t.Helper()
	r.agent("boxed", func(spec *hearthv1.AgentSpec) { spec.Backend = hearthv1.BackendSandbox })
	r.await(r.standing("boxed").Name, "to wait for its Sandbox", shortly, func(run *hearthv1.AgentRun) bool {
		return strings.Contains(succeeded(run).Message, "has no condition yet")
	})
}

// forgetTheController takes away all that an earlier controller wrote for itself.
func (r *room) forgetTheController() (*corev1.Secret, *admissionregistrationv1.MutatingWebhookConfiguration,
	*admissionregistrationv1.ValidatingWebhookConfiguration, *coordinationv1.Lease) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.SystemNamespace, Name: webhookSecret}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfiguration}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfiguration}}
	for _, object := range []client.Object{secret, mutating, validating} {
		require.NoError(r.t, suite.Client.Get(r.t.Context(), client.ObjectKeyFromObject(object), object))
	}
	secret.Data = nil
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = nil
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = nil
	}
	for _, object := range []client.Object{secret, mutating, validating} {
		require.NoError(r.t, suite.Client.Update(r.t.Context(), object))
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.SystemNamespace, Name: cluster.ControllerAccount}}
	require.NoError(r.t, suite.Client.Delete(r.t.Context(), lease))
	return secret, mutating, validating, lease
}

// redeploy gives a Deployment that spec.
func redeploy(ctx context.Context, key client.ObjectKey, spec appsv1.DeploymentSpec) error {
	var now appsv1.Deployment
	if err := suite.Client.Get(ctx, key, &now); err != nil {
		return err
	}
	changed := now.DeepCopy()
	changed.Spec = spec
	return suite.Client.Patch(ctx, changed, client.StrategicMergeFrom(&now))
}
