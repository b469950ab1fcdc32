package deliver

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/internal/crashpoint"
)

// assignReconciler reserves targets for the waiting runs of one Agent. One key at a time per Agent, so two passes never give
// the same room away twice.
type assignReconciler struct{ *courier }

// Reconcile implements reconcile.Reconciler.
func (a assignReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if pause := a.queues.pause(req.NamespacedName, a.now()); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	waiting, err := a.waitingFor(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	a.queues.looked(req.NamespacedName, a.now(), len(waiting))
	if len(waiting) == 0 {
		return ctrl.Result{}, nil
	}
	var agent hearthv1.Agent
	if err := a.kube.Get(ctx, req.NamespacedName, &agent, kube.UnsafeDisableDeepCopy); err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("read agent %s: %w", req.Name, err)
	}
	values, byUID := make([]delivery.Run, 0, len(waiting)), make(map[string]*hearthv1.AgentRun, len(waiting))
	for _, run := range waiting {
		if run.Spec.AgentRef.UID != agent.UID || !admitted(run) {
			a.runs.wake(kube.ObjectKeyFromObject(run)) // Decide says what becomes of it
			continue
		}
		values = append(values, toRun(run))
		byUID[string(run.UID)] = run
	}
	if len(values) == 0 {
		return ctrl.Result{}, nil
	}
	defer a.passing(req.NamespacedName)() // from before it is read who takes work until what was reserved there is known
	pool, ends, err := a.pool(ctx, &agent)
	if err != nil {
		return ctrl.Result{}, err
	}
	out := delivery.Assign(a.now(), values, pool)
	next, err := a.reserve(ctx, out.Reserves, byUID, ends)
	if err != nil {
		return ctrl.Result{}, err
	}
	left, err := a.refuse(ctx, req.NamespacedName, out, byUID)
	if err != nil {
		return ctrl.Result{}, err
	}
	if next = sooner(next, left); next > 0 {
		return at(a.now(), earliest(a.now().Add(next), out.RequeueAt)), nil
	}
	return at(a.now(), out.RequeueAt), nil
}

// waitingFor lists the waiting runs of an Agent's name, each as new as we know it. They are shared and must not be changed.
func (a assignReconciler) waitingFor(ctx context.Context, req ctrl.Request) ([]*hearthv1.AgentRun, error) {
	var list hearthv1.AgentRunList
	err := a.kube.List(ctx, &list, kube.InNamespace(req.Namespace), kube.MatchingFields{indexWaiting: req.Name}, kube.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list waiting runs: %w", err)
	}
	out := make([]*hearthv1.AgentRun, 0, len(list.Items))
	for i := range list.Items {
		if r := a.newest.pick(&list.Items[i]); waiting(r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// reserve writes the reservations, several at once, and hands each to its Link as soon as it is written. Lost tells that one of
// them lost a race; of that one nothing was sent.
func (a assignReconciler) reserve(ctx context.Context, reserves []delivery.Reserve, runs map[string]*hearthv1.AgentRun, ends map[string]endpoint) (next time.Duration, err error) {
	var not unwritten
	group, ctx := writing(ctx)
	for _, r := range reserves {
		group.do(func() error {
			run := runs[r.Run]
			reservation := r.Reservation.Seal(string(run.UID), run.Spec.Goal)
			// Before the write: it carries our name, so only our own can match, also when its reply is lost. Until this pass is
			// through with it, nobody else may say that it was not sent.
			a.memory.about(run, reservation, a.now(), func(n *note) { n.mine, n.sending = true, true })
			defer a.sent(run, reservation)
			crashpoint.Reach(crashpoint.BeforeReserve)
			written, err := a.writeStatus(ctx, run, delivery.ReserveStatus(toRun(run), reservation), ends[reservation.PodUID], "")
			if err != nil {
				if _, lost := lostRace(err); lost {
					metrics.ReserveConflict()
				}
				return not.because(err)
			}
			crashpoint.Reach(crashpoint.AfterReserve)
			a.sendFirst(written) //nolint:contextcheck // a span's parent is the run's, not the caller's
			return nil
		})
	}
	if err := group.wait(); err != nil {
		return 0, fmt.Errorf("reserve: %w", err)
	}
	return not.next(), nil
}

// sent: the pass that reserved is through with it, whatever came of that. Who looked meanwhile left it alone and looks again.
func (a assignReconciler) sent(run *hearthv1.AgentRun, r delivery.Reservation) {
	a.memory.about(run, r, a.now(), func(n *note) { n.sending = false })
	a.runs.wake(kube.ObjectKeyFromObject(run))
}

// unwritten counts the writes of a pass that one run lost and the others need not wait for.
type unwritten struct{ soon, later atomic.Int32 }

// because gives the errors back that the pass ends with.
func (u *unwritten) because(err error) error {
	_, held := record.HeldFor(err)
	wait, lost := lostRace(err)
	switch {
	case lost && wait == soon:
		u.soon.Add(1)
	case lost, held:
		u.later.Add(1)
	default:
		return err
	}
	return nil
}

// next is when to look again for them; zero is never.
func (u *unwritten) next() time.Duration {
	switch {
	case u.soon.Load() > 0:
		return soon
	case u.later.Load() > 0:
		return again
	}
	return 0
}

// sooner is the earlier of two, of which zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// sendFirst hands a reservation of our own to the Link. If that cannot be, its reconcile finds out.
func (a assignReconciler) sendFirst(run *hearthv1.AgentRun) {
	value := toRun(run)
	if link, open := a.links.Get(value.PodUID); open && !value.Cancel {
		if a.send(run, link, 0) == nil {
			return
		}
	}
	a.runs.wake(kube.ObjectKeyFromObject(run))
}

// refuse writes why runs wait, where that changed. Next tells when there is more to write; zero is never.
func (a assignReconciler) refuse(ctx context.Context, agent types.NamespacedName, out delivery.Assignments, runs map[string]*hearthv1.AgentRun) (next time.Duration, err error) {
	now, most, more := a.now(), maxRefusalWrites, soon
	busy := out.Refusal.Reason == delivery.ReasonTargetBusy
	if busy {
		most, more = a.queues.words(agent, now), busyAgain
	}
	untold := out.Untold(now, most+1)
	if len(untold) > most {
		untold, next = untold[:most], more
	}
	if busy {
		a.queues.told(agent, now, len(untold))
	}
	var not unwritten
	group, ctx := writing(ctx)
	for _, run := range untold {
		group.do(func() error {
			_, err := a.writeStatus(ctx, runs[run.UID], delivery.WaitStatus(*run, out.Refusal), endpoint{message: "no target is reserved"}, "")
			return not.because(err)
		})
	}
	if err := group.wait(); err != nil {
		return 0, fmt.Errorf("say why runs wait: %w", err)
	}
	return sooner(next, not.next()), nil
}
