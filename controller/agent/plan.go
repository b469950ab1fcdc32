// Package agent keeps the standing run of a Service Agent: it makes one, replaces one that ended after a backoff (R29), and
// replaces one that the Agent's template has left behind (SPEC.md, Lifecycle, Service Agent and recast).
package agent

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/delivery"
)

// endedKept is how many ended standing runs of an Agent are kept to be looked at.
const endedKept = 3

// Observed is what the controller knows of an Agent when it decides. Runs are the standing runs that this Agent controls.
type Observed struct {
	Agent *v1alpha1.Agent
	Runs  []v1alpha1.AgentRun
	Now   time.Time
}

// Plan is what to do about an Agent's standing runs.
type Plan struct {
	// Create says that a standing run is to be made.
	Create bool
	// Recast says that it replaces one that ended: Status, which counts it, is stored before it is made.
	Recast bool
	// Delete are runs that are too many, outdated, or ended long ago.
	Delete []v1alpha1.AgentRun
	Status v1alpha1.AgentStatus
	// After is when to look again though nothing changed; 0 is never.
	After time.Duration
}

// Decide keeps exactly one standing run. A run that the template has left behind, or whose Secret was lost, is deleted, and drains
// while the next one starts; one that ended is replaced after the backoff.
func Decide(o Observed) Plan {
	alive, ended := sorted(o.Runs)
	p := Plan{Status: *o.Agent.Status.DeepCopy()}
	problems := admission.AgentRefusals(o.Agent)
	switch {
	case o.Agent.DeletionTimestamp != nil:
	case len(alive) > 0:
		p.keep(o, alive, ended, len(problems) == 0)
	case len(problems) == 0:
		p.replace(o, ended)
	}
	p.describe(o, alive, ended, problems)
	return p
}

// sorted are the living runs, oldest first, and the ended ones, latest end first. One that is being deleted is neither.
func sorted(runs []v1alpha1.AgentRun) (alive, ended []v1alpha1.AgentRun) {
	for _, run := range runs {
		switch {
		case run.DeletionTimestamp != nil:
		case run.Status.CompletionTime != nil:
			ended = append(ended, run)
		default:
			alive = append(alive, run)
		}
	}
	slices.SortFunc(alive, func(a, b v1alpha1.AgentRun) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(ended, func(a, b v1alpha1.AgentRun) int {
		return cmp.Or(endOf(&b).Compare(endOf(&a)), cmp.Compare(a.Name, b.Name))
	})
	return alive, ended
}

// keep keeps the oldest run that is up to date and has its Secret, and ends every other. An invalid template ends nothing.
func (p *Plan) keep(o Observed, alive, ended []v1alpha1.AgentRun, valid bool) {
	kept := slices.IndexFunc(alive, func(run v1alpha1.AgentRun) bool { return upToDate(&run, o.Agent) && !credentialLost(&run) })
	if kept < 0 && !valid {
		kept = 0
	}
	for i, run := range alive {
		if i != kept {
			p.Delete = append(p.Delete, run)
		}
	}
	if len(ended) > endedKept {
		p.Delete = append(p.Delete, ended[endedKept:]...)
	}
	if kept < 0 {
		return
	}
	if ready := acpReady(&alive[kept]); ready != nil && ready.Status == metav1.ConditionTrue && p.Status.RecastBackoffSeconds > 0 {
		if healthy := o.Now.Sub(ready.LastTransitionTime.Time); healthy >= delivery.HealthyAfter {
			p.Status.RecastBackoffSeconds = 0
		} else {
			p.After = delivery.HealthyAfter - healthy
		}
	}
}

// replace makes a run where there is none: at once, or after the backoff if the last one ended and was not counted yet.
func (p *Plan) replace(o Observed, ended []v1alpha1.AgentRun) {
	if len(ended) > 0 && !counted(o.Agent, &ended[0]) {
		if wait := dueAt(o.Agent, &ended[0]).Sub(o.Now); wait > 0 {
			p.After = wait
			return
		}
		p.Recast = true
		p.Status.Recasts++
		p.Status.LastRecastTime = ptr.To(metav1.NewMicroTime(o.Now))
		p.Status.RecastBackoffSeconds = next(backoff(o.Agent))
	}
	p.Create = true
}

// counted: the recast of this run is in the Agent's status already, the controller ended before it made the next one.
func counted(agent *v1alpha1.Agent, ended *v1alpha1.AgentRun) bool {
	last := agent.Status.LastRecastTime
	return last != nil && !last.Time.Before(endOf(ended))
}

// endOf is when the controller saw the run's end. Only its own clock is compared with itself: completionTime is a node's.
func endOf(run *v1alpha1.AgentRun) time.Time {
	if run.Status.RecordedAt != nil {
		return run.Status.RecordedAt.Time
	}
	return run.Status.CompletionTime.Time
}

func dueAt(agent *v1alpha1.Agent, ended *v1alpha1.AgentRun) time.Time {
	return endOf(ended).Add(backoff(agent))
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

// upToDate: what the standing run was made from is what the Agent says now. What only delivered runs use does not matter.
func upToDate(run *v1alpha1.AgentRun, agent *v1alpha1.Agent) bool {
	want := standingSpec(agent)
	return run.Spec.Goal == want.Goal && run.Spec.Backend == want.Backend && equality.Semantic.DeepEqual(run.Spec.Runtime, want.Runtime) && equality.Semantic.DeepEqual(run.Spec.Template, want.Template)
}

// credentialLost: the next controller could not talk to its Pod, and the Pod could not restart its container.
func credentialLost(run *v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionFalse(run.Status.Conditions, v1alpha1.AgentRunConditionCredentialReady)
}

func acpReady(run *v1alpha1.AgentRun) *metav1.Condition {
	return meta.FindStatusCondition(run.Status.Conditions, v1alpha1.AgentRunConditionACPReady)
}
