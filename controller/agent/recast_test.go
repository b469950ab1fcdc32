package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

func recast(ago time.Duration, backoff int32) func(*v1alpha1.Agent) {
	return func(a *v1alpha1.Agent) {
		a.Status.LastRecastTime, a.Status.RecastBackoffSeconds, a.Status.Recasts = ptr.To(metav1.NewMicroTime(now.Add(-ago))), backoff, 3
	}
}

// R29: what ended is replaced after the Agent's backoff, once a backoff, however many end.
func TestRunsThatEndedAreReplacedAfterTheBackoff(t *testing.T) {
	ok := listening(time.Minute)
	type runs = []v1alpha1.AgentRun
	for _, c := range []struct {
		name    string
		agent   []func(*v1alpha1.Agent)
		runs    runs
		create  int
		recasts int32
		deletes []string
		after   time.Duration
		backoff int32
	}{
		{name: "ended just now: waits a second", runs: runs{aRun("r-1", time.Hour, ended(0))}, after: time.Second},
		{name: "ended a second ago", runs: runs{aRun("r-1", time.Hour, ended(time.Second))}, create: 1, recasts: 1, backoff: 2},
		{name: "again: waits longer", agent: on(recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ended(5*time.Second))}, after: 3 * time.Second, backoff: 8},
		{name: "again: doubles", agent: on(recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ended(8*time.Second))}, create: 1, recasts: 1, backoff: 16},
		{name: "doubling ends at a minute", agent: on(recast(2*time.Hour, 32)), runs: runs{aRun("r-1", time.Hour, ended(time.Hour))}, create: 1, recasts: 1, backoff: 60},
		{name: "and stays there", agent: on(recast(2*time.Hour, 60)), runs: runs{aRun("r-1", time.Hour, ended(time.Hour))}, create: 1, recasts: 1, backoff: 60},
		{name: "counted, not made yet: made at once, not counted twice", agent: on(recast(time.Second, 4)), runs: runs{aRun("r-1", time.Hour, ended(2*time.Second))}, create: 1, backoff: 4},
		{name: "the node's clock is an hour ahead: the backoff is not", runs: runs{aRun("r-1", time.Hour, ended(time.Second), nodeAhead(time.Hour))}, create: 1, recasts: 1, backoff: 2},
		{name: "the node's clock is an hour behind: it is counted all the same", agent: on(recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ended(5*time.Second), nodeAhead(-time.Hour))}, after: 3 * time.Second, backoff: 8},
		{name: "it took no more work when it ended: nothing waits for it, and nothing is counted", agent: on(recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, cordoned(time.Minute), ended(0))}, create: 1, backoff: 8},
		{name: "what contradicts the contract is not made again", agent: on(contradicting), runs: runs{aRun("r-1", time.Hour, ended(time.Hour))}},

		{name: "one of three: the others stay, and nothing waits for them", agent: on(replicas(3), recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, ended(0)), aRun("r-3", time.Hour, ok)}, after: 8 * time.Second, backoff: 8},
		{name: "those that replace nothing are made at once", agent: on(replicas(4), recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, ended(0))}, create: 2, after: 8 * time.Second, backoff: 8},
		{name: "and with those whose time has come", agent: on(replicas(3), recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, ended(8*time.Second))}, create: 2, recasts: 1, backoff: 16},
		{name: "all that ended until then are replaced together", agent: on(replicas(3), recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ended(8*time.Second)), aRun("r-2", time.Hour, ended(4*time.Second)), aRun("r-3", time.Hour, ended(0))}, create: 3, recasts: 3, backoff: 16},
		{name: "however many end, the first one's backoff counts", agent: on(replicas(3), recast(time.Minute, 8)), runs: runs{aRun("r-1", time.Hour, ended(5*time.Second)), aRun("r-2", time.Hour, ended(0)), aRun("r-3", time.Hour, ok)}, after: 3 * time.Second, backoff: 8},
		{name: "a broken new template is recast while the old one stands", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute, ended(0))}, after: time.Second},
		{name: "one that takes work again is none that is made", agent: on(replicas(2)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, ended(0)), aRun("r-3", time.Hour, ok, cordoned(time.Minute))}},

		{name: "healthy for nine minutes", agent: on(recast(time.Hour, 8)), runs: runs{aRun("r-1", time.Hour, listening(9*time.Minute))}, after: time.Minute, backoff: 8},
		{name: "healthy for ten: forgotten", agent: on(recast(time.Hour, 8)), runs: runs{aRun("r-1", time.Hour, listening(10*time.Minute))}},
		{name: "one of two keeps ending, the other is healthy: not forgotten", agent: on(replicas(2), recast(time.Minute, 60)), runs: runs{aRun("r-1", time.Hour, listening(time.Hour)), aRun("r-2", time.Minute, listening(9*time.Minute))}, after: time.Minute, backoff: 60},
		{name: "nor while one does not listen", agent: on(replicas(2), recast(time.Minute, 60)), runs: runs{aRun("r-1", time.Hour, listening(time.Hour)), aRun("r-2", time.Hour)}, backoff: 60},

		{name: "three ended ones are kept", runs: runs{aRun("r-5", time.Minute), aRun("r-1", time.Hour, ended(4*time.Minute)), aRun("r-2", time.Hour, ended(3*time.Minute)),
			aRun("r-3", time.Hour, ended(2*time.Minute)), aRun("r-4", time.Hour, ended(time.Minute))}, deletes: []string{"r-1"}},
		{name: "and those that are not replaced yet: they are still to be counted", agent: on(replicas(5), recast(time.Hour, 60)), runs: runs{aRun("r-1", time.Hour, ended(4*time.Second)), aRun("r-2", time.Hour, ended(3*time.Second)),
			aRun("r-3", time.Hour, ended(2*time.Second)), aRun("r-4", time.Hour, ended(time.Second)), aRun("r-5", time.Minute)}, after: 56 * time.Second, backoff: 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := reviewer()
			for _, change := range c.agent {
				change(agent)
			}
			p := Decide(observed(agent, nil, c.runs...))
			assert.Len(t, p.Create, c.create)
			assert.Equal(t, c.recasts > 0, p.Recast)
			assert.Equal(t, agent.Status.Recasts+c.recasts, p.Status.Recasts)
			if p.Recast {
				assert.Equal(t, now, p.Status.LastRecastTime.Time)
			}
			assert.Equal(t, c.deletes, names(p.Delete))
			assert.Equal(t, c.after, p.After)
			assert.Equal(t, c.backoff, p.Status.RecastBackoffSeconds)
		})
	}
}
