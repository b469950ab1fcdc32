package page

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// maxName bounds a name in a query: Kubernetes has no longer ones.
const maxName = 253

// phases are those that can be asked for.
var phases = []string{string(hearthv1.PhasePending), string(hearthv1.PhaseRunning), string(hearthv1.PhaseSucceeded), string(hearthv1.PhaseFailed)}

// runRow is a run in a table.
type runRow struct {
	Namespace, Name, Agent  string
	State                   badge
	Reason, Message, Target string
	Created                 stamp
	Took                    string
}

func (v view) rows(runs []*hearthv1.AgentRun) []runRow {
	out := make([]runRow, 0, len(runs))
	for _, r := range runs {
		out = append(out, v.row(r))
	}
	return out
}

func (v view) row(r *hearthv1.AgentRun) runRow {
	return runRow{
		Namespace: r.Namespace, Name: r.Name, Agent: r.Spec.AgentRef.Name, State: phaseBadge(r), Reason: reason(r),
		Message: message(r, maxCell), Target: clean(target(r), maxCell), Created: v.at(r.CreationTimestamp.Time), Took: v.took(r),
	}
}

// target is the Pod that has the run, or had it last.
func target(r *hearthv1.AgentRun) string {
	if d := r.Status.Delivery; r.Delivered() && d != nil && d.ReservedAt != nil {
		return d.PodName
	}
	return r.Status.PodName
}

// took is how long the run has worked.
func (v view) took(r *hearthv1.AgentRun) string {
	start, end := micro(r.Status.StartTime), v.now
	if start.IsZero() {
		return ""
	}
	if r.Ended() {
		end = micro(r.Status.CompletionTime)
	}
	return span(max(0, end.Sub(start).Round(time.Millisecond)))
}

// filter says which runs are asked for; what is empty does not matter.
type filter struct {
	Namespace, Agent, Phase string
}

// parseFilter reads a query. An error names the parameter and what was expected.
func parseFilter(q url.Values) (filter, error) {
	for key, values := range q {
		if !slices.Contains([]string{"namespace", "agent", "phase"}, key) {
			return filter{}, fmt.Errorf("%s: expected namespace, agent or phase", clean(key, maxCell))
		}
		if len(values) > 1 {
			return filter{}, fmt.Errorf("%s: expected it once", key)
		}
	}
	f := filter{Namespace: strings.TrimSpace(q.Get("namespace")), Agent: strings.TrimSpace(q.Get("agent")), Phase: q.Get("phase")}
	switch {
	case len(f.Namespace) > maxName:
		return filter{}, fmt.Errorf("namespace: expected at most %d characters", maxName)
	case len(f.Agent) > maxName:
		return filter{}, fmt.Errorf("agent: expected at most %d characters", maxName)
	case f.Phase != "" && !slices.Contains(phases, f.Phase):
		return filter{}, fmt.Errorf("phase: expected %s, or none for all", strings.Join(phases, ", "))
	}
	return f, nil
}

// wants tells whether the run is asked for.
func (f filter) wants(e *entry) bool {
	return !e.standing && (f.Namespace == "" || f.Namespace == e.key.Namespace) && (f.Agent == "" || f.Agent == e.agent) && (f.Phase == "" || f.Phase == string(e.phase))
}

// any tells whether the filter leaves something out.
func (f filter) any() bool { return f != filter{} }

// runsPage are the newest runs.
type runsPage struct {
	Filter   filter
	Filtered bool
	Phases   []string
	Rows     []runRow
	Total    int
}

func (v view) runs(f filter, runs []*hearthv1.AgentRun, total int) runsPage {
	return runsPage{Filter: f, Filtered: f.any(), Phases: phases, Rows: v.rows(runs), Total: total}
}

// More says how many are not shown.
func (p runsPage) More() string {
	if p.Total <= len(p.Rows) {
		return ""
	}
	return fmt.Sprintf("The newest %d of %d are shown.", len(p.Rows), p.Total)
}
