package invariant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/history"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func micro(seconds int) *metav1.MicroTime {
	m := metav1.NewMicroTime(at(seconds))
	return &m
}

// version is run "a" as the change makes it: a delivered run with attempt 1 reserved on Pod p.
func version(change func(*hearthv1.AgentRun)) history.Version {
	r := &hearthv1.AgentRun{}
	r.Name, r.Namespace, r.UID, r.CreationTimestamp = "a", "ns", "a", metav1.NewTime(start)
	starting, active := int64(10), int64(20)
	r.Spec.StartingDeadlineSeconds, r.Spec.ActiveDeadlineSeconds = &starting, &active
	r.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, PodUID: "p", ReservedAt: micro(1)}
	if change != nil {
		change(r)
	}
	return history.Version{Type: watch.Modified, At: start, Run: r}
}

func gone(second int) history.Version {
	v := version(nil)
	v.Type, v.At = watch.Deleted, at(second)
	return v
}

func recorded(reason string) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		r.Status.Phase, r.Status.Reason, r.Status.PodUID = hearthv1.PhaseFailed, reason, "p"
		r.Status.CompletionTime, r.Status.RecordedAt = micro(2), micro(2)
		r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionFalse}}
	}
}

func backoff(limit int32, attempt int64) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) { r.Spec.BackoffLimit, r.Status.Delivery.Attempt = &limit, attempt }
}

func effect(attempt int64) Effect {
	return Effect{Run: "a", Attempt: attempt, Started: at(1), Ended: at(2)}
}

func endless() Effect { return Effect{Run: "a", Attempt: 1, Started: at(1)} }

