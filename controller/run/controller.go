package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

const (
	// lookAgain is when a Secret or Pod that could not be made is tried again: what stands in its way sends no events.
	lookAgain = 5 * time.Second
	// lookSoon is when a run is looked at again that the cache had not caught up with.
	lookSoon = 200 * time.Millisecond
	workers  = 8
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns/status,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Reconciler keeps the Pods of standing runs.
type Reconciler struct {
	// Client reads from the cache; Live does not, and alone may call something gone.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time
	// Random is where root secrets come from.
	Random io.Reader
	// Sandboxes are those that back runs; nil where there are none to be.
	Sandboxes Sandboxes
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("run").
		For(&v1alpha1.AgentRun{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasPod))).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if r.Sandboxes != nil {
		b = b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofSandbox)).WatchesRawSource(r.Sandboxes.Source())
	}
	return b.Complete(r)
}

// hasPod passes what is not a delivered run: ten thousand of those wake nobody here (R22).
func hasPod(o client.Object) bool {
	run, ok := o.(*v1alpha1.AgentRun)
	return ok && run.Spec.Delivery == nil
}

// Reconcile observes once, decides, acts, and writes the status at most once. It waits for nobody but the API server (R40).
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var run v1alpha1.AgentRun
	if err := r.Client.Get(ctx, request.NamespacedName, &run); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.endOrphan(ctx, request.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read run: %w", err)
	}
	if run.Spec.Delivery != nil {
		return ctrl.Result{}, nil // a delivered run never owns a Pod (R22)
	}
	o, err := r.observe(ctx, &run)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch decide(o) {
	case actionNone:
	case actionMake:
		if o, err = r.bring(ctx, o); errors.Is(err, errStale) {
			return ctrl.Result{RequeueAfter: lookSoon}, nil
		} else if err != nil {
			return ctrl.Result{}, err
		}
	case actionEnd:
		if err := r.backing(&run).end(ctx, o); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.write(ctx, &run, Status(o)); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if o.Blocked != "" {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{}, nil
}

// observe reads what backs the run from the cache, and live where its absence would decide something.
func (r *Reconciler) observe(ctx context.Context, run *v1alpha1.AgentRun) (Observed, error) {
	o := Observed{Run: run, Now: r.Now()}
	from := r.backing(run)
	err := from.read(ctx, &o, false)
	if err == nil && run.Status.CompletionTime == nil && o.unsure() {
		err = from.read(ctx, &o, true)
	}
	if err != nil {
		return o, err
	}
	if own := o.own(); own != nil && !pod.Ended(own) && run.Status.CompletionTime == nil {
		problem, err := r.credential(ctx, run)
		if err != nil {
			return o, err
		}
		o.CredentialLost = problem != ""
	}
	return o, nil
}

// write stores the status if it differs, and tells of an end only after it is stored.
func (r *Reconciler) write(ctx context.Context, run *v1alpha1.AgentRun, status v1alpha1.AgentRunStatus) error {
	if equality.Semantic.DeepEqual(run.Status, status) {
		return nil
	}
	updated := run.DeepCopy()
	updated.Status = status
	if err := r.Client.Status().Update(ctx, updated); apierrors.IsNotFound(err) {
		return nil // deleted meanwhile
	} else if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if status.CompletionTime != nil {
		kind := corev1.EventTypeWarning
		if status.Phase == v1alpha1.PhaseSucceeded || status.Reason == v1alpha1.ReasonCancelled {
			kind = corev1.EventTypeNormal
		}
		r.Events.Eventf(updated, nil, kind, status.Reason, "End", "%s", clip(status.Message, maxNote))
	}
	return nil
}

// maxNote is the API's bound of an event's note.
const maxNote = 1024

// endOrphan deletes the Pod or Sandbox of a run that is gone (R9), as the garbage collector does, but at once.
func (r *Reconciler) endOrphan(ctx context.Context, key client.ObjectKey) error {
	s, err := r.cachedSandbox(ctx, key)
	if err != nil {
		return err
	}
	var p corev1.Pod
	err = r.Client.Get(ctx, key, &p)
	if client.IgnoreNotFound(err) != nil || err != nil && s == nil {
		return client.IgnoreNotFound(err)
	}
	hasPod := err == nil
	var run v1alpha1.AgentRun
	if err := r.Live.Get(ctx, key, &run); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read run: %w", err)
	}
	if s != nil && ofAnother(s, run.UID) {
		if err := r.deleteSandbox(ctx, s); err != nil {
			return err
		}
	}
	if hasPod && p.DeletionTimestamp == nil && ofAnother(&p, run.UID) {
		return r.deletePod(ctx, &p)
	}
	return nil
}

func (r *Reconciler) deletePod(ctx context.Context, p *corev1.Pod) error {
	err := r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Pod: %w", err)
	}
	return nil
}
