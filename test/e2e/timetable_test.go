//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

// minutes bounds what waits for two minutes to begin.
const minutes = 3 * time.Minute

// TestScheduled is R34 with a real clock: one run a minute and no second one, history limits, a time that is forbidden because the
// earlier run goes on, suspension. It takes two minutes, most of which it waits.
func TestScheduled(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "scheduled")
	gate := suite.id + "-overlong"
	r.scheduled("punctual", "say: on time", func(s *hearthv1.Schedule) {
		s.ConcurrencyPolicy, s.SuccessfulRunsHistoryLimit = hearthv1.ConcurrencyAllow, ptr.To[int32](1)
	})
	r.scheduled("overlong", "gate: "+gate+" ;; say: at last", func(s *hearthv1.Schedule) { s.ConcurrencyPolicy = hearthv1.ConcurrencyForbid })
	r.scheduled("hapless", "fail: 400", func(s *hearthv1.Schedule) { s.FailedRunsHistoryLimit = ptr.To[int32](0) })
	r.scheduled("suspended", "say: never", func(s *hearthv1.Schedule) { s.Suspend = true })

	first := r.firstOf("punctual", time.Time{})
	second := r.firstOf("punctual", first)
	assert.Equal(t, first.Add(time.Minute), second, "each minute has its run")
	name := runOf("punctual", second)
	run := r.ended(name, patiently)
	assert.Equal(t, hearthv1.ReasonCompleted, run.Status.Reason, run.Status.Message)
	assert.Equal(t, "punctual", run.Labels[hearthv1.LabelAgent])
	assert.Empty(t, run.OwnerReferences, "the record outlives the Agent")
	assert.Equal(t, "on time", run.Status.Output.Value)
	made := run.CreationTimestamp.Time
	assert.False(t, made.Before(second), "it was made at %s, before its time", made)
	assert.Less(t, made.Sub(second), time.Minute)
	r.waitGone("the record beyond the history's limit", r.runsNamed(runOf("punctual", first)))
	r.waitGone("the failed run, of which none is to stay", r.runsNamed(runOf("hapless", r.firstOf("hapless", time.Time{}))))
	r.oneEach("punctual")

	agent := r.readAgent("punctual")
	require.NotNil(t, agent.Status.LastScheduleTime)
	assert.False(t, agent.Status.LastScheduleTime.Time.Before(second))
	require.NotNil(t, agent.Status.NextScheduleTime)
	assert.True(t, agent.Status.NextScheduleTime.After(second))

	began := r.firstOf("overlong", time.Time{})
	missed := began.Add(time.Minute)
	r.wait("the Agent to say what it missed", minutes, func(ctx context.Context) (bool, string, error) {
		agent := r.readAgent("overlong")
		return agent.Status.LastMissedTime != nil && !agent.Status.LastMissedTime.Time.Before(missed), fmt.Sprintf("%v", agent.Status.LastMissedTime), nil
	})
	assert.Empty(t, r.watched.of(runOf("overlong", missed)), "Forbid: the earlier run goes on")
	require.NoError(t, suite.OpenGate(t.Context(), suite.modelNamespace, gate))
	assert.Equal(t, hearthv1.ReasonCompleted, r.ended(runOf("overlong", began), shortly).Status.Reason)

	r.oneEach("overlong")
	assert.Empty(t, r.timesOf("suspended"))
	agent = r.readAgent("suspended")
	assert.Equal(t, hearthv1.ReasonSuspended, cluster.Condition(agent.Status.Conditions, hearthv1.AgentConditionReady).Reason)
	assert.Nil(t, agent.Status.NextScheduleTime)
	require.NoError(t, suite.Client.Patch(t.Context(), agent, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"schedule":{"suspend":false}}}`))))
	r.wait("the next time after a suspension", shortly, func(context.Context) (bool, string, error) {
		agent := r.readAgent("suspended")
		return agent.Status.NextScheduleTime != nil, "none", nil
	})
	for _, at := range r.timesOf("suspended") {
		assert.True(t, at.After(second), "a time that went by while it was suspended is not replayed")
	}
}

// scheduled makes an Agent of every minute.
func (r *room) scheduled(name, goal string, change func(*hearthv1.Schedule)) {
	r.t.Helper()
	r.agent(name, func(spec *hearthv1.AgentSpec) {
		spec.Mode, spec.Goal, spec.GoalTemplate, spec.Runtime.Delivery = hearthv1.AgentModeScheduled, goal, "", nil
		spec.Schedule = &hearthv1.Schedule{Cron: "* * * * *"}
		change(spec.Schedule)
	})
}

// runOf is the name of the run that a schedule makes for a time.
func runOf(agent string, at time.Time) string {
	return fmt.Sprintf("%s-%08d", agent, at.Unix()/60)
}

// firstOf waits for the first run of an Agent's schedule for a time after that one.
func (r *room) firstOf(agent string, after time.Time) time.Time {
	r.t.Helper()
	seen, err := r.watched.first(r.t.Context(), minutes, func(run *hearthv1.AgentRun) bool {
		at, ok := scheduledAt(run)
		return ok && run.Spec.AgentRef.Name == agent && at.After(after)
	})
	require.NoError(r.t, err)
	at, _ := scheduledAt(seen.run)
	assert.Equal(r.t, runOf(agent, at), seen.run.Name)
	return at
}

func scheduledAt(run *hearthv1.AgentRun) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, run.Annotations[hearthv1.AnnotationScheduledAt])
	return at, err == nil
}

// timesOf are the times for which runs of an Agent were ever seen, by the UIDs of the runs.
func (r *room) timesOf(agent string) map[string]time.Time {
	r.t.Helper()
	found := map[string]time.Time{}
	r.watched.mu.Lock()
	defer r.watched.mu.Unlock()
	for _, s := range r.watched.states {
		if at, ok := scheduledAt(s.run); ok && s.run.Spec.AgentRef.Name == agent {
			found[string(s.run.UID)] = at
		}
	}
	return found
}

// oneEach: no time has two runs, also none whose record was removed meanwhile.
func (r *room) oneEach(agent string) {
	r.t.Helper()
	times := map[time.Time]int{}
	for _, at := range r.timesOf(agent) {
		times[at]++
		assert.Zero(r.t, at.Second())
	}
	for at, n := range times {
		assert.Equal(r.t, 1, n, "%s has %d runs for %s", agent, n, at)
	}
}

// runsNamed finds a run by its name.
func (r *room) runsNamed(name string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var run hearthv1.AgentRun
		err := suite.Client.Get(ctx, r.key(name), &run)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return []string{name}, nil
	}
}
