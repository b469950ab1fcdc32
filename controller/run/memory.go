package run

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// memory is what this process knows of living one-shot runs beside the API server. Losing it is safe: a deadline moves, within its
// bound, and a result that went with its Pod is a lost one.
type memory struct {
	mu    sync.Mutex
	notes map[types.NamespacedName]note
}

// eventPatience is how long the event of a removed Pod is waited for that the cache has lost already: it comes after.
const eventPatience = 2 * time.Second

type note struct {
	run   types.UID
	seen  types.UID   // the Pod that the cache showed
	lost  time.Time   // when the cache was first found without it, and its event had not come
	begun time.Time   // when the agent's container was first seen to have started
	last  *corev1.Pod // the run's Pod as it was when it was removed
}

// about completes what was observed with what is remembered, and remembers when the container started.
func (m *memory) about(o *Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(o.Run)
	n := m.notes[key]
	if n.run != o.Run.UID {
		n = note{run: o.Run.UID, last: n.last}
	}
	o.Last = n.last
	if own := o.own(); own != nil {
		n.seen = own.UID
		if n.begun.IsZero() && pod.Started(own) {
			n.begun = o.Now
		}
	}
	o.Begun = n.begun
	m.put(key, n)
}

// expects tells whether the event of a Pod's removal is still to come: the cache showed the Pod once, has it no more, and what it was like at
// last is in that event alone.
func (m *memory) expects(o *Observed) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(o.Run)
	n := m.notes[key]
	if !o.gone() || o.had() != nil || n.seen == "" {
		return false
	}
	if n.lost.IsZero() {
		n.lost = o.Now
		m.put(key, n)
	}
	return o.Now.Sub(n.lost) < eventPatience
}

// removed keeps a Pod that was removed until its run was looked at: the result that it left may have come with its removal.
func (m *memory) removed(key types.NamespacedName, p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.notes[key]
	n.last = p
	m.put(key, n)
}

func (m *memory) put(key types.NamespacedName, n note) {
	if m.notes == nil {
		m.notes = map[types.NamespacedName]note{}
	}
	m.notes[key] = n
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.notes, key)
}

// podEvents wakes the run that controls a Pod, as the handler for owners does. What a removed Pod was like is in its event alone.
func (r *Reconciler) podEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(o client.Object, q queue) {
		if key, ok := runOf(o); ok {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if key, ok := runOf(e.Object); ok {
				if p, ok := e.Object.(*corev1.Pod); ok && p.Spec.RestartPolicy == corev1.RestartPolicyNever {
					r.memory.removed(key, p)
				}
				q.Add(reconcile.Request{NamespacedName: key})
			}
		},
	}
}

// runOf is the run that controls an object, or whose Sandbox does: that has the run's name.
func runOf(o metav1.Object) (types.NamespacedName, bool) {
	owner := metav1.GetControllerOfNoCopy(o)
	ours := owner != nil && owner.Kind == "AgentRun" && owner.APIVersion == v1alpha1.GroupVersion.String()
	if !ours && (owner == nil || owner.Kind != sandbox.Kind) {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, true
}
