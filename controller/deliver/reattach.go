package deliver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

// reattachWithin is when a run that was in flight when this process began is looked at, at the latest. By then its target's Link has
// usually told what the target holds, or why it cannot be talked to, and all runs there were looked at once. A target that is slow with its
// list, or one of very many whose turn to be dialled has not come, takes longer; its runs are looked at without it.
const reattachWithin = 10 * time.Second

// runEvents enqueues runs for themselves. Those that were in flight when this process began are left to their targets' Links, of which
// nothing is known before: looking at ten thousand runs to find that is what a restart would take longest for.
func (c *courier) runEvents() handler.EventHandler {
	each := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.IsInInitialList && c.linkComes(ctx, e.Object) {
				q.AddAfter(reconcile.Request{NamespacedName: kube.ObjectKeyFromObject(e.Object)}, c.reattach)
				return
			}
			each.Create(ctx, e, q)
		},
		UpdateFunc: each.Update, DeleteFunc: each.Delete, GenericFunc: each.Generic,
	}
}

// linkComes tells whether a run has a target whose Link is, or is about to be, opened.
func (c *courier) linkComes(ctx context.Context, o kube.Object) bool {
	run, ok := o.(*hearthv1.AgentRun)
	if !ok || targetOf(run) == "" {
		return false
	}
	var p corev1.Pod
	err := c.kube.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: run.Status.Delivery.PodName}, &p, kube.UnsafeDisableDeepCopy)
	return err == nil && string(p.UID) == targetOf(run) && !pod.Ended(&p) && p.Status.PodIP != ""
}

// notInitial passes what was not there when this process began: a Pod that was is no news to the runs that it has.
func notInitial() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}
