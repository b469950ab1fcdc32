package deliver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Indexes of the cache. Only what is alive is in them, so that ten thousand records cost nothing.
const (
	indexWaiting  = "deliver.waiting"  // delivered runs without a target, by Agent name
	indexTarget   = "deliver.target"   // delivered runs with one, by its Pod UID
	indexStanding = "deliver.standing" // runs with a Pod of their own, by Agent name
)

func addIndexes(mgr ctrl.Manager) error {
	for name, key := range map[string]func(*hearthv1.AgentRun) string{
		indexWaiting: func(r *hearthv1.AgentRun) string {
			if waiting(r) {
				return r.Spec.AgentRef.Name
			}
			return ""
		},
		indexTarget: targetOf,
		indexStanding: func(r *hearthv1.AgentRun) string {
			if delivered(r) || terminal(r) {
				return ""
			}
			return r.Labels[hearthv1.LabelAgent]
		},
	} {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), &hearthv1.AgentRun{}, name, func(o kube.Object) []string {
			if r, ok := o.(*hearthv1.AgentRun); ok && key(r) != "" {
				return []string{key(r)}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index %s: %w", name, err)
		}
	}
	return nil
}

// Transform is for the cache of AgentRuns: a record is kept without what nobody here reads of it again (its goal, template, output and
// every long text), so that finished runs cost next to nothing. Its status is final, so the rest is never written back. Standing runs
// keep theirs: few are kept, and the next one is told of by how the last one ended.
func Transform(object any) (any, error) {
	run, ok := object.(*hearthv1.AgentRun)
	if !ok {
		return object, nil
	}
	run.ManagedFields = nil
	if !terminal(run) || run.Standing() {
		return run, nil
	}
	run.Spec.Goal, run.Spec.Parameters, run.Spec.Runtime, run.Spec.Template = "", nil, nil, nil
	run.Status.Output, run.Status.Message, run.Status.TerminationData = nil, "", ""
	for i := range run.Status.Conditions {
		run.Status.Conditions[i].Message = ""
	}
	delete(run.Annotations, corev1.LastAppliedConfigAnnotation) // kubectl's copy of what it applied
	return run, nil
}

func isDelivered(o kube.Object) bool {
	r, ok := o.(*hearthv1.AgentRun)
	return ok && delivered(r)
}

// needsAssign passes what may change an assignment: a run that has to wait or waits no longer, and a standing run.
func needsAssign() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return assignable(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return !isDelivered(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return assignable(e.ObjectNew) && (!isDelivered(e.ObjectNew) || !assignable(e.ObjectOld))
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func assignable(o kube.Object) bool {
	r, ok := o.(*hearthv1.AgentRun)
	return ok && (!delivered(r) || waiting(r))
}

func withPredicate(p predicate.Predicate) builder.Predicates { return builder.WithPredicates(p) }

func agentKey(r *hearthv1.AgentRun) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.AgentRef.Name}
}

func toAgent(_ context.Context, o kube.Object) []reconcile.Request {
	r, ok := o.(*hearthv1.AgentRun)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: agentKey(r)}}
}

func podToAgent(_ context.Context, o kube.Object) []reconcile.Request {
	name := o.GetLabels()[hearthv1.LabelAgent]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// podToRuns wakes the runs that have a reservation on a Pod.
func (c *courier) podToRuns(ctx context.Context, o kube.Object) []reconcile.Request {
	runs := c.reservedOn(ctx, string(o.GetUID()))
	out := make([]reconcile.Request, len(runs))
	for i, r := range runs {
		out[i] = reconcile.Request{NamespacedName: kube.ObjectKeyFromObject(r)}
	}
	return out
}
