// Package admission decides what AgentRuns and Agents may be stored: it resolves a sparse run into a complete, immutable
// snapshot, refuses forgeries (R21, R23, R31), and checks an Agent's template. The decisions are pure; two webhooks carry them
// out.
package admission

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission/template"
	"github.com/hearthdev/hearth/controller/pod"
)

const (
	// namesShown and nameShown bound how many parameter names a message repeats, and how much of each.
	namesShown = 8
	nameShown  = 63
)

// Refusal is one reason why a run is not stored: a code of R21, the field, and what was expected. It never repeats values.
type Refusal struct {
	Code     v1alpha1.RefusalCode
	Field    string
	Expected string
}

func (r Refusal) String() string { return fmt.Sprintf("[%s] %s: %s", r.Code, r.Field, r.Expected) }

// Resolve makes the complete snapshot of a sparse run (R21): of a Service Agent one that is delivered, of a Task Agent one with a
// Pod of its own. agent is nil when there is none. A non-empty list of refusals means that the run may not be stored.
func Resolve(agent *v1alpha1.Agent, asked v1alpha1.AgentRunSpec) (v1alpha1.AgentRunSpec, []Refusal) {
	if refusals := preset(asked); len(refusals) > 0 {
		return v1alpha1.AgentRunSpec{}, refusals
	}
	if refusal := accepts(agent, asked.AgentRef.Name); refusal != nil {
		return v1alpha1.AgentRunSpec{}, []Refusal{*refusal}
	}
	spec, refusals := snapshot(agent, asked.Parameters)
	spec.Cancel = asked.Cancel
	return spec, refusals
}

// ResolveScheduled makes the complete snapshot of the run that a Scheduled Agent has at each of its times: every parameter has its
// default. The controller stores it as it is, with the marks of its own that admission does not see.
func ResolveScheduled(agent *v1alpha1.Agent) (v1alpha1.AgentRunSpec, []Refusal) {
	if agent.Spec.Mode != v1alpha1.AgentModeScheduled {
		return v1alpha1.AgentRunSpec{}, []Refusal{{v1alpha1.RefusalWrongMode, "spec.mode", fmt.Sprintf("expected an Agent of mode Scheduled, %s is of mode %s", agent.Name, agent.Spec.Mode)}}
	}
	if refusal := buildable(agent); refusal != nil {
		return v1alpha1.AgentRunSpec{}, []Refusal{*refusal}
	}
	return snapshot(agent, nil)
}

// snapshot is everything that a run of the Agent needs, so that nothing is looked up again.
func snapshot(agent *v1alpha1.Agent, given map[string]string) (v1alpha1.AgentRunSpec, []Refusal) {
	goal, err := goalOf(agent)
	if err != nil {
		return v1alpha1.AgentRunSpec{}, []Refusal{agentTemplate(agent, err)}
	}
	values, refusals := fill(declared(agent, goal), given)
	if len(refusals) > 0 {
		return v1alpha1.AgentRunSpec{}, refusals
	}
	if refusal := bounded(goal, values); refusal != nil {
		if isService(agent) {
			refusal.Code = v1alpha1.RefusalInvalidDelivery
		}
		return v1alpha1.AgentRunSpec{}, []Refusal{*refusal}
	}
	spec := v1alpha1.AgentRunSpec{
		AgentRef:                v1alpha1.AgentRef{Name: agent.Name, UID: agent.UID, Generation: agent.Generation},
		Parameters:              values,
		Goal:                    goal.Render(values),
		Runtime:                 agent.Spec.Runtime.DeepCopy(),
		ActiveDeadlineSeconds:   new(agent.Spec.ActiveDeadlineSeconds),
		StartingDeadlineSeconds: new(agent.Spec.StartingDeadlineSeconds),
		Budget:                  agent.Spec.Budget.DeepCopy(),
	}
	if ttl := agent.Spec.TTLSecondsAfterFinished; ttl != nil {
		spec.TTLSecondsAfterFinished = new(*ttl)
	}
	if isService(agent) {
		spec.Delivery, spec.BackoffLimit = &v1alpha1.DeliverySpec{Port: agent.Spec.Runtime.Delivery.Port}, new(agent.Spec.BackoffLimit)
	} else { // one attempt, so no backoffLimit
		spec.Template, spec.Backend = agent.Spec.Template.DeepCopy(), cmp.Or(agent.Spec.Backend, v1alpha1.BackendPod)
	}
	return spec, nil
}

