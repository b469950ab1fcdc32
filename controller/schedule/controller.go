package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/signals"
)

const (
	// indexAgent finds in the cache the runs that an Agent's schedule made, by its UID.
	indexAgent = "schedule.agent"
	// lookSoon is when an Agent is looked at again that another write came before.
	lookSoon = 200 * time.Millisecond
	// minRetry and maxRetry bound the waits after errors: well below a minute, or a time would be missed for them.
	minRetry, maxRetry = 50 * time.Millisecond, 10 * time.Second
	workers            = 4
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agents/status,verbs=update
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler makes the runs of Scheduled Agents.
type Reconciler struct {
	// Client reads from the cache; Live does not, and is asked when a time has come.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time
	// Log hears what becomes of Agents; nil: nobody does.
	Log *slog.Logger
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.AgentRun{}, indexAgent, agentOf); err != nil {
		return fmt.Errorf("index %s: %w", indexAgent, err)
	}
	scheduled := predicate.NewPredicateFuncs(func(o client.Object) bool {
		agent, ok := o.(*v1alpha1.Agent)
		return ok && agent.Spec.Mode == v1alpha1.AgentModeScheduled
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("schedule").
		For(&v1alpha1.Agent{}, builder.WithPredicates(scheduled)).
		Watches(&v1alpha1.AgentRun{}, handler.EnqueueRequestsFromMapFunc(toAgent)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, maxRetry),
		}).
		Complete(r)
}

// agentOf is the index: the UID of the Agent whose schedule made the run.
func agentOf(o client.Object) []string {
	run, ok := o.(*v1alpha1.AgentRun)
	if !ok {
		return nil
	}
	if _, ok := TimeOf(run); !ok {
		return nil
	}
	return []string{string(run.Spec.AgentRef.UID)}
}

func toAgent(_ context.Context, o client.Object) []reconcile.Request {
	if len(agentOf(o)) == 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[v1alpha1.LabelAgent]}}}
}

// Reconcile observes, decides, makes at most one run, writes the status at most once, and then says what was missed. The run comes
// before the status: its name can be made once, so a controller that dies in between finds it, while a status that came first would
// claim a run that there never was.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	agent := &v1alpha1.Agent{}
	if err := r.Client.Get(ctx, request.NamespacedName, agent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if agent.Spec.Mode != v1alpha1.AgentModeScheduled || agent.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	var runs v1alpha1.AgentRunList
	if err := r.Client.List(ctx, &runs, client.InNamespace(agent.Namespace), client.MatchingFields{indexAgent: string(agent.UID)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list runs: %w", err)
	}
	p := r.decide(agent, runs.Items)
	if p.Acts() {
		live, err := r.look(ctx, agent, &runs)
		if err != nil {
			return ctrl.Result{}, err
		}
		if live.UID != agent.UID || live.DeletionTimestamp != nil {
			return ctrl.Result{RequeueAfter: lookSoon}, nil
		}
		agent, p = live, r.decide(live, runs.Items)
	}
	if !p.At.IsZero() {
		if err := r.make(ctx, agent, &p); err != nil {
			return ctrl.Result{}, err
		}
	}
	if equality.Semantic.DeepEqual(agent.Status, p.Status) {
		return ctrl.Result{RequeueAfter: p.After}, nil
	}
	before := *agent
	agent.Status = p.Status
	if err := r.Client.Status().Update(ctx, agent); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	} else if wait, held := record.HeldFor(err); held {
		return ctrl.Result{RequeueAfter: wait}, nil
	} else if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	signals.Signals{Events: r.Events, Log: r.Log}.Agent(&before, &agent.Status)
	r.tell(agent, p)
	return ctrl.Result{RequeueAfter: p.After}, nil
}

func (r *Reconciler) decide(agent *v1alpha1.Agent, runs []v1alpha1.AgentRun) Plan {
	return Decide(Observed{Agent: agent, Runs: runs, Now: r.Now(), Problem: problemOf(agent)})
}

// look reads past the cache: the runs, and then the Agent. In that order a run that retention deleted before the first read is
// noted in the status that the second one gives. An Agent that is gone has no UID.
func (r *Reconciler) look(ctx context.Context, agent *v1alpha1.Agent, runs *v1alpha1.AgentRunList) (*v1alpha1.Agent, error) {
	*runs = v1alpha1.AgentRunList{}
	if err := r.Live.List(ctx, runs, client.InNamespace(agent.Namespace), client.MatchingLabels{v1alpha1.LabelAgent: agent.Name}); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var live v1alpha1.Agent
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(agent), &live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Agent: %w", err)
	}
	return &live, nil
}

// make makes the run of a time, or finds that it is there.
func (r *Reconciler) make(ctx context.Context, agent *v1alpha1.Agent, p *Plan) error {
	run, refusals := runOf(agent, p.At)
	if len(refusals) > 0 {
		p.NotMade(refusals[0].String())
		return nil
	}
	err := r.Client.Create(ctx, run)
	switch {
	case err == nil:
		p.Made()
		return nil
	case apierrors.IsAlreadyExists(err):
		return r.found(ctx, agent, p, client.ObjectKeyFromObject(run))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		p.NotMade("the namespace is being deleted")
		return nil
	}
	r.Events.Eventf(agent, nil, corev1.EventTypeWarning, signals.EventFailedCreate, "Create", "run %s could not be made: %s", run.Name, apierrors.ReasonForError(err))
	return fmt.Errorf("create run %s: %w", run.Name, err)
}

// found: somebody made a run of that name. It is ours if a controller that died made it before its status said so.
func (r *Reconciler) found(ctx context.Context, agent *v1alpha1.Agent, p *Plan, key client.ObjectKey) error {
	var there v1alpha1.AgentRun
	if err := r.Live.Get(ctx, key, &there); err != nil {
		return fmt.Errorf("read run %s: %w", key.Name, err)
	}
	if isRunOf(&there, agent, p.At) {
		p.Made()
	} else {
		p.NotMade(fmt.Sprintf("the name %s was taken", key.Name))
	}
	return nil
}

// tell says what was stored.
func (r *Reconciler) tell(agent *v1alpha1.Agent, p Plan) {
	if !p.At.IsZero() {
		r.Events.Eventf(agent, nil, corev1.EventTypeNormal, signals.EventCreated, "Create", "created run %s", nameOf(agent, p.At))
	}
	for _, m := range p.Missed {
		r.Events.Eventf(agent, nil, corev1.EventTypeWarning, signals.EventMissed, "Schedule", "%s", m.String())
	}
}
