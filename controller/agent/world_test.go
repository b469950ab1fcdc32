package agent_test

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/test/apiserver"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

const (
	patience = 30 * time.Second
	beat     = 25 * time.Millisecond
)

// world is a namespace in which the controllers run with the rights of config/rbac, and the test plays kubelet.
type world struct {
	t         *testing.T
	namespace string
	client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, namespace: server.Namespace(t), Client: server.Client(t)}
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	require.NoError(t, w.Patch(t.Context(), restricted, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	mgr, err := ctrl.NewManager(server.Controller(t), ctrl.Options{
		Scheme: apiserver.Scheme(t), Cache: pod.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	require.NoError(t, (&agent.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Loads: idle{}, Events: mgr.GetEventRecorder("hearth"), Now: time.Now}).SetupWithManager(mgr))
	require.NoError(t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Random: rand.Reader}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return w
}

// idle are Loads of harnesses that answer and have nothing to do.
type idle struct{}

func (idle) Load(context.Context, *v1alpha1.AgentRun) (agent.Load, error) {
	return agent.Load{Link: agent.LinkVerified, Empty: true}, nil
}

func (idle) Changes() source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request]) error { return nil })
}

// uncached reads from the API server, which knows no index of the cache.
type uncached struct{ client.Client }

func (c uncached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	for i, o := range options {
		if _, indexed := o.(client.MatchingFields); indexed {
			options[i] = client.HasLabels{v1alpha1.LabelAgent}
		}
	}
	return c.Client.List(ctx, list, options...) //nolint:wrapcheck // a double
}

func (w *world) eventually(what string, look func(context.Context) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return look(w.t.Context()) }, patience, beat, what)
}

func (w *world) agent(name string, changes ...func(*v1alpha1.Agent)) *v1alpha1.Agent {
	w.t.Helper()
	a := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.AgentSpec{
			Goal: "You review changes.", GoalTemplate: "Review ${change}.",
			Runtime: v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "agent", Image: "registry/agent:1", Ports: []corev1.ContainerPort{{Name: "debug", ContainerPort: 6060}}}}}},
		},
	}
	for _, change := range changes {
		change(a)
	}
	require.NoError(w.t, w.Create(w.t.Context(), a))
	return a
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// theRun waits for a run of that name for which ok holds.
func (w *world) theRun(name string, ok func(*v1alpha1.AgentRun) bool) *v1alpha1.AgentRun {
	w.t.Helper()
	var r v1alpha1.AgentRun
	w.eventually("run "+name, func(ctx context.Context) bool {
		r = v1alpha1.AgentRun{}
		return w.Get(ctx, w.key(name), &r) == nil && ok(&r)
	})
	return &r
}

func (w *world) thePod(name string) *corev1.Pod {
	w.t.Helper()
	var p corev1.Pod
	w.eventually("Pod "+name, func(ctx context.Context) bool { return w.Get(ctx, w.key(name), &p) == nil })
	return &p
}

// kubelet plays kubelet: it writes a Pod's status.
func (w *world) kubelet(name string, change func(*corev1.PodStatus)) {
	w.t.Helper()
	p := w.thePod(name)
	change(&p.Status)
	require.NoError(w.t, w.Status().Update(w.t.Context(), p))
}

func listens(s *corev1.PodStatus) {
	s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, "10.77.0.9", []corev1.PodIP{{IP: "10.77.0.9"}}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Ready: true, Image: "i", ImageID: "i", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
}

func fails(s *corev1.PodStatus) {
	s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "low on memory"
}

// remove ends a Pod at once, as kubelet does after the grace period.
func (w *world) remove(name string) {
	w.t.Helper()
	err := w.Delete(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}, client.GracePeriodSeconds(0))
	if !apierrors.IsNotFound(err) {
		require.NoError(w.t, err)
	}
}

func is(r *v1alpha1.AgentRun, condition string, status metav1.ConditionStatus, reason string) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, condition)
	return c != nil && c.Status == status && c.Reason == reason
}

func isListening(r *v1alpha1.AgentRun) bool {
	return is(r, v1alpha1.AgentRunConditionACPReady, metav1.ConditionTrue, v1alpha1.ReasonListening)
}

func hasEnded(r *v1alpha1.AgentRun) bool { return r.Status.CompletionTime != nil }

func anyState(*v1alpha1.AgentRun) bool { return true }

func (w *world) standing(ctx context.Context, agent string) []string {
	var runs v1alpha1.AgentRunList
	require.NoError(w.t, w.List(ctx, &runs, client.InNamespace(w.namespace), client.MatchingLabels{v1alpha1.LabelAgent: agent}))
	var alive []string
	for _, r := range runs.Items {
		if r.Status.CompletionTime == nil {
			alive = append(alive, r.Name)
		}
	}
	slices.Sort(alive)
	return alive
}

func (w *world) agentIs(name, condition string, status metav1.ConditionStatus, reason string) *v1alpha1.Agent {
	w.t.Helper()
	var a v1alpha1.Agent
	w.eventually("Agent "+name+" "+condition+" "+reason, func(ctx context.Context) bool {
		require.NoError(w.t, w.Get(ctx, w.key(name), &a))
		c := meta.FindStatusCondition(a.Status.Conditions, condition)
		return c != nil && c.Status == status && c.Reason == reason
	})
	return &a
}

func (w *world) change(a *v1alpha1.Agent, change func(*v1alpha1.Agent)) {
	w.t.Helper()
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(a), a))
	before := a.DeepCopy()
	change(a)
	require.NoError(w.t, w.Patch(w.t.Context(), a, client.MergeFrom(before)))
}
