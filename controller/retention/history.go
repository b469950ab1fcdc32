package retention

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule"
)

// indexHistory finds in the cache the runs of an Agent's schedule that have ended, by the Agent's UID.
const indexHistory = "retention.history"

// History keeps the history limits of Scheduled Agents.
type History struct {
	// Client reads from the cache.
	Client client.Client
}

func setupHistory(mgr manager.Manager, h *History) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.AgentRun{}, indexHistory, historyOf); err != nil {
		return fmt.Errorf("index %s: %w", indexHistory, err)
	}
	scheduled := predicate.NewPredicateFuncs(func(o client.Object) bool {
		agent, ok := o.(*v1alpha1.Agent)
		return ok && agent.Spec.Mode == v1alpha1.AgentModeScheduled
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("retention-history").
		For(&v1alpha1.Agent{}, builder.WithPredicates(scheduled)). // its status too: it notes what may go
		Watches(&v1alpha1.AgentRun{}, handler.EnqueueRequestsFromMapFunc(toAgent)).
		Complete(h)
}

// historyOf is the index: the UID of the Agent whose schedule made a run that has ended.
func historyOf(o client.Object) []string {
	run, ok := o.(*v1alpha1.AgentRun)
	if !ok || !run.Ended() {
		return nil
	}
	if _, scheduled := schedule.TimeOf(run); !scheduled {
		return nil
	}
	return []string{string(run.Spec.AgentRef.UID)}
}

func toAgent(_ context.Context, o client.Object) []reconcile.Request {
	run, ok := o.(*v1alpha1.AgentRun)
	if !ok || len(historyOf(run)) == 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.AgentRef.Name}}}
}

// Reconcile deletes what is beyond the limits.
func (h *History) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var agent v1alpha1.Agent
	if err := h.Client.Get(ctx, request.NamespacedName, &agent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var runs v1alpha1.AgentRunList
	if err := h.Client.List(ctx, &runs, client.InNamespace(agent.Namespace), client.MatchingFields{indexHistory: string(agent.UID)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list runs: %w", err)
	}
	surplus := Surplus(&agent, runs.Items)
	for i := range surplus {
		if err := remove(ctx, h.Client, &surplus[i]); apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: lookSoon}, nil
		} else if err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}