// Each violation is found, and what is allowed is none.
func TestEachViolationIsFound(t *testing.T) {
	all := func(v ...history.Version) []history.Version { return v }
	up := []Span{{From: at(0), To: at(20)}, {From: at(30)}}
	for name, tt := range map[string]struct {
		facts Facts
		found []Name
	}{
		"nothing happened": {facts: Facts{}},
		"one effect":       {facts: Facts{Versions: all(version(nil)), Effects: []Effect{effect(1)}}},

		"I1: twice the same attempt":             {facts: Facts{Versions: all(version(backoff(5, 1))), Effects: []Effect{effect(1), effect(1)}}, found: []Name{I1}},
		"I1: a second attempt without a limit":   {facts: Facts{Versions: all(version(backoff(0, 2))), Effects: []Effect{effect(1), effect(2)}}, found: []Name{I1}},
		"a second attempt within the limit":      {facts: Facts{Versions: all(version(backoff(1, 2))), Effects: []Effect{effect(1), effect(2)}}},
		"I1: a third beyond the limit":           {facts: Facts{Versions: all(version(backoff(1, 3))), Effects: []Effect{effect(1), effect(2), effect(3)}}, found: []Name{I1}},
		"I1: an attempt that was never reserved": {facts: Facts{Versions: all(version(nil)), Effects: []Effect{effect(2)}}, found: []Name{I1}},
		"I1: an effect without an attempt":       {facts: Facts{Versions: all(version(nil)), Effects: []Effect{effect(0)}}, found: []Name{I1}},
		"I1: work for no run":                    {facts: Facts{Versions: all(version(nil)), Effects: []Effect{{Run: "b", Attempt: 1}}}, found: []Name{I1}},
		"I2: a record that changed":              {facts: Facts{Versions: all(version(recorded("Completed")), version(recorded("TargetLost")))}, found: []Name{I2}},
		"I7: an attempt that shrank":             {facts: Facts{Versions: all(version(backoff(3, 3)), version(backoff(3, 2)))}, found: []Name{I7}},
		"I7: a reservation that moved": {facts: Facts{Versions: all(version(nil), version(func(r *hearthv1.AgentRun) { r.Status.Delivery.PodUID = "q" }))},
			found: []Name{I7}},

		"alive before its deadline":        {facts: Facts{Versions: all(version(nil)), Now: at(10 + 20 + 60)}},
		"I3: alive past its deadline":      {facts: Facts{Versions: all(version(nil)), Now: at(10 + 20 + 61)}, found: []Name{I3}},
		"alive within the grace":           {facts: Facts{Versions: all(version(nil)), Now: at(10 + 20 + 61), Grace: 5 * time.Second}},
		"ended in time":                    {facts: Facts{Versions: all(version(recorded("Completed"))), Now: at(1000)}},
		"I3: waits past its deadline":      {facts: Facts{Versions: all(version(func(r *hearthv1.AgentRun) { r.Status.Delivery = nil })), Now: at(10 + 31)}, found: []Name{I3}},
		"a loss moves the deadline":        {facts: Facts{Versions: all(version(func(r *hearthv1.AgentRun) { r.Status.Delivery.SpentSeconds = 9 })), Now: at(10 + 20 + 61)}},
		"a standing run has no deadline":   {facts: Facts{Versions: all(version(func(r *hearthv1.AgentRun) { r.Spec.ActiveDeadlineSeconds = nil })), Now: at(1e6)}},
		"a deleted run has none either":    {facts: Facts{Versions: all(version(nil), gone(1)), Now: at(1000)}},
		"I4: a finalizer":                  {facts: Facts{Versions: all(version(func(r *hearthv1.AgentRun) { r.Finalizers = []string{"hearth.dev/stay"} }))}, found: []Name{I4}},
		"what a person asked for":          {facts: Facts{Versions: all(version(func(r *hearthv1.AgentRun) { r.Finalizers = []string{"foregroundDeletion"} }))}},
		"I4: it works on after the delete": {facts: Facts{Versions: all(version(nil), gone(10)), Effects: []Effect{endless()}, Up: up, Now: at(61)}, found: []Name{I4}},
		"I4: it ended too late": {facts: Facts{Versions: all(version(nil), gone(10)), Effects: []Effect{{Run: "a", Attempt: 1, Ended: at(65)}}, Up: up, Now: at(99)},
			found: []Name{I4}},
		"thirty seconds are not over":   {facts: Facts{Versions: all(version(nil), gone(10)), Effects: []Effect{endless()}, Up: up, Now: at(59)}},
		"no controller was there":       {facts: Facts{Versions: all(version(nil), gone(10)), Effects: []Effect{endless()}, Up: up[:1], Now: at(1000)}},
		"it ended before it was late":   {facts: Facts{Versions: all(version(nil), gone(10)), Effects: []Effect{effect(1)}, Up: up, Now: at(1000)}},
		"I5: a cancel that none wanted": {facts: Facts{Versions: all(version(nil)), Cancels: []Cancel{{Run: "a", Attempt: 1, Pod: "p"}}}, found: []Name{I5}},
		"a cancel that was asked for":   {facts: Facts{Versions: all(version(func(r *hearthv1.AgentRun) { r.Spec.Cancel = true })), Cancels: []Cancel{{Run: "a", Attempt: 1}}}},
		"of a run that is gone":         {facts: Facts{Versions: all(version(nil), gone(1)), Cancels: []Cancel{{Run: "a", Attempt: 1}}}},
		"of an attempt that is past":    {facts: Facts{Versions: all(version(backoff(1, 2))), Cancels: []Cancel{{Run: "a", Attempt: 1}}}},
		"of another Pod than its own":   {facts: Facts{Versions: all(version(nil)), Cancels: []Cancel{{Run: "a", Attempt: 1, Pod: "old"}}}},
		"I5: recorded as cancelled":     {facts: Facts{Versions: all(version(recorded(hearthv1.ReasonCancelled)))}, found: []Name{I5}},
		"cancelled by the drain": {facts: Facts{Versions: all(version(recorded(hearthv1.ReasonCancelled))),
			Drained: map[types.UID]bool{"p": true}}},
		"I6": {facts: Facts{Processes: []Process{{Name: "controller", After: Sample{Goroutines: 1}}}}, found: []Name{I6}},
		"I8": {facts: Facts{Texts: []Text{{"a log", "the goal is: review it"}}, Secrets: []Secret{{Name: "goal", Value: "review it"}}}, found: []Name{I8}},
	} {
		t.Run(name, func(t *testing.T) {
			var found []Name
			for _, v := range Check(tt.facts) {
				found = append(found, v.Invariant)
			}
			assert.Equal(t, tt.found, found, Say(Check(tt.facts)))
		})
	}
}
