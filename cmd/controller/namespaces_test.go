package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

func reviewer(namespace string) *v1alpha1.Agent {
	return &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reviewer"},
		Spec: v1alpha1.AgentSpec{GoalTemplate: "Review ${change}.", Runtime: v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i"}}}}}}
}

func review(namespace string) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "work"},
		Spec: v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "reviewer"}, Parameters: map[string]string{"change": "PR 17"}}}
}

// listen makes a Pod look to the controller like one that kubelet started. Nobody is at its address.
func listen(t *testing.T, admin client.Client, namespace, name string) {
	t.Helper()
	p := &corev1.Pod{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p))
	p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, "127.0.0.2", []corev1.PodIP{{IP: "127.0.0.2"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	require.NoError(t, admin.Status().Update(t.Context(), p))
}

// The installation for a few namespaces, with a person's commands and with no other rights: work goes on in each of them, and
// elsewhere a refusal says which they are. The API server's own log says that nothing else was asked for.
func TestAControllerOfTwoNamespacesNeedsRolesInThoseOnly(t *testing.T) {
	bare, ctx := apiserver.ForTest(t, apiserver.Options{Bare: true, Audit: true}), t.Context()
	admin := bare.Client(t)
	served := []string{bare.Namespace(t), bare.Namespace(t)}
	elsewhere := bare.Namespace(t)
	_, err := ask(t, bare.As(t, "someone", "system:masters"), elsewhere)
	require.ErrorContains(t, err, "check: the CRDs of hearth.dev/v1alpha1 are not served; install them")
	for _, namespace := range served {
		bare.Kubectl(t, "apply", "--server-side", "-n", namespace, "-k", "config/namespaced/grant")
	}
	bare.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", "config/namespaced")
	require.Contains(t, bare.Kubectl(t, "get", "deployment", "-n", "hearth-system", "hearth-controller", "-o", "jsonpath={.spec.template.spec.containers[0].args}"),
		`"--namespaces=default"`)
	require.Eventually(t, func() bool { // it takes a moment to serve new kinds; where kubelet runs the controller, it starts it again
		return bare.Client(t).List(ctx, &v1alpha1.AgentRunList{}) == nil
	}, patiently, 100*time.Millisecond)

	ungranted := start(t, apiserver.Kubeconfig(t, bare.Controller(t)), "--namespaces="+served[0]+","+elsewhere)
	require.Error(t, ungranted.Wait(), "it does not try for ever")
	assert.Contains(t, ungranted.stderr.String(), "--namespaces: no right to work in "+elsewhere+": expected `kubectl apply --server-side -n "+elsewhere+" -k config/namespaced/grant`")

	adHoc := start(t, apiserver.Kubeconfig(t, bare.Controller(t)), "--namespaces="+served[0], "--allow-ad-hoc-runs")
	require.Error(t, adHoc.Wait(), "a right that is missing is said at the start, not to each author of a run")
	assert.Contains(t, adHoc.stderr.String(), "--allow-ad-hoc-runs: no right to ask who may create Pods: expected the component config/ad-hoc in the installation")

	p := start(t, apiserver.Kubeconfig(t, bare.Controller(t)), "--namespaces="+strings.Join(served, ","))
	require.Eventually(t, func() bool { return p.ready(t) }, patiently, 50*time.Millisecond)
	reach(t, admin, p.webhook)
	someone := bare.ClientAsGroup(t, "someone", "system:masters")
	refusal := ""
	require.Eventually(t, func() bool { // the API server takes a moment to see where the webhooks are
		err := someone.Create(ctx, review(elsewhere))
		if err != nil {
			refusal = err.Error()
		}
		return strings.Contains(refusal, "[NamespaceNotServed] metadata.namespace: expected a namespace that the controller serves")
	}, patiently, 50*time.Millisecond, refusal)
	assert.Contains(t, refusal, `"`+served[0]+`", "`+served[1]+`"`, "it says where to go")
	said, err := ask(t, bare.As(t, "someone", "system:masters"), elsewhere)
	require.NoError(t, err, "a refusal of this kind is an answer, too")
	assert.Contains(t, said, "[NamespaceNotServed]")
	require.ErrorContains(t, someone.Create(ctx, reviewer(elsewhere)), "[NamespaceNotServed]")
	require.ErrorContains(t, someone.Create(ctx, review(elsewhere), client.DryRunAll), "[NamespaceNotServed]")
	var stored v1alpha1.AgentRunList
	require.NoError(t, admin.List(ctx, &stored))
	assert.Empty(t, stored.Items)

	// What was there before, or was written without admission, is left alone, and can be changed and deleted.
	old := reviewer(elsewhere)
	require.NoError(t, bare.ClientAsGroup(t, apiserver.GarbageCollector, "system:masters").Create(ctx, old))
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"team": "payments"}
	require.NoError(t, someone.Patch(ctx, labelled, client.MergeFrom(old)))

	for _, namespace := range served {
		require.NoError(t, someone.Create(ctx, reviewer(namespace)))
		require.NoError(t, someone.Create(ctx, review(namespace)))
		require.Eventually(t, func() bool {
			return admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "reviewer-1"}, &corev1.Pod{}) == nil
		}, patiently, 50*time.Millisecond)
		listen(t, admin, namespace, "reviewer-1")
		require.Eventually(t, func() bool { // its Secret was read, its Link is open
			var run v1alpha1.AgentRun
			require.NoError(t, admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "work"}, &run))
			c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
			return c != nil && c.Reason == v1alpha1.ReasonTargetUnreachable
		}, patiently, 50*time.Millisecond)
	}
	require.NoError(t, someone.Delete(ctx, old))
	assert.True(t, apierrors.IsNotFound(admin.Get(ctx, client.ObjectKey{Namespace: elsewhere, Name: "reviewer-1"}, &corev1.Pod{})), "nobody acts there")

	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.Wait())
	assert.NotContains(t, strings.ToLower(p.stderr.String()), "forbidden", "those rights are enough")
	asked := bare.Audit(t, apiserver.ControllerUser)
	require.NotEmpty(t, asked)
	onlyWhatItMay(t, asked)
	for _, r := range asked {
		if r.Namespace != "" && r.Namespace != "hearth-system" {
			assert.Contains(t, served, r.Namespace, "%+v", r)
		}
		if r.Namespace == "" && r.Resource != "" {
			assert.Contains(t, []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "selfsubjectreviews", "selfsubjectaccessreviews"}, r.Resource, "%+v", r)
		}
	}
}

// onlyWhatItMay: nothing was refused for want of a right, and no Secret was ever listed or watched: get and create are enough, and
// in its own namespace one Secret by its name.
func onlyWhatItMay(t *testing.T, asked []apiserver.Request) {
	t.Helper()
	used := map[string]bool{}
	for _, r := range asked {
		assert.NotEqual(t, 403, r.Code, "%+v", r)
		if r.Resource != "secrets" {
			continue
		}
		if r.Namespace == "hearth-system" {
			assert.Equal(t, webhookSecret, r.Name, "%+v", r)
			continue
		}
		assert.Contains(t, []string{"get", "create"}, r.Verb, "%+v", r)
		used[r.Verb] = true
	}
	assert.Len(t, used, 2, "the test made it use both")
}