// Sparse is what a user asked for in a run that is resolved already.
func Sparse(spec v1alpha1.AgentRunSpec) v1alpha1.AgentRunSpec {
	return v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: spec.AgentRef.Name}, Parameters: spec.Parameters, Cancel: spec.Cancel}
}

// preset: resolved fields are admission's, or a run could claim what no Agent says (R31).
func preset(s v1alpha1.AgentRunSpec) []Refusal {
	var refusals []Refusal
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"spec.agentRef.uid", s.AgentRef.UID != ""},
		{"spec.agentRef.generation", s.AgentRef.Generation != 0},
		{"spec.goal", s.Goal != ""},
		{"spec.delivery", s.Delivery != nil},
		{"spec.runtime", s.Runtime != nil},
		{"spec.template", s.Template != nil},
		{"spec.activeDeadlineSeconds", s.ActiveDeadlineSeconds != nil},
		{"spec.startingDeadlineSeconds", s.StartingDeadlineSeconds != nil},
		{"spec.backoffLimit", s.BackoffLimit != nil},
		{"spec.backend", s.Backend != ""},
		{"spec.ttlSecondsAfterFinished", s.TTLSecondsAfterFinished != nil},
		{"spec.budget", s.Budget != nil},
	} {
		if f.set {
			refusals = append(refusals, Refusal{v1alpha1.RefusalConflictingFields, f.field,
				"expected it not to be set: it is taken from the Agent; write spec.agentRef.name and spec.parameters only (if you did, a mutating webhook set it: exempt agentruns.hearth.dev from that one)"})
		}
	}
	return refusals
}

// accepts tells whether runs of the Agent can be asked for at all.
func accepts(agent *v1alpha1.Agent, name string) *Refusal {
	switch {
	case agent == nil:
		return &Refusal{v1alpha1.RefusalMissingAgent, "spec.agentRef.name", fmt.Sprintf("expected the name of an Agent in this namespace, there is no %.63q", name)}
	case agent.Spec.Mode == v1alpha1.AgentModeTask:
		return buildable(agent)
	case !isService(agent):
		return &Refusal{v1alpha1.RefusalWrongMode, "spec.agentRef.name", fmt.Sprintf("expected an Agent of mode Service or Task, %s is of mode %s: its runs are made by its schedule alone", agent.Name, agent.Spec.Mode)}
	case agent.Spec.Runtime.Delivery == nil:
		return &Refusal{v1alpha1.RefusalDeliveryDisabled, "spec.agentRef.name", fmt.Sprintf("expected an Agent with spec.runtime.delivery, %s has none", agent.Name)}
	case agent.Spec.Runtime.Delivery.Port < 1 || agent.Spec.Runtime.Delivery.Port == v1alpha1.PortACPNumber:
		return &Refusal{v1alpha1.RefusalInvalidDelivery, "spec.agentRef.name", fmt.Sprintf("expected an Agent whose spec.runtime.delivery.port is a port other than %d", v1alpha1.PortACPNumber)}
	default:
		return nil
	}
}

