package sandbox_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/test/apiserver"
	double "github.com/hearthdev/hearth/test/sandbox"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(server.Main(m))
}

const (
	patience = 60 * time.Second
	beat     = 25 * time.Millisecond
)

// world is a namespace in which the controllers run with the rights of config/rbac. The test plays kubelet.
type world struct {
	t         *testing.T
	namespace string
	client.Client
	// looks are the Presence's: each value lets it look again.
	looks chan time.Time
}

// newWorld has the kind and its controller's double, too.
func newWorld(t *testing.T) *world {
	t.Helper()
	require.NoError(t, double.Install(t.Context(), server.Admin(t)))
	w := bareWorld(t, nil)
	w.double()
	return w
}

// bareWorld has the kind or not, as the API server has. The Presence serves these namespaces; nil is all.
func bareWorld(t *testing.T, namespaces []string) *world {
	t.Helper()
	w := &world{t: t, namespace: server.Namespace(t), Client: server.Client(t), looks: make(chan time.Time)}
	if namespaces != nil {
		namespaces = append(namespaces, w.namespace)
	}
	options := ctrl.Options{Cache: pod.CacheOptions(), Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}}
	options.Cache.DefaultNamespaces = map[string]cache.Config{w.namespace: {}}
	mgr := w.manager(server.Controller(t), options)
	presence, err := sandbox.NewPresence(mgr, namespaces, pod.Selector(), func(time.Duration) <-chan time.Time { return w.looks }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, (&agent.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Loads: idle{}, Events: mgr.GetEventRecorder("hearth"), Now: time.Now}).SetupWithManager(mgr))
	require.NoError(t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Random: rand.Reader, Sandboxes: presence}).SetupWithManager(mgr))
	w.start(mgr)
	return w
}

// idle standing runs hold nothing.
type idle struct{}

func (idle) Load(context.Context, *v1alpha1.AgentRun) (agent.Load, error) {
	return agent.Load{Link: agent.LinkVerified, Empty: true}, nil
}

func (idle) Changes() source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request]) error { return nil })
}

// double starts the double of the Sandboxes' controller.
func (w *world) double() {
	w.t.Helper()
	mgr := w.manager(server.Admin(w.t), ctrl.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}}})
	require.NoError(w.t, (&double.Double{Client: w.Client, Collect: true}).SetupWithManager(mgr))
	w.start(mgr)
}

func (w *world) manager(c *rest.Config, o ctrl.Options) manager.Manager {
	w.t.Helper()
	o.Scheme, o.Logger, o.Metrics = apiserver.Scheme(w.t), logr.Discard(), metricsserver.Options{BindAddress: "0"}
	o.Controller = config.Controller{SkipNameValidation: ptr.To(true)}
	mgr, err := ctrl.NewManager(c, o)
	require.NoError(w.t, err)
	return mgr
}

func (w *world) start(mgr manager.Manager) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		assert.NoError(w.t, <-ended)
	})
}

func (w *world) eventually(what string, look func(context.Context) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return look(w.t.Context()) }, patience, beat, what)
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// agent makes an Agent of backend Sandbox. Its Pods are bound to a node, so that a deleted one terminates until kubelet is done.
func (w *world) agent(name string, changes ...func(*v1alpha1.Agent)) {
	w.t.Helper()
	a := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.AgentSpec{
			Goal: "You review changes.", GoalTemplate: "Review ${change}.", Backend: v1alpha1.BackendSandbox,
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{}},
			Template: template(),
		},
	}
	for _, change := range changes {
		change(a)
	}
	require.NoError(w.t, w.Create(w.t.Context(), a))
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}}
}

// oneShot makes a run as admission stores one of a Task Agent.
func (w *world) oneShot(name string) {
	w.t.Helper()
	require.NoError(w.t, w.Create(w.t.Context(), &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.AgentRunSpec{
			AgentRef: v1alpha1.AgentRef{Name: "task", UID: "task-uid", Generation: 1}, Goal: "Review PR 17.", Backend: v1alpha1.BackendSandbox,
			Runtime: &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}}, Template: ptr.To(template()),
			ActiveDeadlineSeconds: ptr.To[int64](600), StartingDeadlineSeconds: ptr.To[int64](600),
		},
	}))
}

// theRun waits for a run of that name for which ok holds.
func (w *world) theRun(name string, ok func(*v1alpha1.AgentRun) bool) *v1alpha1.AgentRun {
	w.t.Helper()
	var r v1alpha1.AgentRun
	defer func() {
		if w.t.Failed() {
			w.t.Logf("run %s: %+v", name, r.Status)
		}
	}()
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

func (w *world) theSandbox(name string) *sandbox.Sandbox {
	w.t.Helper()
	var s sandbox.Sandbox
	w.eventually("Sandbox "+name, func(ctx context.Context) bool { return w.Get(ctx, w.key(name), &s) == nil })
	return &s
}

// gone waits until there is no such object, or one of another UID.
func (w *world) gone(o client.Object) {
	w.t.Helper()
	uid, key := o.GetUID(), client.ObjectKeyFromObject(o)
	w.eventually("end of "+key.Name, func(ctx context.Context) bool {
		err := w.Get(ctx, key, o)
		return apierrors.IsNotFound(err) || err == nil && o.GetUID() != uid
	})
}

// kubelet plays kubelet: it writes a Pod's status.
func (w *world) kubelet(name string, change func(*corev1.PodStatus)) {
	w.t.Helper()
	p := w.thePod(name)
	change(&p.Status)
	require.NoError(w.t, w.Status().Update(w.t.Context(), p))
}

// remove ends a Pod at once, as kubelet does after the grace period. It may have gone already, and another have its name.
func (w *world) remove(p *corev1.Pod) {
	w.t.Helper()
	err := w.Delete(w.t.Context(), p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	if !apierrors.IsConflict(err) {
		require.NoError(w.t, client.IgnoreNotFound(err))
	}
}

func listens(s *corev1.PodStatus) {
	s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, "10.77.0.9", []corev1.PodIP{{IP: "10.77.0.9"}}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Ready: true, Image: "i", ImageID: "i", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
}

func acpSays(r *v1alpha1.AgentRun) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionACPReady); c != nil {
		return c.Message
	}
	return ""
}

func isListening(r *v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.AgentRunConditionACPReady)
}

func hasEnded(r *v1alpha1.AgentRun) bool { return r.Status.CompletionTime != nil }

func says(message string) func(*v1alpha1.AgentRun) bool {
	return func(r *v1alpha1.AgentRun) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
		return c != nil && c.Reason == v1alpha1.ReasonPodNotRunning && c.Message == message
	}
}
