//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/cluster"
)

// TestUninstall: with the commands of docs/install.md an installation goes and its records stay, and with them what runs; the next
// installation picks them up. The last one takes everything with it.
func TestUninstall(t *testing.T) {
	r := newRoom(t, "uninstall")
	r.reinstalls(t)
	r.watched.mayEnd()
	r.readyAgent(reviewer, nil)
	r.succeeds("recorded", reviewer)
	standing := r.pod(reviewer).UID
	held := r.hold(reviewer, "in-flight")

	manifest := filepath.Join(suite.root, "dist", "install.yaml")
	administer(t, "delete", "--ignore-not-found", "-f", manifest, "-l", "app.kubernetes.io/component!=records")
	r.onlyRecordsAreLeft()
	assert.NotEmpty(t, r.kubectl("get", "agentrun", "recorded", "-o", "name"))

	require.NoError(t, suite.Install(t.Context(), suite.root, suite.digests))
	r.release(held)
	r.succeeds("after", reviewer)
	assert.Equal(t, standing, r.pod(reviewer).UID)

	r.watched.over()
	administer(t, "delete", "--ignore-not-found", "-f", manifest)
	assert.Empty(t, r.installed(), "everything is gone")
	for _, kind := range []string{"agents", "agentruns"} {
		err := suite.Client.Get(t.Context(), client.ObjectKey{Name: kind + ".hearth.dev"}, &apiextensionsv1.CustomResourceDefinition{})
		assert.True(t, apierrors.IsNotFound(err), "%s: %v", kind, err)
	}
	r.wait("its Pods and Secrets to go", patiently, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := suite.Client.List(ctx, &pods, client.InNamespace(r.namespace))
		return err == nil && len(pods.Items) == 0, "", err
	})
}

// TestHelmFollowsAnotherInstallation, with the commands of docs/install.md: after kubectl took an installation away, helm installs, its
// test passes, and what ran goes on; after helm uninstall only records are left, and what runs, which the next installation picks up.
func TestHelmFollowsAnotherInstallation(t *testing.T) {
	if os.Getenv("HEARTH_SLOW") == "" {
		t.Skip("HEARTH_SLOW is not set: make slow does it")
	}
	helm := helmProgram(t)
	r := newRoom(t, "helm")
	r.reinstalls(t)
	r.watched.mayEnd()
	r.readyAgent(reviewer, nil)
	standing := r.pod(reviewer).UID
	held := r.hold(reviewer, "in-flight")
	administer(t, "delete", "--ignore-not-found", "-f", filepath.Join(suite.root, "dist", "install.yaml"), "-l", "app.kubernetes.io/component!=records")

	chart := filepath.Join(suite.root, "charts", "hearth")
	helm("install", "hearth", chart, "-n", cluster.SystemNamespace, "--create-namespace", "--take-ownership", "--wait", "--timeout", "2m")
	helm("test", "hearth", "-n", cluster.SystemNamespace)
	assert.Equal(t, standing, r.pod(reviewer).UID, "what ran goes on")
	r.release(held)
	again := r.hold(reviewer, "in-flight-again")
	helm("uninstall", "hearth", "-n", cluster.SystemNamespace, "--wait", "--timeout", "2m")
	administer(t, "delete", "namespace", cluster.SystemNamespace)
	r.onlyRecordsAreLeft()

	require.NoError(t, suite.Install(t.Context(), suite.root, suite.digests))
	r.release(again)
	assert.Equal(t, standing, r.pod(reviewer).UID)
}

// administer is kubectl of no namespace.
func administer(t *testing.T, args ...string) {
	t.Helper()
	_, problems, err := suite.Kubectl(t.Context(), suite.root, "", args...)
	require.NoError(t, err, problems)
}

// onlyRecordsAreLeft: the CRDs are there, and nothing else of an installation.
func (r *room) onlyRecordsAreLeft() {
	r.t.Helper()
	assert.Empty(r.t, r.installed())
	for _, kind := range []string{"agents", "agentruns"} {
		require.NoError(r.t, suite.Client.Get(r.t.Context(), client.ObjectKey{Name: kind + ".hearth.dev"}, &apiextensionsv1.CustomResourceDefinition{}))
	}
}

// installed are the objects of an installation that are there, but for CRDs.
func (r *room) installed() []string {
	r.t.Helper()
	var found []string
	for name, object := range map[string]client.Object{
		"Namespace hearth-system":                         &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.SystemNamespace}},
		"MutatingWebhookConfiguration hearth-admission":   &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfiguration}},
		"ValidatingWebhookConfiguration hearth-admission": &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfiguration}},
		"ClusterRole hearth-controller":                   &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.ControllerAccount}},
		"ClusterRole hearth-edit":                         &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "hearth-edit"}},
		"ClusterRoleBinding hearth-controller":            &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster.ControllerAccount}},
	} {
		err := suite.Client.Get(r.t.Context(), client.ObjectKeyFromObject(object), object)
		if !apierrors.IsNotFound(err) {
			require.NoError(r.t, err)
			found = append(found, name)
		}
	}
	return found
}

// helmProgram runs the helm of hack/helm against the cluster.
func helmProgram(t *testing.T) func(args ...string) {
	t.Helper()
	install := exec.CommandContext(t.Context(), filepath.Join(suite.root, "hack", "helm", "install.sh")) //nolint:gosec // the project's own script
	install.Stderr = os.Stderr
	out, err := install.Output()
	require.NoError(t, err)
	home := t.TempDir()
	return func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(out)), args...) //nolint:gosec // the test's own arguments
		cmd.Env = append(os.Environ(), "KUBECONFIG="+suite.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "helm %s: %s", strings.Join(args, " "), said)
	}
}
