// Package agent keeps the standing runs of a Service Agent: as many as it wants, of its present template (R33). One that ended is
// replaced after a backoff (R29); one that the template left behind, or that is too many, is cordoned, drains, and is deleted when
// nothing is left in it (SPEC.md, Lifecycle, Standing runs).
package agent

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
)

const (
	// endedKept is how many ended standing runs of an Agent are kept to be looked at.
	endedKept = 3
	// surge is how many standing runs more than wanted may take work while the template's are replaced.
	surge = 1
	// namesAgain is when names are looked for again after all were taken: whoever has them sends no events.
	namesAgain = time.Minute
)

// Observed is what the controller knows of an Agent when it decides.
type Observed struct {
	Agent *v1alpha1.Agent
	// Runs are the standing runs that this Agent controls.
	Runs []v1alpha1.AgentRun
	// Loads are those of living runs that take deliveries, by name.
	Loads map[string]Load
	// Free are the lowest names that a standing run could have, some of them.
	Free []string
	Now  time.Time
}

// Plan is what to do about an Agent's standing runs.
type Plan struct {
	// Create are the names under which standing runs are to be made.
	Create []string
	// Recast says that some of them replace runs that ended: Status, which counts it, is stored before they are made.
	Recast bool
	// Cordon are runs that get no further work, Uncordon those that do again.
	Cordon, Uncordon []v1alpha1.AgentRun
	// Delete are cordoned runs that are empty or out of time, and runs that ended long ago.
	Delete []v1alpha1.AgentRun
	Status v1alpha1.AgentStatus
	// After is when to look again though nothing changed; 0 is never.
	After time.Duration
}

// changes tells whether the plan makes runs or changes which of them take work.
func (p *Plan) changes() bool { return len(p.Create)+len(p.Cordon)+len(p.Uncordon) > 0 }

func (p *Plan) lookAfter(d time.Duration) { p.After = soonest(p.After, d) }

// Decide brings a Service Agent's standing runs to as many as it wants, of its present template, without ever having fewer that can
// take work because of a new template. What contradicts the contract makes nothing and replaces nothing.
func Decide(o Observed) Plan {
	p := Plan{Status: *o.Agent.Status.DeepCopy()}
	problems := admission.AgentRefusals(o.Agent)
	c := newCast(o)
	if o.Agent.DeletionTimestamp == nil { // then all of it is the garbage collector's
		valid := len(problems) == 0
		p.shrink(c, valid)
		if valid {
			p.grow(o, c)
		}
		p.drained(o, c)
		p.forgive(o, c)
	}
	p.describe(o, c, problems)
	return p
}

// shrink cordons what is too many: old ones of which enough present ones can do the work, and present ones beyond those wanted. A run
// whose Secret was lost gets no more work at once: the next controller could not ask it for results.
func (p *Plan) shrink(c *cast, valid bool) {
	if valid {
		p.cordon(c.lost, len(c.lost))
	}
	p.cordon(c.outdated, len(c.outdated)+ready(c.current)-c.want)
	p.cordon(c.current, len(c.current)-c.want)
}

func (p *Plan) cordon(from []member, n int) {
	for _, m := range dispensable(from)[:min(max(n, 0), len(from))] {
		p.Cordon = append(p.Cordon, *m.run)
	}
}

// grow takes back what was cordoned and is wanted after all, because it is warm, and makes what is still missing. While old ones take
// work there are never more than surge beyond those wanted.
func (p *Plan) grow(o Observed, c *cast) {
	missing := c.missing()
	if len(c.outdated) > 0 {
		missing = min(missing, c.want+surge-len(c.current)-len(c.outdated))
	}
	for _, m := range c.warm() {
		if missing > 0 {
			p.Uncordon = append(p.Uncordon, *m.run)
			missing--
		}
	}
	if missing > 0 && len(o.Free) == 0 {
		p.lookAfter(namesAgain)
		return
	}
	if missing = p.recast(o, c, missing); missing > 0 {
		p.Create = o.Free[:min(missing, len(o.Free))]
	}
}

// drained deletes cordoned runs in which nothing is left or whose time is over, and the records of ended ones but the last few.
func (p *Plan) drained(o Observed, c *cast) {
	for _, m := range c.cordoned {
		if slices.ContainsFunc(p.Uncordon, func(r v1alpha1.AgentRun) bool { return r.Name == m.run.Name }) {
			continue
		}
		if left := drainedAt(o.Agent, m.run).Sub(o.Now); m.load.Empty || left <= 0 {
			p.Delete = append(p.Delete, *m.run)
		} else {
			p.lookAfter(left)
		}
	}
	for i := endedKept; i < len(c.ended); i++ {
		if c.missing() <= 0 || !owed(o.Agent, &c.ended[i]) { // else it still has to be replaced, and to be counted
			p.Delete = append(p.Delete, c.ended[i])
		}
	}
}

// drainedAt is when a cordoned run has had all the time that it gets.
func drainedAt(agent *v1alpha1.Agent, run *v1alpha1.AgentRun) time.Time {
	timeout := time.Duration(ptr.Deref(agent.Spec.DrainTimeoutSeconds, v1alpha1.DefaultDrainTimeoutSeconds)) * time.Second
	return run.Status.CordonedAt.Add(timeout)
}

// soonest is the shorter of two waits, where 0 is for ever.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
