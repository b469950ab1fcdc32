package agent

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

// recast gives how many of the missing runs are to be made now. Those that replace a run that ended wait for the backoff, which is the
// Agent's: all that ended until then are replaced together and it doubles once, so however many end, and how often, there is one
// round of replacements a backoff. Those that replace nothing do not wait.
func (p *Plan) recast(o Observed, c *cast, missing int) int {
	due, waiting := recastDue(o.Agent, c)
	waiting = min(waiting, missing)
	if waiting <= 0 {
		return missing
	}
	if wait := due.Sub(o.Now); wait > 0 {
		p.lookAfter(wait)
		return missing - waiting
	}
	p.Recast = true
	p.Status.Recasts += int32(waiting) //nolint:gosec // at most a thousand
	p.Status.LastRecastTime = ptr.To(metav1.NewMicroTime(o.Now))
	p.Status.RecastBackoffSeconds = next(backoff(o.Agent))
	return missing
}

// recastDue is how many runs ended and were not replaced, and when they are to be: the first one's end and the backoff.
func recastDue(agent *v1alpha1.Agent, c *cast) (due time.Time, waiting int) {
	for i := range c.ended { // latest end first
		if owed(agent, &c.ended[i]) {
			due, waiting = endOf(&c.ended[i]).Add(backoff(agent)), waiting+1
		}
	}
	return due, waiting
}

// owed: the run was to take work when it ended, and its replacement is not in the Agent's status. If it is, the controller may have
// ended before it made the next one.
func owed(agent *v1alpha1.Agent, ended *v1alpha1.AgentRun) bool {
	last := agent.Status.LastRecastTime
	return ended.Status.CordonedAt == nil && (last == nil || last.Time.Before(endOf(ended)))
}

// forgive resets the backoff once as many as wanted have been healthy for long enough (R29). One that keeps ending prevents it,
// however healthy the others are.
func (p *Plan) forgive(o Observed, c *cast) {
	if p.Status.RecastBackoffSeconds == 0 || c.want == 0 || c.missing() > 0 || ready(c.current) < len(c.current) {
		return
	}
	var since time.Time
	for _, m := range c.current {
		if t := acpReady(m.run).LastTransitionTime.Time; t.After(since) {
			since = t
		}
	}
	if healthy := o.Now.Sub(since); healthy >= delivery.HealthyAfter {
		p.Status.RecastBackoffSeconds = 0
	} else {
		p.lookAfter(delivery.HealthyAfter - healthy)
	}
}

func backoff(agent *v1alpha1.Agent) time.Duration {
	return max(delivery.RecastBackoff(1), time.Duration(agent.Status.RecastBackoffSeconds)*time.Second)
}

// next is the backoff after one of that length, in whole seconds.
func next(now time.Duration) int32 {
	for recasts := 1; ; recasts++ {
		if d := delivery.RecastBackoff(recasts); d > now || d == delivery.MaxRecastBackoff {
			return int32(d / time.Second) //nolint:gosec // a minute at most
		}
	}
}
