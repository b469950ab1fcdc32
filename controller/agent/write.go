package agent

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/signals"
)

// write stores the status if it differs, at most once a second, and has agent show it; later is how long a change still has to wait.
func (r *Reconciler) write(ctx context.Context, agent *v1alpha1.Agent, status v1alpha1.AgentStatus) (later time.Duration, err error) {
	if equality.Semantic.DeepEqual(agent.Status, status) {
		return 0, nil
	}
	key, now := client.ObjectKeyFromObject(agent), r.Now()
	if wait := r.lastWrite(key).Add(writeEvery).Sub(now); wait > 0 && wait <= writeEvery {
		return wait, nil
	}
	updated := agent.DeepCopy()
	updated.Status = status
	if err := r.Client.Status().Update(ctx, updated); apierrors.IsNotFound(err) {
		return 0, nil // deleted meanwhile
	} else if wait, held := record.HeldFor(err); held {
		return wait, nil
	} else if err != nil {
		return 0, fmt.Errorf("write status: %w", err)
	}
	signals.Signals{Events: r.Events, Log: r.Log}.Agent(agent, &updated.Status)
	agent.Status = status
	r.remember(key, now)
	return 0, nil
}

func (r *Reconciler) lastWrite(key types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote[key]
}

func (r *Reconciler) remember(key types.NamespacedName, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrote == nil {
		r.wrote = map[types.NamespacedName]time.Time{}
	}
	r.wrote[key] = at
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wrote, key)
}
