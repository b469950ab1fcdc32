package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// writeEvery bounds an Agent's status writes: its counters follow, they are no log.
	writeEvery = time.Second
	// lookSoon is when an Agent is looked at again that the cache had not caught up with.
	lookSoon = 200 * time.Millisecond
	workers  = 4
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agents/status,verbs=update
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Reconciler keeps the standing runs of Service Agents.
type Reconciler struct {
	// Client reads from the cache; Live does not, and is asked before a run is made.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time

	mu    sync.Mutex
	wrote map[types.NamespacedName]time.Time
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.Agent{}).
		Owns(&v1alpha1.AgentRun{}). // delivered runs have no owner: they wake nobody here (R22)
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile observes once, decides, writes the status at most once, and acts. It waits for nobody but the API server (R40).
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var agent v1alpha1.Agent
	if err := r.Client.Get(ctx, request.NamespacedName, &agent); apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Agent: %w", err)
	}
	if agent.Spec.Mode != v1alpha1.AgentModeService {
		return ctrl.Result{}, nil
	}
	p, err := r.plan(ctx, r.Client, &agent)
	if err != nil {
		return ctrl.Result{}, err
	}
	later, err := r.write(ctx, &agent, p.Status)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	case err != nil:
		return ctrl.Result{}, err
	case later > 0 && p.Recast:
		return ctrl.Result{RequeueAfter: later}, nil // counted before it is made
	}
	for i := range p.Delete {
		if err := r.end(ctx, &p.Delete[i]); err != nil {
			return ctrl.Result{}, err
		}
	}
	if p.Create {
		if settled, err := r.create(ctx, &agent); err != nil {
			return ctrl.Result{}, err
		} else if !settled {
			return ctrl.Result{RequeueAfter: lookSoon}, nil
		}
	}
	return ctrl.Result{RequeueAfter: soonest(later, p.After)}, nil
}

func (r *Reconciler) plan(ctx context.Context, reader client.Reader, agent *v1alpha1.Agent) (Plan, error) {
	var runs v1alpha1.AgentRunList
	if err := reader.List(ctx, &runs, client.InNamespace(agent.Namespace), client.MatchingLabels{v1alpha1.LabelAgent: agent.Name}); err != nil {
		return Plan{}, fmt.Errorf("list runs: %w", err)
	}
	o := Observed{Agent: agent, Now: r.Now()}
	for _, run := range runs.Items {
		if run.Spec.Delivery == nil && metav1.IsControlledBy(&run, agent) {
			o.Runs = append(o.Runs, run)
		}
	}
	return Decide(o), nil
}

// create makes a standing run under the lowest free number, if a live look agrees that one is missing: the cache may not show yet
// the one that was made a moment ago. Settled is false when it has to be looked at again.
func (r *Reconciler) create(ctx context.Context, agent *v1alpha1.Agent) (settled bool, err error) {
	again, err := r.plan(ctx, r.Live, agent)
	if err != nil || !again.Create {
		return false, err
	}
	for n := 1; n <= maxNumber; n++ {
		run := standing(agent, nameOf(agent.Name, n))
		if taken, err := r.taken(ctx, client.ObjectKeyFromObject(run)); err != nil {
			return false, err
		} else if taken {
			continue
		}
		err := r.Client.Create(ctx, run)
		switch {
		case apierrors.IsAlreadyExists(err):
			return false, nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return true, nil // the Agent goes with its namespace: there is nothing to be made, and nothing to try again
		}
		if err != nil {
			return false, fmt.Errorf("create standing run: %w", err)
		}
		r.Events.Eventf(agent, run, corev1.EventTypeNormal, "Created", "Create", "created standing run %s", run.Name)
		return true, nil
	}
	return false, fmt.Errorf("no free name for a standing run of %s: expected one of %d to be free", agent.Name, maxNumber)
}

// taken: a run has the name, or a Pod of an earlier run still ends under it.
func (r *Reconciler) taken(ctx context.Context, key client.ObjectKey) (bool, error) {
	for _, object := range []client.Object{&v1alpha1.AgentRun{}, &corev1.Pod{}} {
		if err := r.Client.Get(ctx, key, object); err == nil {
			return true, nil
		} else if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for a free name: %w", err)
		}
	}
	return false, nil
}

func (r *Reconciler) end(ctx context.Context, run *v1alpha1.AgentRun) error {
	err := r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete run: %w", err)
	}
	return nil
}

// write stores the status if it differs, at most once a second; later is how long a change still has to wait.
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
	} else if err != nil {
		return 0, fmt.Errorf("write status: %w", err)
	}
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

// soonest is the shorter of two waits, where 0 is for ever.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
