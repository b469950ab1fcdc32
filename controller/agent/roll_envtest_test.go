package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver/room"
	"github.com/hearthdev/hearth/test/harness"
)

// SPEC.md, Lifecycle, Standing runs: a run in flight ends on the Pod that has it, what comes next goes to the new one, and a restart
// of the controller between the cordon and the delete changes nothing.
func TestARunInFlightEndsOnTheOldPodAndTheNextGoesToTheNew(t *testing.T) {
	w := newDeliveringWorld(t)
	stop := w.controller()
	a := w.Agent("reviewer")
	old := w.up("reviewer-1")
	a = w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding)
	first := w.deliver(a, "first", harness.HoldPrefix+"until told")
	w.says("first", v1alpha1.ReasonRunning)

	w.change(a, func(a *v1alpha1.Agent) { a.Spec.Template.Spec.Containers[0].Image = "registry/agent:2" })
	ip := room.NewIP()
	w.probed("reviewer-2", ip) // its probe is satisfied, and nobody is at its delivery port
	a = w.agentIs("reviewer", v1alpha1.AgentConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRolling)
	w.Eventually("the roll says what it waits for", func(ctx context.Context) bool {
		require.NoError(t, w.Get(ctx, w.Key("reviewer"), a))
		c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.AgentConditionProgressing)
		return a.Status.Replicas == 2 && a.Status.ReadyReplicas == 1 && strings.Contains(c.Message, "reviewer-2 listens, and its delivery port cannot be talked to")
	})
	assert.Nil(t, w.Run("reviewer-1", room.Exists).Status.CordonedAt, "the old one works on")

	fresh := w.boot("reviewer-2", ip)
	cordoned := w.Run("reviewer-1", isCordoned)
	w.deliver(a, "second", "Review PR 18.")
	second := w.Run("second", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, "reviewer-2", second.Status.PodName)
	assert.Len(t, fresh.Runner.Started(), 1)

	stop()
	w.controller()
	w.deliver(a, "third", "Review PR 19.")
	assert.Equal(t, "reviewer-2", w.Run("third", (*v1alpha1.AgentRun).Ended).Status.PodName)
	w.Eventually("what the Links say is known again", func(ctx context.Context) bool {
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.Busy == 1 && a.Status.ReadyReplicas == 1 && a.Status.Replicas == 2
	})
	again := w.Run("reviewer-1", room.Exists)
	assert.Equal(t, cordoned.Status.CordonedAt, again.Status.CordonedAt, "written once")
	assert.Equal(t, cordoned.UID, again.UID)
	w.says("first", v1alpha1.ReasonRunning)

	old.Runner.Release(string(first.UID))
	done := w.Run("first", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, []any{v1alpha1.PhaseSucceeded, "reviewer-1", int64(1)}, []any{done.Status.Phase, done.Status.PodName, done.Status.Delivery.Attempt})
	w.Gone(again)
	w.agentIs("reviewer", v1alpha1.AgentConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStanding)
}

// R33: what is scaled away carries out what it has, its queue included.
func TestScalingDownLosesNoQueue(t *testing.T) {
	w := newDeliveringWorld(t)
	w.controller()
	a := w.Agent("reviewer", func(a *v1alpha1.Agent) { a.Spec.Replicas = ptr.To[int32](2) })
	harnesses := map[string]*harness.Harness{"reviewer-1": w.up("reviewer-1"), "reviewer-2": w.up("reviewer-2")}
	w.Eventually("both are ready", func(ctx context.Context) bool {
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.ReadyReplicas == 2
	})
	on := map[string][]*v1alpha1.AgentRun{}
	for i := range 4 { // each has one running and one queued
		name := fmt.Sprint("work-", i)
		w.deliver(a, name, harness.HoldPrefix+name)
		r := w.Run(name, func(r *v1alpha1.AgentRun) bool {
			return r.Status.Delivery != nil && r.Status.Delivery.AcceptedAt != nil
		})
		on[r.Status.PodName] = append(on[r.Status.PodName], r)
	}
	require.Len(t, on["reviewer-1"], 2)
	require.Len(t, on["reviewer-2"], 2)
	w.Eventually("the counters", func(ctx context.Context) bool {
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.Busy == 2 && a.Status.Queued == 2
	})

	w.change(a, func(a *v1alpha1.Agent) { a.Spec.Replicas = ptr.To[int32](0) })
	w.Run("reviewer-1", isCordoned)
	w.Run("reviewer-2", isCordoned)
	w.deliver(a, "late", "Review PR 20.")
	w.says("late", v1alpha1.ReasonWaitingForService)
	w.change(a, func(a *v1alpha1.Agent) { a.Spec.Replicas = ptr.To[int32](1) }) // one of them is taken back: it is warm
	w.Eventually("one takes work again", func(ctx context.Context) bool {
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.ReadyReplicas == 1 && a.Status.Replicas == 2
	})
	for name, runs := range on {
		for _, r := range runs {
			harnesses[name].Runner.Release(string(r.UID))
		}
	}
	for name, runs := range on {
		for _, r := range runs {
			done := w.Run(r.Name, (*v1alpha1.AgentRun).Ended)
			assert.Equal(t, []any{v1alpha1.PhaseSucceeded, name, int64(1)}, []any{done.Status.Phase, done.Status.PodName, done.Status.Delivery.Attempt})
		}
	}
	assert.Equal(t, v1alpha1.PhaseSucceeded, w.Run("late", (*v1alpha1.AgentRun).Ended).Status.Phase)
	w.Eventually("one is left", func(ctx context.Context) bool { return len(w.standing(ctx, "reviewer")) == 1 })
}

