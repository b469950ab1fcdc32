package deliver

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
	"github.com/hearthdev/hearth/internal/crashpoint"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// runReconciler carries one delivered run on: observe once, decide once, act, one status write.
type runReconciler struct{ *courier }

// Reconcile implements reconcile.Reconciler.
func (r runReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cached hearthv1.AgentRun
	err := r.kube.Get(ctx, req.NamespacedName, &cached, kube.UnsafeDisableDeepCopy) // what it points to is shared
	switch {
	case apierrors.IsNotFound(err):
		r.newest.drop(req.NamespacedName)
		r.over(req.NamespacedName)
		next := r.sweep(ctx, req.NamespacedName, nil)
		return at(r.now(), next), nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read run %s: %w", req.Name, err)
	}
	run := r.newest.pick(&cached)
	next := r.sweep(ctx, req.NamespacedName, run)
	if !delivered(run) || terminal(run) {
		r.over(req.NamespacedName)
		return at(r.now(), next), nil
	}
	due, err := r.carryOn(ctx, run)
	if wait, held := record.HeldFor(err); held {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if wait, lost := lostRace(err); lost {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return at(r.now(), earliest(next, due)), nil
}

// carryOn decides about a living run and does what was decided.
func (r runReconciler) carryOn(ctx context.Context, run *hearthv1.AgentRun) (time.Time, error) {
	value := toRun(run)
	obs, at, err := r.observe(ctx, run, value)
	if err != nil {
		return time.Time{}, err
	}
	d := delivery.Decide(r.now(), value, obs)
	if d.Action == delivery.ActionReadPod {
		r.readPod(ctx, run, value, &obs)
		d = delivery.Decide(r.now(), value, obs)
	}
	if d.Action == delivery.ActionReadRun {
		var live hearthv1.AgentRun
		if err := r.live.Get(ctx, kube.ObjectKeyFromObject(run), &live); err != nil {
			return time.Time{}, fmt.Errorf("read run %s: %w", run.Name, err)
		}
		if live.UID != run.UID || terminal(&live) {
			if newer(&live, run) {
				r.newest.put(&live)
			}
			return r.now().Add(again), nil // the cache catches up
		}
		run, value, obs.LiveRun = &live, toRun(&live), true
		d = delivery.Decide(r.now(), value, obs)
	}
	return r.act(ctx, run, value, obs, at, d)
}

// act writes what was decided and only then tells the Link: the intent comes before the effect.
func (r runReconciler) act(ctx context.Context, run *hearthv1.AgentRun, value delivery.Run, obs delivery.Observed, at endpoint, d delivery.Decision) (time.Time, error) {
	run, err := r.intend(ctx, run, at, d)
	if err != nil {
		return time.Time{}, err
	}
	if obs.Seen != nil {
		r.memory.took(value.PodUID)
	}
	link, open := r.links.Get(value.PodUID)
	ref, key := runRef(run), client.Key{RunUID: value.UID, Attempt: value.Attempt}
	switch d.Action {
	case delivery.ActionNone:
	case delivery.ActionSend:
		if open {
			err = r.send(run, link, obs.Sent.Count) //nolint:contextcheck // a span's parent is the run's, not the caller's
		}
	case delivery.ActionLook:
		if open {
			err = link.Look(ref, value.Attempt)
		}
	case delivery.ActionVoid:
		if open {
			err = link.Void(ref, value.Attempt)
		}
	case delivery.ActionCancel:
		crashpoint.Reach(crashpoint.AfterCancelSeen)
		if open {
			err = link.Cancel(ref, value.Attempt, r.trace(run))
		}
	case delivery.ActionReadPod, delivery.ActionReadRun, delivery.ActionDisown:
		return r.now().Add(time.Millisecond), nil // decide again with what is known now
	case delivery.ActionGiveBack, delivery.ActionNextAttempt:
		r.givenBack(run, value, obs)
	case delivery.ActionRecord:
		crashpoint.Reach(crashpoint.AfterTerminal)
		if open {
			err = link.Recorded(ref, value.Attempt)
		}
		r.over(kube.ObjectKeyFromObject(run))
	case delivery.ActionFinish:
		if open {
			link.Forget(key)
		}
		r.over(kube.ObjectKeyFromObject(run))
		r.agents.wake(agentKey(run)) // the room that it had reserved is free
	default:
		return time.Time{}, fmt.Errorf("no such action: %d", d.Action)
	}
	if err != nil { // the Link's queue is full, or it was closed just now
		return r.now().Add(again), nil //nolint:nilerr // not an error of this pass
	}
	return d.RequeueAt, nil
}

// intend writes the status that goes with a decision, if any, and gives the run as it is then.
func (r runReconciler) intend(ctx context.Context, run *hearthv1.AgentRun, at endpoint, d delivery.Decision) (*hearthv1.AgentRun, error) {
	if d.Action == delivery.ActionRecord {
		crashpoint.Reach(crashpoint.AfterResult)
	}
	if d.Status == nil {
		return run, nil
	}
	return r.writeStatus(ctx, run, *d.Status, at, string(d.Lost))
}

// givenBack clears up after a reservation that is over, and has the run assigned again.
func (r runReconciler) givenBack(run *hearthv1.AgentRun, value delivery.Run, obs delivery.Observed) {
	if obs.Sent.Count > 0 && obs.Sent.Outcome == delivery.SendNotTaken {
		r.memory.refusedBy(value.PodUID, r.now(), obs.Sent.RetryAt, r.jitter())
	}
	if link, open := r.links.Get(value.PodUID); open {
		link.Forget(client.Key{RunUID: value.UID, Attempt: value.Attempt})
		if obs.Seen != nil && obs.Seen.State == wire.StateVoided {
			// A full queue only means that the tombstone stays in the feed.
			_ = link.Recorded(runRef(run), value.Attempt)
		}
	}
	r.over(kube.ObjectKeyFromObject(run))
	r.agents.wake(agentKey(run))
}

// over forgets about a reservation that does not exist any more. Its Pod may have nothing left now.
func (r runReconciler) over(run types.NamespacedName) {
	podUID := r.memory.forget(run)
	r.mu.Lock()
	p, open := r.open[podUID]
	r.mu.Unlock()
	if open {
		r.standing.wake(p.agent)
	}
}

// send hands a delivery to the Link, noting beforehand that it may leave.
func (c *courier) send(run *hearthv1.AgentRun, link Link, begun int) error {
	now := c.now()
	c.memory.about(run, toRun(run).Reservation, now, func(n *note) { n.handed = true })
	span := c.spans.Delivering(run, now)
	d := client.Delivery{
		DeliveryRequest: toRequest(now, run), Trace: client.Trace{Parent: span.Parent, State: span.State},
		Done: func(s delivery.Sent) { c.sentOff(s, span) },
	}
	if err := link.Send(d, begun); err != nil {
		return fmt.Errorf("send run %s: %w", run.Name, err)
	}
	return nil
}
