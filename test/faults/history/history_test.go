package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

var clock = metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// story is the versions of one run as steps change it.
type story struct {
	run      hearthv1.AgentRun
	versions []Version
}

func begin(uid types.UID) *story {
	s := &story{}
	s.run.Name, s.run.Namespace, s.run.UID = "run", "ns", uid
	s.run.Spec.Goal = "work"
	return s.then(watch.Added, nil)
}

func (s *story) then(kind watch.EventType, change func(*hearthv1.AgentRun)) *story {
	if change != nil {
		change(&s.run)
	}
	s.versions = append(s.versions, Version{Type: kind, Run: s.run.DeepCopy()})
	return s
}

func (s *story) is(change func(*hearthv1.AgentRun)) *story { return s.then(watch.Modified, change) }

func reserved(attempt int64, pod types.UID) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		r.Status.Phase = hearthv1.PhasePending
		r.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: attempt, PodUID: pod, Journal: "j", Digest: "d", ReservedAt: &clock}
	}
}

func givenBack(r *hearthv1.AgentRun) {
	r.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: r.Status.Delivery.Attempt}
}

func recorded(reason string) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		r.Status.Phase, r.Status.Reason = hearthv1.PhaseFailed, reason
		r.Status.CompletionTime, r.Status.RecordedAt = &clock, &clock
		r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionFalse, Reason: reason}}
	}
}

func deleted(*hearthv1.AgentRun) {}

// I2, I7: what a run may do in its life, and each thing that it may not.
func TestAHistoryThatMayNotBeIsFound(t *testing.T) {
	for name, tt := range map[string]struct {
		story *story
		rules []Rule
	}{
		"a whole life": {story: begin("a").is(reserved(1, "p1")).is(givenBack).is(reserved(2, "p2")).
			is(func(r *hearthv1.AgentRun) { r.Spec.Cancel = true }).is(recorded("Cancelled")).then(watch.Deleted, deleted)},
		"accepted: the reservation says more": {story: begin("a").is(reserved(1, "p1")).
			is(func(r *hearthv1.AgentRun) {
				r.Status.Delivery.AcceptedAt = &clock
				r.Status.Phase = hearthv1.PhaseRunning
			})},
		"a record that changes": {story: begin("a").is(recorded("Completed")).is(recorded("TargetLost")), rules: []Rule{RecordChanged}},
		"a record that is taken away": {story: begin("a").is(recorded("Completed")).is(func(r *hearthv1.AgentRun) { r.Status = hearthv1.AgentRunStatus{} }),
			rules: []Rule{RecordChanged, PhaseLeft}},
		"a record in two writes": {story: begin("a").is(func(r *hearthv1.AgentRun) { r.Status.Phase = hearthv1.PhaseFailed }).is(recorded("Cancelled")),
			rules: []Rule{RecordHalf}},
		"a record without its reason":               {story: begin("a").is(recorded("")), rules: []Rule{RecordHalf}},
		"an attempt number that shrinks":            {story: begin("a").is(reserved(2, "p1")).is(reserved(1, "p2")), rules: []Rule{AttemptShrank}},
		"an attempt number that goes away":          {story: begin("a").is(reserved(2, "p1")).is(func(r *hearthv1.AgentRun) { r.Status.Delivery = nil }), rules: []Rule{AttemptShrank}},
		"another Pod under the same number":         {story: begin("a").is(reserved(1, "p1")).is(reserved(1, "p2")), rules: []Rule{ReservationMoved}},
		"another journal under the same number":     {story: begin("a").is(reserved(1, "p")).is(func(r *hearthv1.AgentRun) { r.Status.Delivery.Journal = "k" }), rules: []Rule{ReservationMoved}},
		"a number that comes back":                  {story: begin("a").is(reserved(1, "p1")).is(givenBack).is(reserved(1, "p1")), rules: []Rule{ReservationBack}},
		"another goal":                              {story: begin("a").is(func(r *hearthv1.AgentRun) { r.Spec.Goal = "else" }), rules: []Rule{SpecChanged}},
		"a cancel that is taken back":               {story: begin("a").is(func(r *hearthv1.AgentRun) { r.Spec.Cancel = true }).is(func(r *hearthv1.AgentRun) { r.Spec.Cancel = false }), rules: []Rule{CancelTaken}},
		"a run after its deletion":                  {story: begin("a").then(watch.Deleted, deleted).is(reserved(1, "p")), rules: []Rule{AfterDeletion}},
		"another run under the name, first is gone": {story: begin("a").then(watch.Deleted, deleted).then(watch.Added, func(r *hearthv1.AgentRun) { r.UID = "b" })},
		"another run under the name of one":         {story: begin("a").then(watch.Added, func(r *hearthv1.AgentRun) { r.UID = "b" }), rules: []Rule{NameReused}},
		"the old result on the run that follows": {story: begin("a").is(reserved(1, "p")).then(watch.Deleted, deleted).
			then(watch.Added, func(r *hearthv1.AgentRun) { r.UID = "b"; r.Status = hearthv1.AgentRunStatus{} }).is(recorded("Completed")).is(recorded("Cancelled")), rules: []Rule{RecordChanged}},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []Rule
			for _, p := range Check(tt.story.versions) {
				rules = append(rules, p.Rule)
				assert.Contains(t, p.String(), "ns/run")
			}
			assert.Equal(t, tt.rules, rules)
		})
	}
}

func TestLastIsTheLastOfEachRun(t *testing.T) {
	a, b := begin("a").is(recorded("Completed")), begin("b")
	last := Last([]Version{a.versions[0], b.versions[0], a.versions[1]})
	require.Len(t, last, 2)
	assert.True(t, Terminal(last[0].Run))
	assert.False(t, Terminal(last[1].Run))
}
