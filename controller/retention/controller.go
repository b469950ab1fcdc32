package retention

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// lookSoon is when a record is looked at again that changed, or whose schedule has not noted it, a moment ago.
	lookSoon = time.Second
	workers  = 4
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch;delete

// Reconciler deletes each record when its time is over.
type Reconciler struct {
	// Client reads from the cache. That is enough: a record never changes again, and a delete names the version that was seen.
	Client client.Client
	Now    func() time.Time
}

// SetupWithManager registers the reconcilers of this package: Reconciler by runs, History by Agents.
func SetupWithManager(mgr manager.Manager, now func() time.Time) error {
	r := &Reconciler{Client: mgr.GetClient(), Now: now}
	expires := predicate.NewPredicateFuncs(func(o client.Object) bool {
		run, ok := o.(*v1alpha1.AgentRun)
		if !ok {
			return false
		}
		_, ever := Expiry(run)
		return ever
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("retention").
		For(&v1alpha1.AgentRun{}, builder.WithPredicates(expires)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("by time: %w", err)
	}
	if err := setupHistory(mgr, &History{Client: mgr.GetClient()}); err != nil {
		return fmt.Errorf("by history limits: %w", err)
	}
	return nil
}

// Reconcile deletes the record, or waits for exactly as long as it has to stay: a waiting record is an entry in the queue, no work.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var run v1alpha1.AgentRun
	if err := r.Client.Get(ctx, request.NamespacedName, &run); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	due, ever := Expiry(&run)
	if !ever {
		return ctrl.Result{}, nil
	}
	if wait := due.Sub(r.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	agent, err := r.agentOf(ctx, &run)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !Noted(&run, agent) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	}
	if err := remove(ctx, r.Client, &run); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

// agentOf is the Agent of that name, nil when there is none; who has no name has no Agent.
func (r *Reconciler) agentOf(ctx context.Context, run *v1alpha1.AgentRun) (*v1alpha1.Agent, error) {
	if run.AdHoc() {
		return nil, nil //nolint:nilnil // no Agent, and no error
	}
	var agent v1alpha1.Agent
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.AgentRef.Name}, &agent)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer here
	}
	if err != nil {
		return nil, fmt.Errorf("read Agent: %w", err)
	}
	return &agent, nil
}

// remove deletes exactly the version that was looked at. One that is gone is as good.
func remove(ctx context.Context, c client.Client, run *v1alpha1.AgentRun) error {
	err := c.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete run %s: %w", run.Name, err)
	}
	return nil
}
