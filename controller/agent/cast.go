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
)

// member is a living standing run and what is known of it.
type member struct {
	run  *v1alpha1.AgentRun
	load Load
	// listening: its agent can be dialled. ready: it can take work, too.
	listening, ready bool
	// current: it is made from what the Agent says now.
	current bool
}

// cast are the standing runs of an Agent by what becomes of them. One that is being deleted is in none of these. Living ones are
// oldest first, ended ones latest end first.
type cast struct {
	want int
	// current and outdated take work. lost have lost their Secret and are about to be cordoned.
	current, outdated, lost []member
	cordoned                []member
	ended                   []v1alpha1.AgentRun
}

func newCast(o Observed) *cast {
	c := &cast{want: int(ptr.Deref(o.Agent.Spec.Replicas, v1alpha1.DefaultReplicas))}
	var alive []member
	for i := range o.Runs {
		switch run := &o.Runs[i]; {
		case run.DeletionTimestamp != nil:
		case run.Ended():
			c.ended = append(c.ended, *run)
		default:
			alive = append(alive, newMember(o, run))
		}
	}
	slices.SortFunc(alive, older)
	slices.SortFunc(c.ended, func(a, b v1alpha1.AgentRun) int {
		return cmp.Or(endOf(&b).Compare(endOf(&a)), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range alive {
		switch {
		case m.run.Status.CordonedAt != nil:
			c.cordoned = append(c.cordoned, m)
		case credentialLost(m.run):
			c.lost = append(c.lost, m)
		case m.current:
			c.current = append(c.current, m)
		default:
			c.outdated = append(c.outdated, m)
		}
	}
	return c
}

func newMember(o Observed, run *v1alpha1.AgentRun) member {
	m := member{run: run, load: Load{Empty: true}, current: upToDate(run, o.Agent)}
	condition := acpReady(run)
	m.listening = condition != nil && condition.Status == metav1.ConditionTrue
	m.ready = m.listening
	if takesDeliveries(run) {
		m.load = o.Loads[run.Name]
		m.ready = m.listening && m.load.Link == LinkVerified
	}
	return m
}

func older(a, b member) int {
	return cmp.Or(a.run.CreationTimestamp.Compare(b.run.CreationTimestamp.Time), cmp.Compare(len(a.run.Name), len(b.run.Name)), cmp.Compare(a.run.Name, b.run.Name))
}

// missing is how many present ones there are too few.
func (c *cast) missing() int { return c.want - len(c.current) }

// serving are those that are to take work, whether or not they can, the present ones first.
func (c *cast) serving() []member { return slices.Concat(c.current, c.outdated) }

// warm are cordoned ones that could take work again as they are: of the present template, ready, with their Secret; the last that was
// cordoned first.
func (c *cast) warm() []member {
	warm := slices.DeleteFunc(slices.Clone(c.cordoned), func(m member) bool { return !m.current || !m.ready || credentialLost(m.run) })
	slices.SortStableFunc(warm, func(a, b member) int { return b.run.Status.CordonedAt.Compare(a.run.Status.CordonedAt.Time) })
	return warm
}

// dispensable orders runs by how little is lost with them: what does not listen first, what cannot be talked to, the least busy, the
// youngest.
func dispensable(members []member) []member {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.use(), b.use()), cmp.Compare(a.load.busy(), b.load.busy()), older(b, a))
	})
	return sorted
}

func (m member) use() int {
	switch {
	case m.ready:
		return 3
	case m.listening && m.load.Link == LinkOpening: // after a start of the controller nothing is known yet
		return 2
	case m.listening:
		return 1
	default:
		return 0
	}
}

// ready counts those that can take work.
func ready(members []member) int {
	n := 0
	for _, m := range members {
		if m.ready {
			n++
		}
	}
	return n
}

// upToDate: what the standing run was made from is what the Agent says now. All of runtime is told to the harness at its start. What
// only delivered runs use (goalTemplate, parameters, deadlines, backoffLimit, budget, ttl) does not matter.
func upToDate(run *v1alpha1.AgentRun, agent *v1alpha1.Agent) bool {
	want := standingSpec(agent)
	return run.Spec.Goal == want.Goal && backend(run.Spec.Backend) == backend(want.Backend) &&
		equality.Semantic.DeepEqual(run.Spec.Runtime, want.Runtime) && equality.Semantic.DeepEqual(run.Spec.Template, want.Template)
}

// backend: what was stored before there were two is a Pod, and no reason to make another.
func backend(b v1alpha1.Backend) v1alpha1.Backend { return cmp.Or(b, v1alpha1.BackendPod) }

// credentialLost: the next controller could not talk to its Pod, and the Pod could not restart its container.
func credentialLost(run *v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionFalse(run.Status.Conditions, v1alpha1.AgentRunConditionCredentialReady)
}

func acpReady(run *v1alpha1.AgentRun) *metav1.Condition {
	return meta.FindStatusCondition(run.Status.Conditions, v1alpha1.AgentRunConditionACPReady)
}

func takesDeliveries(run *v1alpha1.AgentRun) bool {
	return run.Spec.Runtime != nil && run.Spec.Runtime.Delivery != nil
}

// endOf is when the controller saw the run's end. Only its own clock is compared with itself: completionTime is a node's.
func endOf(run *v1alpha1.AgentRun) time.Time {
	if run.Status.RecordedAt != nil {
		return run.Status.RecordedAt.Time
	}
	return run.Status.CompletionTime.Time
}
