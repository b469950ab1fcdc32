package sandbox_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
	double "github.com/hearthdev/hearth/test/sandbox"
)

var server = apiserver.New(apiserver.Options{Bare: true})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// The double behaves as the real controller does, on a real API server: what its README promises.
func TestTheDoubleBehavesAsTheRealOne(t *testing.T) {
	require.NoError(t, double.Install(t.Context(), server.Admin(t)))
	var failing atomic.Bool
	w := newWorld(t, &failing)
	s := sandbox.Build(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "reviewer-1", Labels: map[string]string{"hearth.dev/run": "reviewer-1", "agents.x-k8s.io/mine": "stripped"}},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "agent", Image: "i", Ports: []corev1.ContainerPort{{Name: "acp", ContainerPort: 4000}}}}},
	})
	s.Labels["sandbox-only"] = "a"
	require.NoError(t, w.Create(t.Context(), s))

	w.says("reviewer-1", double.Ready, "Pod exists with phase: Pending; Service Exists")
	first := w.Pod("reviewer-1")
	assert.Equal(t, "reviewer-1", first.Labels["hearth.dev/run"])
	assert.NotContains(t, first.Labels, "agents.x-k8s.io/mine")
	assert.NotContains(t, first.Labels, "sandbox-only")
	assert.Equal(t, s.UID, metav1.GetControllerOf(first).UID)
	var service corev1.Service
	require.NoError(t, w.Get(t.Context(), w.Key("reviewer-1"), &service))
	assert.Equal(t, []any{"None", false, int32(4000)}, []any{service.Spec.ClusterIP, service.Spec.PublishNotReadyAddresses, service.Spec.Ports[0].Port})
	assert.Equal(t, first.Labels[double.LabelNameHash], service.Spec.Selector[double.LabelNameHash])

	w.Kubelet("reviewer-1", func(p *corev1.PodStatus) { p.Phase = corev1.PodRunning })
	w.says("reviewer-1", double.Ready, "Pod is Running but not Ready; Service Exists")
	w.Kubelet("reviewer-1", ready)
	got := w.says("reviewer-1", double.Ready, "Pod is Ready; Service Exists")
	assert.Equal(t, []any{metav1.ConditionTrue, double.DependenciesReady}, []any{got.Status.Conditions[0].Status, got.Status.Conditions[0].Reason})
	assert.Equal(t, []string{"10.77.0.9"}, got.Status.PodIPs)

	failing.Store(true)
	w.Touch(first)
	w.says("reviewer-1", double.Ready, "Error seen: a hiccup")
	failing.Store(false)
	w.says("reviewer-1", double.Ready, "Pod is Ready; Service Exists") // it is transient

	require.NoError(t, w.Delete(t.Context(), first))
	require.NotNil(t, w.Pod("reviewer-1").DeletionTimestamp)
	w.Touch(first)
	w.says("reviewer-1", double.Ready, "Pod is Ready; Service Exists") // though it terminates
	w.Remove(first)
	w.says("reviewer-1", double.Ready, "Pod exists with phase: Pending; Service Exists")
	assert.NotEqual(t, first.UID, w.Pod("reviewer-1").UID, "back under the same name, as another Pod")

	w.Kubelet("reviewer-1", func(p *corev1.PodStatus) { p.Phase = corev1.PodFailed })
	w.says("reviewer-1", double.Finished, "Pod failed")
	require.NoError(t, w.Delete(t.Context(), got))
	w.Gone(&service) // collected

	require.NoError(t, w.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "foreign"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "i"}}}}))
	require.NoError(t, w.Create(t.Context(), sandbox.Build(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "foreign"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "i"}}}})))
	w.says("foreign", double.Ready, `Error seen: cannot adopt unowned object "foreign"`)
}

// world is a room with the double.
type world struct {
	t *testing.T
	*room.Room
}

func newWorld(t *testing.T, failing *atomic.Bool) *world {
	t.Helper()
	w := &world{t: t, Room: room.New(t, server)}
	mgr := w.Manager(server.Admin(t), ctrl.Options{Logger: logr.Discard()})
	require.NoError(t, (&double.Double{Client: w.Client, Collect: true, Fail: func(client.ObjectKey) error {
		if failing.Load() {
			return errors.New("a hiccup")
		}
		return nil
	}}).SetupWithManager(mgr))
	w.Start(mgr)
	return w
}

func (w *world) says(name, condition, message string) *sandbox.Sandbox {
	w.t.Helper()
	var s sandbox.Sandbox
	w.Eventually(condition+": "+message, func(ctx context.Context) bool {
		s = sandbox.Sandbox{}
		if w.Get(ctx, w.Key(name), &s) != nil {
			return false
		}
		got := meta.FindStatusCondition(s.Status.Conditions, condition)
		return got != nil && got.Message == message
	})
	return &s
}

func ready(s *corev1.PodStatus) {
	s.PodIP, s.PodIPs = "10.77.0.9", []corev1.PodIP{{IP: "10.77.0.9"}}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}
