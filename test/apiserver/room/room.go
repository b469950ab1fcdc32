// Package room is for tests of reconcilers against a test API server: a namespace of the test's own, in which controllers run as they
// do in cmd/controller, and the test plays kubelet.
package room

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/test/apiserver"
)

const (
	// Patience is how long anything may take that takes many steps, with the race detector, on a slow machine.
	Patience = time.Minute
	beat     = 25 * time.Millisecond
)

// Room is a namespace of a test's own, and the administrator's client.
type Room struct {
	t         testing.TB
	Namespace string
	client.Client
}

// New makes the namespace.
func New(t testing.TB, s *apiserver.Server) *Room {
	t.Helper()
	return &Room{t: t, Namespace: s.Namespace(t), Client: s.Client(t)}
}

// Options are those of cmd/controller that say what is read from caches, and what is in them.
func Options() ctrl.Options {
	cached := pod.CacheOptions()
	cached.ByObject[&v1alpha1.AgentRun{}] = cache.ByObject{Transform: deliver.Transform}
	return ctrl.Options{Cache: cached, Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}}
}

// Manager is one of controllers that see this namespace only, so that no test meets what others left.
func (r *Room) Manager(c *rest.Config, o ctrl.Options) manager.Manager {
	r.t.Helper()
	o.Scheme, o.Metrics = apiserver.Scheme(r.t), metricsserver.Options{BindAddress: "0"}
	o.Controller.SkipNameValidation = ptr.To(true)
	o.Cache.DefaultNamespaces = map[string]cache.Config{r.Namespace: {}}
	mgr, err := ctrl.NewManager(c, o)
	require.NoError(r.t, err)
	return mgr
}

// Start runs a manager until the test ends, or stop is called.
func (r *Room) Start(mgr manager.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(r.t, <-ended)
	})
	r.t.Cleanup(stop)
	return stop
}

// Eventually waits until look finds what it looks for.
func (r *Room) Eventually(what string, look func(context.Context) bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return look(r.t.Context()) }, Patience, beat, what)
}

// Key is that of an object of this namespace.
func (r *Room) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.Namespace, Name: name}
}

// Touch has an object's controller look at it again, if it is there still.
func (r *Room) Touch(o client.Object) {
	r.t.Helper()
	touched := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test/touched":"`+time.Now().String()+`"}}}`))
	require.NoError(r.t, client.IgnoreNotFound(r.Patch(r.t.Context(), o, touched)))
}

// Gone waits until there is no such object, or one of another UID.
func (r *Room) Gone(o client.Object) {
	r.t.Helper()
	uid, key := o.GetUID(), client.ObjectKeyFromObject(o)
	r.Eventually("end of "+key.Name, func(ctx context.Context) bool {
		err := r.Get(ctx, key, o)
		return apierrors.IsNotFound(err) || err == nil && o.GetUID() != uid
	})
}

// Pod waits for a Pod of that name.
func (r *Room) Pod(name string) *corev1.Pod {
	r.t.Helper()
	return r.podThat(name, "is there", func(*corev1.Pod) bool { return true })
}

// Terminating waits until a Pod of that name is told to end.
func (r *Room) Terminating(name string) *corev1.Pod {
	r.t.Helper()
	return r.podThat(name, "terminates", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func (r *Room) podThat(name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	r.t.Helper()
	var p corev1.Pod
	r.Eventually("Pod "+name+" "+what, func(ctx context.Context) bool {
		p = corev1.Pod{}
		return r.Get(ctx, r.Key(name), &p) == nil && ok(&p)
	})
	return &p
}

// Kubelet plays kubelet: it writes the status of the Pod that has this name now. The controllers write the same object meanwhile, so
// change is called again on what is there then.
func (r *Room) Kubelet(name string, change func(*corev1.PodStatus)) {
	r.t.Helper()
	require.NoError(r.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p := r.Pod(name)
		change(&p.Status)
		return r.Status().Update(r.t.Context(), p)
	}))
}

// Remove ends a Pod at once, as kubelet does after the grace period. It may have gone already, and another have its name.
func (r *Room) Remove(p *corev1.Pod) {
	r.t.Helper()
	err := r.Delete(r.t.Context(), p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	if !apierrors.IsConflict(err) {
		require.NoError(r.t, client.IgnoreNotFound(err))
	}
}
