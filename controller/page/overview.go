package page

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// How many rows a table has at most. A page says how many there are in all.
const (
	maxAgents       = 500
	maxRuns         = 200
	maxQueue        = 200
	maxFew          = 10 // of runs on the pages that are not about them
	maxTargets      = 100
	maxTargetsInRow = 3
)

// view is what each page is made with, beside the objects.
type view struct {
	now time.Time
}

func (v view) at(t time.Time) stamp { return stamp{at: t, now: v.now} }

// overview is the first page.
type overview struct {
	Ready, Agents, More int
	Running             int
	Waiting             int
	Namespaces          []namespaceAgents
	Queue               []runRow
	Recent              []runRow
	Runs                int
}

// namespaceAgents are the Agents of a namespace.
type namespaceAgents struct {
	Name   string
	Agents []agentRow
}

// agentRow is an Agent in a table.
type agentRow struct {
	Namespace, Name, Mode string
	State                 badge
	Message               string
	// Standing is how many of its standing runs can take work; only a Service Agent has some.
	Service  bool
	Standing meter
	Targets  []targetRow
	More     int // targets beyond those
	Waiting  int
	Active   int
	Next     stamp
}

func (v view) overview(agents []*hearthv1.Agent, s *survey, recent []*hearthv1.AgentRun, runs int) overview {
	o := overview{Agents: len(agents), Running: s.Running, Waiting: s.queue.total, Runs: runs}
	for i, a := range agents {
		if ready(a) {
			o.Ready++
		}
		if i >= maxAgents {
			o.More++
			continue
		}
		if n := len(o.Namespaces); n == 0 || o.Namespaces[n-1].Name != a.Namespace {
			o.Namespaces = append(o.Namespaces, namespaceAgents{Name: a.Namespace})
		}
		last := &o.Namespaces[len(o.Namespaces)-1]
		last.Agents = append(last.Agents, v.agentRow(a, s))
	}
	o.Queue, o.Recent = v.rows(s.queue.get()), v.rows(recent)
	return o
}

func ready(a *hearthv1.Agent) bool {
	return isTrue(a.Status.Conditions, hearthv1.AgentConditionReady)
}

func (v view) agentRow(a *hearthv1.Agent, s *survey) agentRow {
	key := kube.ObjectKeyFromObject(a)
	row := agentRow{
		Namespace: a.Namespace, Name: a.Name, Mode: clean(string(mode(a)), maxCell), Service: mode(a) == hearthv1.AgentModeService,
		Waiting: s.waiting[key], Active: s.active[key], Next: v.at(second(a.Status.NextScheduleTime)),
	}
	row.State, row.Message = agentState(a, maxCell)
	if !row.Service {
		return row
	}
	row.Standing = meter{Used: int(a.Status.ReadyReplicas), Of: int(ptr.Deref(a.Spec.Replicas, hearthv1.DefaultReplicas))}
	for i, r := range s.standing[key] {
		if i == maxTargetsInRow {
			row.More = len(s.standing[key]) - i
			break
		}
		row.Targets = append(row.Targets, s.target(r, v))
	}
	return row
}

func mode(a *hearthv1.Agent) hearthv1.AgentMode {
	if a.Spec.Mode == "" {
		return hearthv1.AgentModeService
	}
	return a.Spec.Mode
}

// agentState is the Agent's Ready condition: its reason, how good that is, and the message.
func agentState(a *hearthv1.Agent, limit int) (badge, string) {
	c := condition(a.Status.Conditions, hearthv1.AgentConditionReady)
	if c == nil {
		return badge{Tone: toneWait, Word: "not looked at yet"}, ""
	}
	b := badge{Tone: toneGood, Word: clean(c.Reason, maxCell)}
	switch {
	case c.Status == "True":
	case c.Reason == hearthv1.ReasonScaledToZero, c.Reason == hearthv1.ReasonSuspended, c.Reason == hearthv1.ReasonNoStandingRun, c.Reason == hearthv1.ReasonNotListening:
		b.Tone = toneWait
	default:
		b.Tone = toneBad
	}
	return b, clean(c.Message, limit)
}

// queuePage are the runs that wait.
type queuePage struct {
	Rows  []runRow
	Total int
}

func (v view) queue(s *survey) queuePage {
	return queuePage{Rows: v.rows(s.queue.get()), Total: s.queue.total}
}

// More says how many are not shown.
func (q queuePage) More() string {
	if q.Total <= len(q.Rows) {
		return ""
	}
	return fmt.Sprintf("The oldest %d of %d are shown.", len(q.Rows), q.Total)
}
