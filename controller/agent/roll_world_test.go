package agent_test

import (
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/deliver"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver/room"
	"github.com/hearthdev/hearth/test/harness"
)

// newDeliveringWorld is a world in which runs are delivered, too, to harnesses that the test boots in its own process.
func newDeliveringWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, Room: room.New(t, server)}
}

// controller starts a controller process with all reconcilers and real Links; stop ends it, and so does the end of the test.
func (w *world) controller() (stop func()) {
	w.t.Helper()
	mgr := w.Manager(server.Controller(w.t), room.Options())
	loads, err := deliver.SetupWithManager(mgr, deliver.Options{Links: deliver.NewLinks(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.NoError(w.t, err)
	w.reconcile(mgr, loads)
	return w.Start(mgr)
}

// probed gives a standing run's Pod an address and has it listen there, as kubelet says when the probe is satisfied.
func (w *world) probed(name, ip string) {
	w.t.Helper()
	w.Kubelet(name, func(s *corev1.PodStatus) {
		room.Listens(s)
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	})
}

// boot runs the harness of a standing run's Pod at that address, with the Pod's own Secret and limits.
func (w *world) boot(name, ip string) *harness.Harness {
	w.t.Helper()
	r := w.Run(name, room.HasPod)
	var secret corev1.Secret
	require.NoError(w.t, w.Get(w.t.Context(), w.Key(v1alpha1.RunSecretName(name, r.UID)), &secret))
	d := r.Spec.Runtime.Delivery
	return harness.Start(w.t, harness.Options{
		Identity: wire.Identity{Namespace: w.Namespace, PodName: name, PodUID: string(r.Status.PodUID)}, Root: string(secret.Data[v1alpha1.SecretToken]),
		Address: net.JoinHostPort(ip, fmt.Sprint(d.Port)), Concurrency: int(d.Concurrency), Queue: int(ptr.Deref(d.Queue, 0)),
	})
}

// up makes a standing run's Pod ready, with a harness.
func (w *world) up(name string) *harness.Harness {
	w.t.Helper()
	ip := room.NewIP()
	h := w.boot(name, ip)
	w.probed(name, ip)
	return h
}

// deliver creates a delivered run as admission stores it.
func (w *world) deliver(a *v1alpha1.Agent, name, goal string) *v1alpha1.AgentRun {
	w.t.Helper()
	r := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
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
	return w.Run(name, func(r *v1alpha1.AgentRun) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
		return c != nil && c.Reason == reason
	})
}

func isCordoned(r *v1alpha1.AgentRun) bool { return r.Status.CordonedAt != nil }
