package sandbox_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/test/apiserver"
	double "github.com/hearthdev/hearth/test/sandbox"
)

const (
	patience = 30 * time.Second
	beat     = 25 * time.Millisecond
)

var server = apiserver.New(apiserver.Options{Bare: true})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// The double behaves as the real controller does, on a real API server: what its README promises.
func TestTheDoubleBehavesAsTheRealOne(t *testing.T) {
	require.NoError(t, double.Install(t.Context(), server.Admin(t)))
	var failing atomic.Bool
	c := serve(t, &failing)
	ns := server.Namespace(t)
	key := client.ObjectKey{Namespace: ns, Name: "reviewer-1"}
	s := sandbox.Build(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reviewer-1", Labels: map[string]string{"hearth.dev/run": "reviewer-1", "agents.x-k8s.io/mine": "stripped"}},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "agent", Image: "i", Ports: []corev1.ContainerPort{{Name: "acp", ContainerPort: 4000}}}}},
	})
	s.Labels["sandbox-only"] = "a"
	require.NoError(t, c.Create(t.Context(), s))

	says(t, c, key, double.Ready, "Pod exists with phase: Pending; Service Exists")
	first := podOf(t, c, key)
	assert.Equal(t, "reviewer-1", first.Labels["hearth.dev/run"])
	assert.NotContains(t, first.Labels, "agents.x-k8s.io/mine")
	assert.NotContains(t, first.Labels, "sandbox-only")
	assert.Equal(t, s.UID, metav1.GetControllerOf(first).UID)
	var service corev1.Service
	require.NoError(t, c.Get(t.Context(), key, &service))
	assert.Equal(t, []any{"None", false, int32(4000)}, []any{service.Spec.ClusterIP, service.Spec.PublishNotReadyAddresses, service.Spec.Ports[0].Port})
	assert.Equal(t, first.Labels[double.LabelNameHash], service.Spec.Selector[double.LabelNameHash])

	kubelet(t, c, key, func(p *corev1.PodStatus) { p.Phase = corev1.PodRunning })
	says(t, c, key, double.Ready, "Pod is Running but not Ready; Service Exists")
	kubelet(t, c, key, ready)
	got := says(t, c, key, double.Ready, "Pod is Ready; Service Exists")
	assert.Equal(t, []any{metav1.ConditionTrue, double.DependenciesReady}, []any{got.Status.Conditions[0].Status, got.Status.Conditions[0].Reason})
	assert.Equal(t, []string{"10.77.0.9"}, got.Status.PodIPs)

	failing.Store(true)
	require.NoError(t, c.Patch(t.Context(), first, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	says(t, c, key, double.Ready, "Error seen: a hiccup")
	failing.Store(false)
	says(t, c, key, double.Ready, "Pod is Ready; Service Exists") // it is transient

	require.NoError(t, c.Delete(t.Context(), first))
	require.NotNil(t, podOf(t, c, key).DeletionTimestamp)
	require.NoError(t, c.Patch(t.Context(), first, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"c":"d"}}}`))))
	says(t, c, key, double.Ready, "Pod is Ready; Service Exists") // though it terminates
	require.NoError(t, c.Delete(t.Context(), first, client.GracePeriodSeconds(0)))
	says(t, c, key, double.Ready, "Pod exists with phase: Pending; Service Exists")
	assert.NotEqual(t, first.UID, podOf(t, c, key).UID, "back under the same name, as another Pod")

	kubelet(t, c, key, func(p *corev1.PodStatus) { p.Phase = corev1.PodFailed })
	says(t, c, key, double.Finished, "Pod failed")
	require.NoError(t, c.Delete(t.Context(), got))
	require.Eventually(t, func() bool { return apierrors.IsNotFound(c.Get(t.Context(), key, &service)) }, patience, beat, "collected")

	foreign := client.ObjectKey{Namespace: ns, Name: "foreign"}
	require.NoError(t, c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "foreign"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "i"}}}}))
	require.NoError(t, c.Create(t.Context(), sandbox.Build(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "foreign"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "i"}}}})))
	says(t, c, foreign, double.Ready, `Error seen: cannot adopt unowned object "foreign"`)
}

func serve(t *testing.T, failing *atomic.Bool) client.Client {
	t.Helper()
	scheme := apiserver.Scheme(t)
	c, err := client.New(server.Admin(t), client.Options{Scheme: scheme})
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(server.Admin(t), ctrl.Options{Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	require.NoError(t, (&double.Double{Client: c, Collect: true, Fail: func(client.ObjectKey) error {
		if failing.Load() {
			return errors.New("a hiccup")
		}
		return nil
	}}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return c
}

func says(t *testing.T, c client.Client, key client.ObjectKey, condition, message string) *sandbox.Sandbox {
	t.Helper()
	var s sandbox.Sandbox
	require.Eventually(t, func() bool {
		s = sandbox.Sandbox{}
		if c.Get(t.Context(), key, &s) != nil {
			return false
		}
		got := meta.FindStatusCondition(s.Status.Conditions, condition)
		return got != nil && got.Message == message
	}, patience, beat, "%s: %s", condition, message)
	return &s
}

func podOf(t *testing.T, c client.Client, key client.ObjectKey) *corev1.Pod {
	t.Helper()
	var p corev1.Pod
	require.NoError(t, c.Get(t.Context(), key, &p))
	return &p
}

func kubelet(t *testing.T, c client.Client, key client.ObjectKey, change func(*corev1.PodStatus)) {
	t.Helper()
	p := podOf(t, c, key)
	change(&p.Status)
	require.NoError(t, c.Status().Update(t.Context(), p))
}

func ready(s *corev1.PodStatus) {
	s.PodIP, s.PodIPs = "10.77.0.9", []corev1.PodIP{{IP: "10.77.0.9"}}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}
