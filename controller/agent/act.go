package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/signals"
)

// change makes, cordons and uncordons what a live look wants as well: the cache may not show yet what was made or cordoned a moment
// ago, by us or by another controller. Each is one write that fails if somebody was faster. Settled is false when the Agent has to be
// looked at again.
func (r *Reconciler) change(ctx context.Context, agent *v1alpha1.Agent) (settled bool, err error) {
	var live v1alpha1.Agent
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(agent), &live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if live.UID != agent.UID || live.Generation != agent.Generation {
		return false, nil
	}
	agent = &live
	o, err := r.observe(ctx, agent, r.Live, client.MatchingLabels{v1alpha1.LabelAgent: agent.Name})
	if err != nil {
		return false, err
	}
	p := Decide(o)
	if p.Recast {
		return false, nil // a run ended that the cache does not show yet, so it is not counted
	}
	for i := range p.Cordon {
		if done, err := r.cordon(ctx, agent, &p.Cordon[i], ptr.To(metav1.NewMicroTime(o.Now))); err != nil || !done {
			return false, err
		}
	}
	for i := range p.Uncordon {
		if done, err := r.cordon(ctx, agent, &p.Uncordon[i], nil); err != nil || !done {
			return false, err
		}
	}
	for _, name := range p.Create {
		if done, err := r.create(ctx, agent, name); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// errOlderCRD: the API server dropped what its CRD does not know. Without a cordon work would go on being assigned, so nothing is ended.
var errOlderCRD = errors.New("the API server does not keep status.cordonedAt of AgentRuns: its CRD is older than this controller, expected config/crd of the controller's version")

// cordon writes, under the run's resource version, since when it gets no work, or nil for that it does.
func (r *Reconciler) cordon(ctx context.Context, agent *v1alpha1.Agent, run *v1alpha1.AgentRun, at *metav1.MicroTime) (done bool, err error) {
	run.Status.CordonedAt = at
	err = r.Client.Status().Update(ctx, run)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cordon standing run: %w", err)
	case at != nil && run.Status.CordonedAt == nil:
		return false, errOlderCRD
	case at == nil:
		r.Events.Eventf(agent, run, corev1.EventTypeNormal, signals.EventUncordoned, "Uncordon", "standing run %s takes work again", run.Name)
	default:
		r.Events.Eventf(agent, run, corev1.EventTypeNormal, signals.EventCordoned, "Cordon", "standing run %s takes no further work and is deleted when it has none left, by %s",
			run.Name, drainedAt(agent, run).UTC().Format("2006-01-02T15:04:05Z"))
	}
	return true, nil
}

// create makes a standing run. Of two who do at once one finds the name taken.
func (r *Reconciler) create(ctx context.Context, agent *v1alpha1.Agent, name string) (done bool, err error) {
	run := standing(agent, name)
	err = r.Client.Create(ctx, run)
	switch {
	case apierrors.IsAlreadyExists(err):
		r.refuse(client.ObjectKeyFromObject(run))
		return false, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return true, nil // the Agent goes with its namespace: there is nothing to be made, and nothing to try again
	case err != nil:
		return false, fmt.Errorf("create standing run: %w", err)
	}
	r.Events.Eventf(agent, run, corev1.EventTypeNormal, signals.EventCreated, "Create", "created standing run %s", run.Name)
	return true, nil
}

// end deletes a run as it was seen: one that takes work again meanwhile is another version, and stays.
func (r *Reconciler) end(ctx context.Context, agent *v1alpha1.Agent, run *v1alpha1.AgentRun) error {
	err := r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // its event comes
	case err != nil:
		return fmt.Errorf("delete run: %w", err)
	case !run.Ended():
		r.Events.Eventf(agent, run, corev1.EventTypeNormal, signals.EventDrained, "Delete", "deleted standing run %s: nothing was left in it, or its time to finish was over", run.Name)
	}
	return nil
}