// R33: twenty runs for three replicas of concurrency 2 and queue 1: never more than three at once in any harness, none is ever refused, and
// they are spread evenly.
func TestTwentyRunsAreSpreadOverThreeReplicas(t *testing.T) {
	w := newDeliveringWorld(t)
	w.controller()
	a := w.Agent("reviewer", func(a *v1alpha1.Agent) {
		a.Spec.Replicas, a.Spec.Runtime.Delivery.Concurrency = ptr.To[int32](3), 2
	})
	pods := []*harness.Harness{w.up("reviewer-1"), w.up("reviewer-2"), w.up("reviewer-3")}
	w.Eventually("three are ready", func(ctx context.Context) bool {
		return w.Get(ctx, w.Key("reviewer"), a) == nil && a.Status.ReadyReplicas == 3
	})
	for i := range 20 {
		name := fmt.Sprint("work-", i)
		w.deliver(a, name, harness.HoldPrefix+name)
	}
	w.Eventually("all room is taken", func(context.Context) bool {
		for _, h := range pods {
			if len(h.Runner.Started()) != 2 {
				return false
			}
		}
		return true
	})
	released := map[harness.Key]bool{}
	w.Eventually("all end", func(ctx context.Context) bool {
		for _, h := range pods {
			for k := range h.Runner.Started() {
				if !released[k] {
					released[k] = true
					h.Runner.Release(k.RunUID)
				}
			}
		}
		return len(released) == 20
	})
	accepted, running := map[string][]span{}, map[string][]span{}
	for i := range 20 {
		r := w.Run(fmt.Sprint("work-", i), (*v1alpha1.AgentRun).Ended)
		assert.Equal(t, v1alpha1.PhaseSucceeded, r.Status.Phase)
		assert.Equal(t, int64(1), r.Status.Delivery.Attempt, "nobody refused it")
		name, end := r.Status.PodName, r.Status.CompletionTime.Time
		accepted[name] = append(accepted[name], span{r.Status.Delivery.AcceptedAt.Time, end})
		running[name] = append(running[name], span{r.Status.StartTime.Time, end})
	}
	assert.Len(t, accepted, 3)
	for name := range accepted {
		assert.GreaterOrEqual(t, len(accepted[name]), 4, "of 20 in %s", name)
		assert.LessOrEqual(t, atOnce(accepted[name]), 3, "at once in %s", name)
		assert.LessOrEqual(t, atOnce(running[name]), 2, "at work at once in %s", name)
	}
}

// span is when a harness had something, by its own clock.
type span struct{ from, to time.Time }

// atOnce is the most that there was at one time: at the beginning of some span.
func atOnce(spans []span) int {
	most := 0
	for _, at := range spans {
		n := 0
		for _, s := range spans {
			if !s.from.After(at.from) && s.to.After(at.from) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// An Agent is not Ready because its Pod's probe is satisfied: the delivery port counts, too, and its Link says why.
func TestAnAgentWhoseDeliveryPortCannotBeTalkedToIsNotReady(t *testing.T) {
	w := newDeliveringWorld(t)
	w.controller()
	w.Agent("reviewer")
	ip := room.NewIP()
	w.probed("reviewer-1", ip)
	w.Run("reviewer-1", room.IsListening)
	a := w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetUnreachable)
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.AgentConditionReady)
	assert.Contains(t, c.Message, "reviewer-1 listens, and its delivery port cannot be talked to: ")
	assert.Zero(t, a.Status.ReadyReplicas)
	h := w.boot("reviewer-1", ip)
	w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding)
	h.Stop()
	w.agentIs("reviewer", v1alpha1.AgentConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetUnreachable)
}
