package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/signals"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/internal/tracing"
)

const (
	// lookAgain is when a Secret or Pod that could not be made is tried again at first: what stands in its way sends no events.
	lookAgain = 5 * time.Second
	// lookLater is when it is tried again after some minutes, and beside a Pod that lives without it.
	lookLater = time.Minute
	// agePart of its age is how long a one-shot run waits from one try to the next, from lookAgain to lookLater: many that wait for a
	// quota must not keep the API server busy with refusals.
	agePart = 8
	// lookSoon is when a run is looked at again that the cache had not caught up with.
	lookSoon = 200 * time.Millisecond
	workers  = 8
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns/status,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler keeps the Pods of runs that have one.
type Reconciler struct {
	// Client reads from the cache; Live does not, and alone may call something gone.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time
	// Log and Spans tell how runs fare; without them nothing is logged or traced.
	Log   *slog.Logger
	Spans *trace.Spans
	// Random is where root secrets come from.
	Random io.Reader
	// Sandboxes are those that back runs; nil where there are none to be.
	Sandboxes Sandboxes

	memory memory
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("run").
		For(&v1alpha1.AgentRun{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasPod))).
		Watches(&corev1.Pod{}, r.podEvents()).
		Owns(&corev1.Service{}, builder.WithPredicates(onlyDeleted())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if r.Sandboxes != nil {
		b = b.WatchesRawSource(r.Sandboxes.Source())
	}
	return b.Complete(r)
}

// hasPod passes what is not a delivered run: ten thousand of those wake nobody here (R22).
func hasPod(o client.Object) bool {
	run, ok := o.(*v1alpha1.AgentRun)
	return ok && run.Spec.Delivery == nil
}

// onlyDeleted passes the end of what is only to be made again.
func onlyDeleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Reconcile observes once, decides, acts, and writes the status at most once. It waits for nobody but the API server (R40).
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var run v1alpha1.AgentRun
	if err := r.Client.Get(ctx, request.NamespacedName, &run); apierrors.IsNotFound(err) {
		r.memory.forget(request.NamespacedName)
		return ctrl.Result{}, r.endOrphan(ctx, request.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read run: %w", err)
	}
	if run.Spec.Delivery != nil {
		return ctrl.Result{}, nil // a delivered run never owns a Pod (R22)
	}
	o, err := r.observe(ctx, &run)
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if o, err = r.act(ctx, o); errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.record(ctx, o); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: lookSoon}, nil
	} else if wait, held := record.HeldFor(err); held {
		return ctrl.Result{RequeueAfter: wait}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: o.again()}, nil
}

// act does what was decided, and keeps what a living Pod needs beside it.
func (r *Reconciler) act(ctx context.Context, o Observed) (Observed, error) {
	switch decide(o) {
	case actionMake:
		return r.bring(ctx, o)
	case actionEnd:
		return o, r.backing(o.Run).end(ctx, o)
	case actionNone:
	}
	if own := o.own(); own != nil && !o.Run.Ended() && !pod.Ended(own) && own.DeletionTimestamp == nil {
		met, err := r.backing(o.Run).prepare(ctx, &o)
		o.Blocked = met.why
		return o, err
	}
	return o, nil
}

// again is when to look again though nothing changed; 0 is never.
func (o Observed) again() time.Duration {
	own := o.own()
	wait := o.next(own)
	retry := lookAgain
	switch {
	case o.Blocked == "":
		return wait
	case own != nil:
		retry = lookLater
	case o.Run.OneShot():
		retry = min(max(lookAgain, o.Now.Sub(o.Run.CreationTimestamp.Time)/agePart), lookLater)
	}
	if wait == 0 {
		return retry
	}
	return min(wait, retry)
}

// observe reads what backs the run from the cache, and live where its absence, or that it does not go, would decide something.
func (r *Reconciler) observe(ctx context.Context, run *v1alpha1.AgentRun) (Observed, error) {
	o := Observed{Run: run, Now: r.Now()}
	o.Traceparent, o.Tracestate = tracing.Format(r.Spans.Of(run))
	from := r.backing(run)
	if err := from.read(ctx, &o, false); err != nil {
		return o, err
	}
	if run.Ended() {
		r.memory.forget(client.ObjectKeyFromObject(run))
		return o, nil
	}
	if run.OneShot() {
		r.memory.about(&o)
	}
	if o.unsure() {
		if err := from.read(ctx, &o, true); err != nil {
			return o, err
		}
		if run.OneShot() && r.memory.expects(&o) {
			return o, errStale
		}
	}
	own := o.own()
	if !run.OneShot() && own != nil && !pod.Ended(own) {
		problem, err := r.credential(ctx, run)
		if err != nil {
			return o, err
		}
		o.CredentialLost = problem != ""
	}
	return o, nil
}

// record stores how the run is, and if it ended everything about that at once. A record that is refused is cut (fault row 56).
func (r *Reconciler) record(ctx context.Context, o Observed) error {
	if o.Run.Ended() {
		return nil
	}
	e := o.end()
	var whole *delivery.Ending
	if e != nil {
		whole = &e.Ending
	}
	return record.Write(whole, func(less *delivery.Ending) error {
		if e != nil {
			e.Ending = *less
		}
		return r.write(ctx, o.Run, o.status(e))
	})
}

// write stores the status if it differs, and tells what it made true only after it is stored.
func (r *Reconciler) write(ctx context.Context, run *v1alpha1.AgentRun, status v1alpha1.AgentRunStatus) error {
	if equality.Semantic.DeepEqual(run.Status, status) {
		return nil
	}
	updated, begun := run.DeepCopy(), r.Now()
	updated.Status = status
	if err := r.Client.Status().Update(ctx, updated); apierrors.IsNotFound(err) {
		return nil // deleted meanwhile
	} else if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	signals.Signals{Events: r.Events, Log: r.Log, Spans: r.Spans}.Run(signals.Write{Before: run, After: updated, Begun: begun, Done: r.Now()})
	return nil
}

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
	return r.deletePodIf(ctx, p, client.Preconditions{UID: &p.UID})
}

// deletePodIf leaves a Pod alone that is another one by now; its events lead to another look.
func (r *Reconciler) deletePodIf(ctx context.Context, p *corev1.Pod, only client.Preconditions) error {
	err := r.Client.Delete(ctx, p, only)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Pod: %w", err)
	}
	return nil
}
