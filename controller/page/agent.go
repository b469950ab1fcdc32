package page

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// agentPage is one Agent.
type agentPage struct {
	agentRow
	Facts      []fact
	Conditions []conditionRow
	All        []targetRow
	MoreAll    int
	Queue      []runRow
	QueueTotal int
	Recent     []runRow
}

// fact is a line of a list: what, and how much.
type fact struct {
	Name, Value string
	At          stamp
}

func (v view) agent(a *hearthv1.Agent, s *survey, recent []*hearthv1.AgentRun) agentPage {
	p := agentPage{agentRow: v.agentRow(a, s), Recent: v.rows(recent)}
	p.State, p.Message = agentState(a, maxText)
	p.Conditions = v.conditions(a.Status.Conditions, true)
	standing := s.standing[kube.ObjectKeyFromObject(a)]
	for i, r := range standing {
		if i == maxTargets {
			p.MoreAll = len(standing) - i
			break
		}
		p.All = append(p.All, s.target(r, v))
	}
	p.Queue, p.QueueTotal = v.rows(s.queue.get()), s.queue.total
	p.Facts = v.agentFacts(a, p)
	return p
}

func (v view) agentFacts(a *hearthv1.Agent, p agentPage) []fact {
	facts := []fact{{Name: "Mode", Value: p.Mode}, {Name: "Made", At: v.at(a.CreationTimestamp.Time)}}
	st := a.Status
	switch mode(a) {
	case hearthv1.AgentModeService:
		facts = append(facts, fact{Name: "Can take work", Value: p.Standing.Text() + " standing runs"})
		if a.Spec.Runtime.Delivery == nil {
			facts = append(facts, fact{Name: "Delivery", Value: "off: people attach to it, no runs are delivered"})
		}
		if st.Recasts > 0 {
			facts = append(facts, fact{Name: "Standing runs replaced", Value: fmt.Sprint(st.Recasts)},
				fact{Name: "Last replaced", At: v.at(micro(st.LastRecastTime))})
		}
	case hearthv1.AgentModeTask:
		facts = append(facts, fact{Name: "Runs that wait or work", Value: fmt.Sprint(p.Active)})
	case hearthv1.AgentModeScheduled:
		facts = append(facts, fact{Name: "Runs that wait or work", Value: fmt.Sprint(p.Active)})
		if a.Spec.Schedule != nil {
			facts = append(facts, fact{Name: "Schedule", Value: clean(a.Spec.Schedule.Cron+" "+a.Spec.Schedule.TimeZone, maxCell)})
		}
		facts = append(facts, fact{Name: "Next run", At: v.at(second(st.NextScheduleTime))}, fact{Name: "Last run was for", At: v.at(second(st.LastScheduleTime))},
			fact{Name: "Last missed", At: v.at(second(st.LastMissedTime))})
	}
	return said(facts)
}

// said leaves out the facts that say nothing.
func said(facts []fact) []fact {
	out := facts[:0]
	for _, f := range facts {
		if f.Value != "" || f.At.Set() {
			out = append(out, f)
		}
	}
	return out
}

// conditions are those of an object. Messages are left out of a record: they are its runtime's.
func (v view) conditions(all []metav1.Condition, messages bool) []conditionRow {
	out := make([]conditionRow, 0, len(all))
	for _, c := range all {
		row := conditionRow{Type: clean(c.Type, maxCell), Status: string(c.Status), Reason: clean(c.Reason, maxCell), Since: v.at(c.LastTransitionTime.Time)}
		if messages {
			row.Message = clean(c.Message, maxText)
		}
		out = append(out, row)
	}
	return out
}
