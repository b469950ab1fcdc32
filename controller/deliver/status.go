package deliver

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/delivery"
)

// endpoint is the target's ACP endpoint, which a delivered run shows as its own (R4).
type endpoint struct {
	listening        bool
	message, address string
}

// withStatus gives the run with the wanted status, or nil when what is stored says the same: then there is nothing to write.
// A delivered run's ACPReady, and a message alone, are no reason for a write; they go along with one.
func withStatus(now time.Time, run *hearthv1.AgentRun, want delivery.Status, at endpoint) *hearthv1.AgentRun {
	wanted := hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Generation: run.Generation}, Status: *run.Status.DeepCopy()}
	apply(now, &wanted, want)
	if same(run.Status, wanted.Status) {
		return nil
	}
	out := run.DeepCopy() // only what is written: most looks lead to nothing
	out.Status = wanted.Status
	ready := metav1.Condition{Type: hearthv1.AgentRunConditionACPReady, Status: metav1.ConditionFalse, Reason: hearthv1.ReasonNotListening, Message: at.message}
	out.Status.Address = ""
	switch {
	case want.ACPReady != nil:
		ready = condition(hearthv1.AgentRunConditionACPReady, *want.ACPReady)
	case at.listening:
		ready.Status, ready.Reason = metav1.ConditionTrue, hearthv1.ReasonListening
		out.Status.Address = at.address
	}
	set(now, out, ready)
	return out
}

// apply writes everything but ACPReady and what goes with it.
func apply(now time.Time, run *hearthv1.AgentRun, want delivery.Status) {
	s := &run.Status
	s.Phase = hearthv1.Phase(want.Phase)
	set(now, run, condition(hearthv1.AgentRunConditionSucceeded, want.Succeeded))
	set(now, run, condition(hearthv1.AgentRunConditionDelivered, want.Delivered))
	p := want.Progress
	s.PodName, s.PodUID = p.PodName, types.UID(p.PodUID)
	s.StartTime = record.Micro(p.StartedAt)
	s.Delivery = &hearthv1.DeliveryStatus{
		Attempt: p.Attempt, PodName: p.PodName, PodUID: types.UID(p.PodUID), Journal: p.Journal, Session: p.Session, Digest: p.Digest,
		ReservedAt: record.Micro(p.At), ReservedBy: p.By, AcceptedAt: record.Micro(p.AcceptedAt), Losses: p.Losses,
		SpentSeconds: int64(p.Spent / time.Second), TargetGeneration: p.Generation, NextTime: record.Micro(p.NextTime),
	}
	if want.Ending != nil {
		record.Put(s, *want.Ending)
	}
}

// same compares two statuses without messages and without what only goes along.
func same(a, b hearthv1.AgentRunStatus) bool {
	return equality.Semantic.DeepEqual(essence(a), essence(b))
}

func essence(s hearthv1.AgentRunStatus) hearthv1.AgentRunStatus {
	conditions := make([]metav1.Condition, 0, len(s.Conditions))
	for _, c := range s.Conditions {
		if c.Type == hearthv1.AgentRunConditionACPReady {
			continue
		}
		conditions = append(conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	s.Conditions, s.Address = conditions, ""
	return s
}

// condition makes a wanted condition into one of the API, which demands a reason.
func condition(kind string, c delivery.Condition) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(c.Status), Message: c.Message,
		Reason: cmp.Or(string(c.Reason), hearthv1.ReasonResolved),
	}
}

// set sets a condition; its transition time moves only with its status.
func set(now time.Time, run *hearthv1.AgentRun, c metav1.Condition) {
	c.ObservedGeneration = run.Generation
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second)) // as it is stored, so that what comes back is what was sent
	meta.SetStatusCondition(&run.Status.Conditions, c)
}
