package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
)

const (
	// writeEvery bounds an Agent's status writes: its counters follow, they are no log.
	writeEvery = time.Second
	// lookSoon is when an Agent is looked at again that the cache had not caught up with.
	lookSoon = 200 * time.Millisecond
	workers  = 4
)

// indexStanding are the runs with a Pod of their own of an Agent, by its name: ten thousand delivered ones cost nothing here.
const indexStanding = "agent.standing"

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agents/status,verbs=update
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler keeps the standing runs of Service Agents, and says of Task Agents whether runs can be made from them.
type Reconciler struct {
	// Client reads from the cache; Live does not, and is asked before runs are made or cordoned.
	Client client.Client
	Live   client.Reader
	// Loads knows what the standing runs hold.
	Loads  Loads
	Events events.EventRecorder
	Now    func() time.Time
	// Log hears what becomes of Agents; nil: nobody does.
	Log *slog.Logger

	mu    sync.Mutex
	wrote map[types.NamespacedName]time.Time
	names map[types.NamespacedName]time.Time // when the API server said that a name is taken
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.AgentRun{}, indexStanding, standingOf); err != nil {
		return fmt.Errorf("index %s: %w", indexStanding, err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.Agent{}).
		Owns(&v1alpha1.AgentRun{}). // delivered runs have no owner: they wake nobody here (R22)
		WatchesRawSource(r.Loads.Changes()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func standingOf(o client.Object) []string {
	run, ok := o.(*v1alpha1.AgentRun)
	if !ok || run.Delivered() || metav1.GetControllerOfNoCopy(run) == nil {
		return nil
	}
	return []string{run.Labels[v1alpha1.LabelAgent]}
}

// Reconcile observes once, decides, writes the status at most once, and acts. It waits for nobody but the API server (R40).
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var agent v1alpha1.Agent
	if err := r.Client.Get(ctx, request.NamespacedName, &agent); apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)
		metrics.AgentGone(request.Namespace, request.Name)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Agent: %w", err)
	}
	switch agent.Spec.Mode {
	case v1alpha1.AgentModeScheduled: // its status is its schedule's
		return ctrl.Result{}, nil
	case v1alpha1.AgentModeTask:
		later, err := r.write(ctx, &agent, taskStatus(&agent, r.Now()))
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: lookSoon}, nil
		}
		return ctrl.Result{RequeueAfter: later}, err
	case v1alpha1.AgentModeService:
	}
	return r.keep(ctx, &agent)
}

// keep brings a Service Agent's standing runs to what it says.
func (r *Reconciler) keep(ctx context.Context, agent *v1alpha1.Agent) (ctrl.Result, error) {
	o, err := r.observe(ctx, agent, r.Client, client.MatchingFields{indexStanding: agent.Name})
	if err != nil {
		return ctrl.Result{}, err
	}
	p := Decide(o)
	later, err := r.write(ctx, agent, p.Status)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	case err != nil:
		return ctrl.Result{}, err
	case later > 0 && p.Recast:
		return ctrl.Result{RequeueAfter: later}, nil // counted before it is made
	}
	settled := true
	for i := range p.Delete {
		if err := r.end(ctx, agent, &p.Delete[i]); err != nil {
			return ctrl.Result{}, err
		}
	}
	if p.changes() {
		if settled, err = r.change(ctx, agent); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !settled {
		later = soonest(later, lookSoon)
	}
	return ctrl.Result{RequeueAfter: soonest(later, p.After)}, nil
}

// observe lists the Agent's standing runs, asks what they hold, and looks which names are free.
func (r *Reconciler) observe(ctx context.Context, agent *v1alpha1.Agent, reader client.Reader, selected client.ListOption) (Observed, error) {
	var runs v1alpha1.AgentRunList
	if err := reader.List(ctx, &runs, client.InNamespace(agent.Namespace), selected); err != nil {
		return Observed{}, fmt.Errorf("list runs: %w", err)
	}
	o := Observed{Agent: agent, Now: r.Now(), Loads: map[string]Load{}}
	for _, run := range runs.Items {
		if run.Delivered() || !metav1.IsControlledBy(&run, agent) {
			continue
		}
		o.Runs = append(o.Runs, run)
		if run.Ended() || run.DeletionTimestamp != nil || !takesDeliveries(&run) {
			continue
		}
		load, err := r.Loads.Load(ctx, &run)
		if err != nil {
			return Observed{}, fmt.Errorf("what run %s holds: %w", run.Name, err)
		}
		o.Loads[run.Name] = load
	}
	free, err := r.free(ctx, agent, runs.Items)
	o.Free = free
	return o, err
}
