package page

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// survey is what the runs that have not ended say about Agents and targets, read in one pass. It holds on every replica, because it is made of what
// was persisted and not of what the leader's Links know.
type survey struct {
	standing map[types.NamespacedName][]*hearthv1.AgentRun // by Agent, by name
	held     map[types.UID]int                             // delivered runs that have a target, by its Pod
	waiting  map[types.NamespacedName]int                  // by Agent
	active   map[types.NamespacedName]int                  // runs with a Pod of their own that wait or work, by Agent
	// queue are the runs that wait, the oldest first.
	queue *first
	// Running counts the runs that work.
	Running int
}

func surveyed(living []*hearthv1.AgentRun, queued int) *survey {
	s := &survey{
		standing: map[types.NamespacedName][]*hearthv1.AgentRun{}, held: map[types.UID]int{},
		waiting: map[types.NamespacedName]int{}, active: map[types.NamespacedName]int{}, queue: newFirst(queued, oldestFirst),
	}
	for _, r := range living {
		s.add(r)
	}
	for _, runs := range s.standing {
		slices.SortFunc(runs, func(a, b *hearthv1.AgentRun) int { return byName(a, b) })
	}
	return s
}

func (s *survey) add(r *hearthv1.AgentRun) {
	agent := agentKey(r)
	if r.Ended() {
		return
	}
	if r.Standing() {
		s.standing[agent] = append(s.standing[agent], r)
		return
	}
	if r.OneShot() {
		s.active[agent]++
	} else if d := r.Status.Delivery; d != nil && d.ReservedAt != nil {
		s.held[d.PodUID]++
	}
	if waiting(r) {
		s.waiting[agent]++
		s.queue.add(r)
	}
	if phase(r) == hearthv1.PhaseRunning {
		s.Running++
	}
}

func agentKey(r *hearthv1.AgentRun) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.AgentRef.Name}
}

// meter is how much of something is taken.
type meter struct{ Used, Of int }

// Text is the meter in words.
func (m meter) Text() string { return fmt.Sprintf("%d of %d", m.Used, m.Of) }

// targetRow is a standing run and its Pod.
type targetRow struct {
	Namespace, Name, Pod string
	State                badge
	Reason               string
	// Takes tells whether runs are delivered to it. What it holds fills its slots first and then its queue.
	Takes        bool
	Slots, Queue meter
	Restarts     int32
	Since        stamp
}

func (s *survey) target(r *hearthv1.AgentRun, v view) targetRow {
	t := targetRow{
		Namespace: r.Namespace, Name: r.Name, Pod: clean(r.Status.PodName, maxCell), Restarts: r.Status.Restarts,
		Since: v.at(r.CreationTimestamp.Time),
	}
	switch {
	case r.Status.CordonedAt != nil:
		t.State = badge{Tone: toneBusy, Word: "draining"}
	case isTrue(r.Status.Conditions, hearthv1.AgentRunConditionACPReady):
		t.State = badge{Tone: toneGood, Word: "listening"}
	default:
		t.State = badge{Tone: toneWait, Word: "not listening"}
		t.Reason = reason(r)
	}
	if r.Spec.Runtime == nil || r.Spec.Runtime.Delivery == nil {
		return t
	}
	held, d := s.held[r.Status.PodUID], r.Spec.Runtime.Delivery
	t.Takes, t.Slots.Of, t.Queue.Of = true, max(1, int(d.Concurrency)), 1
	if d.Queue != nil {
		t.Queue.Of = int(*d.Queue)
	}
	if r.Status.PodUID == "" {
		held = 0
	}
	t.Slots.Used = min(held, t.Slots.Of)
	t.Queue.Used = held - t.Slots.Used
	return t
}
