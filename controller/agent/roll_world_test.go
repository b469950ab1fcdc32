package agent_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/run"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/harness"
)

// newDeliveringWorld is a world in which runs are delivered, too, to harnesses that the test boots in its own process.
func newDeliveringWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, namespace: server.Namespace(t), Client: server.Client(t)}
}

// controller starts a controller process with all reconcilers and real Links; stop ends it, and so does the end of the test.
func (w *world) controller() (stop func()) {
	w.t.Helper()
	cached := pod.CacheOptions()
	cached.DefaultNamespaces = map[string]cache.Config{w.namespace: {}}
	cached.ByObject[&v1alpha1.AgentRun{}] = cache.ByObject{Transform: deliver.Transform}
	mgr, err := ctrl.NewManager(server.Controller(w.t), ctrl.Options{
		Scheme: apiserver.Scheme(w.t), Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(w.t, err)
	loads, err := deliver.SetupWithManager(mgr, deliver.Options{Links: deliver.NewLinks(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.NoError(w.t, err)
	require.NoError(w.t, (&agent.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Loads: loads, Events: mgr.GetEventRecorder("hearth"), Now: time.Now}).SetupWithManager(mgr))
	require.NoError(w.t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Random: rand.Reader}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ended by stop
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the manager ended: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// Loopback addresses that no other test run on this machine is likely to use.
var nextAddress, addressBase = atomic.Uint32{}, mathrand.Uint32N(200) + 20

func newIP() string {
	n := nextAddress.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", addressBase, 100+n/200, n%200+1)
}

// probed gives a standing run's Pod an address and has it listen there, as kubelet says when the probe is satisfied.
func (w *world) probed(name, ip string) {
	w.t.Helper()
	w.kubelet(name, func(s *corev1.PodStatus) {
		listens(s)
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	})
}

// boot runs the harness of a standing run's Pod at that address, with the Pod's own Secret and limits.
func (w *world) boot(name, ip string) *harness.Harness {
	w.t.Helper()
	r := w.theRun(name, func(r *v1alpha1.AgentRun) bool { return r.Status.PodUID != "" })
	var secret corev1.Secret
	require.NoError(w.t, w.Get(w.t.Context(), w.key(pod.SecretName(name, r.UID)), &secret))
	d := r.Spec.Runtime.Delivery
	return harness.Start(w.t, harness.Options{
		Identity: wire.Identity{Namespace: w.namespace, PodName: name, PodUID: string(r.Status.PodUID)}, Root: string(secret.Data[v1alpha1.SecretToken]),
		Address: net.JoinHostPort(ip, fmt.Sprint(d.Port)), Concurrency: int(d.Concurrency), Queue: int(ptr.Deref(d.Queue, 0)),
	})
}

// up makes a standing run's Pod ready, with a harness.
func (w *world) up(name string) *harness.Harness {
	w.t.Helper()
	ip := newIP()
	h := w.boot(name, ip)
	w.probed(name, ip)
	return h
}

// deliver creates a delivered run as admission stores it.
func (w *world) deliver(a *v1alpha1.Agent, name, goal string) *v1alpha1.AgentRun {
	w.t.Helper()
	r := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.AgentRunSpec{
			AgentRef: v1alpha1.AgentRef{Name: a.Name, UID: a.UID, Generation: a.Generation}, Goal: goal,
			Runtime: a.Spec.Runtime.DeepCopy(), Delivery: &v1alpha1.DeliverySpec{Port: a.Spec.Runtime.Delivery.Port},
			ActiveDeadlineSeconds: ptr.To[int64](600), StartingDeadlineSeconds: ptr.To[int64](600), BackoffLimit: ptr.To[int32](0),
		},
	}
	require.NoError(w.t, w.Create(w.t.Context(), r))
	return r
}

// says waits until a run's Succeeded condition has a reason.
func (w *world) says(name, reason string) *v1alpha1.AgentRun {
	w.t.Helper()
	return w.theRun(name, func(r *v1alpha1.AgentRun) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
		return c != nil && c.Reason == reason
	})
}

func isCordoned(r *v1alpha1.AgentRun) bool { return r.Status.CordonedAt != nil }

func (w *world) gone(name string) {
	w.t.Helper()
	w.eventually(name+" is gone", func(ctx context.Context) bool {
		return client.IgnoreNotFound(w.Get(ctx, w.key(name), &v1alpha1.AgentRun{})) == nil && w.Get(ctx, w.key(name), &v1alpha1.AgentRun{}) != nil
	})
}
