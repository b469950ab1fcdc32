package deliver

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// toRun reads a delivered AgentRun as a value.
func toRun(r *hearthv1.AgentRun) delivery.Run {
	out := delivery.Run{
		UID: string(r.UID), Namespace: r.Namespace, Name: r.Name,
		Generation: r.Spec.AgentRef.Generation, Created: r.CreationTimestamp.Time, Cancel: r.Spec.Cancel,
		Admitted: admitted(r), Terminal: terminal(r), Phase: delivery.Phase(r.Status.Phase),
		Starting: seconds(r.Spec.StartingDeadlineSeconds), Active: seconds(r.Spec.ActiveDeadlineSeconds),
	}
	if r.Spec.BackoffLimit != nil {
		out.BackoffLimit = *r.Spec.BackoffLimit
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, hearthv1.AgentRunConditionSucceeded); c != nil {
		out.Reason = delivery.Reason(c.Reason)
	}
	if d := r.Status.Delivery; d != nil {
		out.Progress = delivery.Progress{
			Reservation: delivery.Reservation{
				Attempt: d.Attempt, PodName: d.PodName, PodUID: string(d.PodUID), Journal: d.Journal, Digest: d.Digest,
				Generation: d.TargetGeneration, By: d.ReservedBy, At: micro(d.ReservedAt),
			},
			AcceptedAt: micro(d.AcceptedAt), Session: d.Session, Losses: d.Losses,
			Spent: time.Duration(d.SpentSeconds) * time.Second, NextTime: micro(d.NextTime),
		}
	}
	out.StartedAt = micro(r.Status.StartTime)
	return out
}

// delivered tells whether a run is carried out by a standing run's agent.
func delivered(r *hearthv1.AgentRun) bool { return r.Spec.Delivery != nil }

func terminal(r *hearthv1.AgentRun) bool { return r.Status.CompletionTime != nil }

// waiting tells whether a delivered run has no target.
func waiting(r *hearthv1.AgentRun) bool {
	return delivered(r) && !terminal(r) && (r.Status.Delivery == nil || r.Status.Delivery.ReservedAt == nil)
}

// admitted tells whether admission resolved the run: everything that only it writes is there (fault row 45).
func admitted(r *hearthv1.AgentRun) bool {
	return r.Spec.Goal != "" && r.Spec.AgentRef.UID != "" && r.Spec.Runtime != nil && r.Spec.Runtime.Delivery != nil &&
		r.Spec.StartingDeadlineSeconds != nil && r.Spec.ActiveDeadlineSeconds != nil
}

// toRunRead is what Orphan needs to know of a run, about one attempt.
func toRunRead(r *hearthv1.AgentRun, attempt int64, podUID string, live bool) delivery.RunRead {
	out := delivery.RunRead{Live: live, Found: true, UID: string(r.UID), Terminal: terminal(r)}
	if d := r.Status.Delivery; d != nil {
		out.Attempt = d.Attempt
		if d.ReservedAt != nil {
			out.PodUID = string(d.PodUID)
		}
		out.Recorded = out.Terminal && d.Attempt == attempt && string(d.PodUID) == podUID && r.Status.Outcome != ""
	}
	return out
}

// toRequest is what a target is sent. The journal is the reservation's: a harness that has another one must refuse.
func toRequest(now time.Time, r *hearthv1.AgentRun) wire.DeliveryRequest {
	run := toRun(r)
	startWithin := delivery.StartWithin(now, run)
	limits := &wire.Limits{StartWithinSeconds: &startWithin, ActiveSeconds: r.Spec.ActiveDeadlineSeconds}
	if b := r.Spec.Budget; b != nil {
		limits.Tokens = b.Tokens
		if b.Cost != nil {
			limits.Cost = &wire.Cost{Amount: b.Cost.Amount, Currency: b.Cost.Currency}
		}
	}
	return wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: runRef(r), Attempt: run.Attempt,
		Target:  wire.Target{Name: run.PodName, UID: run.PodUID},
		Journal: run.Journal, Goal: r.Spec.Goal, Session: sessionOf(r),
		Limits: limits,
	}
}

// sessionOf is the session that the run's own copy of the Agent's runtime asks for.
func sessionOf(r *hearthv1.AgentRun) wire.SessionMode {
	if r.Spec.Runtime != nil && r.Spec.Runtime.Session == hearthv1.SessionStanding {
		return wire.SessionStanding
	}
	return wire.SessionFresh
}

func runRef(r *hearthv1.AgentRun) wire.RunRef {
	return wire.RunRef{Namespace: r.Namespace, Name: r.Name, UID: string(r.UID)}
}

func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

func micro(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