// buildable: an Agent that was stored without our webhook may have a Pod that can never be made.
func buildable(agent *v1alpha1.Agent) *Refusal {
	if found := pod.Contradictions(&agent.Spec); len(found) > 0 {
		return &Refusal{v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", fmt.Sprintf("no Pod can be made of Agent %s: %v", agent.Name, found[0])}
	}
	return nil
}

func isService(agent *v1alpha1.Agent) bool {
	return cmp.Or(agent.Spec.Mode, v1alpha1.AgentModeService) == v1alpha1.AgentModeService
}

// goalOf is what the goals of an Agent's runs are made from. A Service Agent's own goal is told to the standing agent, never delivered.
func goalOf(agent *v1alpha1.Agent) (template.Template, error) {
	switch {
	case !isService(agent) && agent.Spec.GoalTemplate == "" && agent.Spec.Goal != "":
		return template.Literal(agent.Spec.Goal), nil
	case agent.Spec.GoalTemplate == "":
		return template.Template{}, errEmpty
	}
	goal, err := template.Parse(agent.Spec.GoalTemplate)
	if err != nil {
		return template.Template{}, err
	}
	if missing := undeclared(agent, goal); len(missing) > 0 {
		return template.Template{}, fmt.Errorf("it uses %s, which spec.parameters does not declare", shown(missing))
	}
	return goal, nil
}

var errEmpty = errors.New("it is empty")

func agentTemplate(agent *v1alpha1.Agent, why error) Refusal {
	return Refusal{v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", fmt.Sprintf("the goalTemplate of Agent %s cannot be filled: %v", agent.Name, why)}
}

// undeclared are the placeholders that declared parameters do not cover. Without declarations the placeholders are the parameters.
func undeclared(agent *v1alpha1.Agent, t template.Template) []string {
	if len(agent.Spec.Parameters) == 0 {
		return nil
	}
	return slices.DeleteFunc(t.Names(), func(name string) bool {
		return slices.ContainsFunc(agent.Spec.Parameters, func(p v1alpha1.Parameter) bool { return p.Name == name })
	})
}

func declared(agent *v1alpha1.Agent, t template.Template) []v1alpha1.Parameter {
	if len(agent.Spec.Parameters) > 0 {
		return agent.Spec.Parameters
	}
	var parameters []v1alpha1.Parameter
	for _, name := range t.Names() {
		parameters = append(parameters, v1alpha1.Parameter{Name: name})
	}
	return parameters
}

// fill adds defaults to the given values and refuses what is missing and what nobody uses.
func fill(parameters []v1alpha1.Parameter, given map[string]string) (map[string]string, []Refusal) {
	values := make(map[string]string, len(parameters))
	unused := maps.Clone(given)
	var missing []string
	for _, p := range parameters {
		value, ok := given[p.Name]
		switch {
		case ok:
			values[p.Name] = value
		case p.Default != nil:
			values[p.Name] = *p.Default
		default:
			missing = append(missing, p.Name)
		}
		delete(unused, p.Name)
	}
	var refusals []Refusal
	if len(missing) > 0 {
		refusals = append(refusals, Refusal{v1alpha1.RefusalMissingParameters, "spec.parameters", "expected values for " + shown(missing)})
	}
	if len(unused) > 0 {
		refusals = append(refusals, Refusal{v1alpha1.RefusalUnusedParameters, "spec.parameters",
			"expected only parameters of the Agent, it has none named " + shown(slices.Sorted(maps.Keys(unused)))})
	}
	if len(values) == 0 {
		values = nil
	}
	return values, refusals
}

// bounded: the harness takes a goal that is not empty, and a request, a Secret and an object are bounded (SPEC.md, Limits).
func bounded(t template.Template, values map[string]string) *Refusal {
	size := t.Size(values)
	field, largest := "spec.parameters", -1
	for name, value := range values {
		size += len(name) + len(value)
		if len(value) > largest || len(value) == largest && "spec.parameters."+name < field {
			field, largest = "spec.parameters."+name, len(value)
		}
	}
	switch {
	case size > v1alpha1.MaxGoalBytes:
		return &Refusal{codeInvalid, field,
			fmt.Sprintf("expected the resolved goal and the parameters to have at most %d bytes together, they have %d", v1alpha1.MaxGoalBytes, size)}
	case strings.TrimSpace(t.Render(values)) == "":
		return &Refusal{codeInvalid, "spec.parameters", "expected values that make a goal, it is empty"}
	default:
		return nil
	}
}

func shown(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i == namesShown {
			fmt.Fprintf(&b, " and %d more", len(names)-namesShown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.*q", nameShown, name)
	}
	return b.String()
}
