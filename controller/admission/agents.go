package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission/template"
	"github.com/hearthdev/hearth/controller/pod"
)

// agents carries out admission of Agents.
type agents struct {
	decoder    admission.Decoder
	controller string // as in runs
	served     served
}

// validate refuses Agents whose Pods or goals could never be made.
func (a *agents) validate(_ context.Context, request admission.Request) admission.Response {
	if trusted(request, a.controller) {
		return admission.Allowed("")
	}
	if request.SubResource == subresourceStatus {
		return answer(request, statusWrite("change spec, and it follows"))
	}
	if refusals := a.served.refusals(request); len(refusals) > 0 {
		return answer(request, refusals)
	}
	var agent v1alpha1.Agent
	if err := a.decoder.DecodeRaw(request.Object, &agent); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	refusals := append(forged(nil, &agent), placed(&agent)...)
	if request.Operation == admissionv1.Update {
		var before v1alpha1.Agent
		if err := a.decoder.DecodeRaw(request.OldObject, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		refusals = append(forged(&before, &agent), moved(&before, &agent, "make a new Agent")...)
		if equality.Semantic.DeepEqual(before.Spec, agent.Spec) {
			return answer(request, refusals) // an Agent stored before this check can still be labelled and deleted
		}
	}
	return answer(request, append(refusals, AgentRefusals(&agent)...)).WithWarnings(agentWarnings(&agent)...)
}

// AgentRefusals are the reasons why an Agent cannot work: its name, its Pod template, and the goals of its runs.
func AgentRefusals(agent *v1alpha1.Agent) []Refusal {
	var refusals []Refusal
	if problems := validation.IsDNS1035Label(agent.Name); len(problems) > 0 || len(agent.Name) > v1alpha1.MaxAgentName {
		refusals = append(refusals, Refusal{codeInvalid, "metadata.name",
			fmt.Sprintf("expected at most %d lower-case letters, digits and -, beginning with a letter: Pods and hostnames are named after it", v1alpha1.MaxAgentName)})
	}
	refusals = append(refusals, scheduleRefusals(agent.Spec.Schedule)...)
	if size := len(agent.Spec.Goal); size > v1alpha1.MaxGoalBytes { // the schema counts characters, the harness bytes
		refusals = append(refusals, Refusal{codeInvalid, "spec.goal", fmt.Sprintf("expected at most %d bytes, it has %d", v1alpha1.MaxGoalBytes, size)})
	}
	for _, c := range pod.Contradictions(&agent.Spec) {
		refusals = append(refusals, Refusal{v1alpha1.RefusalInvalidTemplate, c.Field, c.Expected})
	}
	return append(refusals, goalRefusals(agent)...)
}

// goalRefusals are the reasons why no run's goal could ever be made.
func goalRefusals(agent *v1alpha1.Agent) []Refusal {
	field := "spec.goalTemplate"
	switch {
	case agent.Spec.GoalTemplate != "":
	case isService(agent):
		return nil // nothing is delivered to it
	default:
		field = "spec.goal"
	}
	goal, err := goalOf(agent)
	if err != nil {
		return []Refusal{{v1alpha1.RefusalInvalidTemplate, field, "expected what a goal can be made of: " + err.Error()}}
	}
	if size := goal.Size(nil); field == "spec.goalTemplate" && size > v1alpha1.MaxGoalBytes { // spec.goal was measured before
		return []Refusal{{codeInvalid, field, fmt.Sprintf("expected at most %d bytes without its parameters, it has %d", v1alpha1.MaxGoalBytes, size)}}
	}
	if len(goal.Names()) == 0 && strings.TrimSpace(goal.Render(nil)) == "" {
		return []Refusal{{codeInvalid, field, "expected a goal, it is empty"}}
	}
	if agent.Spec.Mode == v1alpha1.AgentModeScheduled {
		return scheduledGoal(agent, goal)
	}
	return nil
}

// scheduledGoal: nobody gives a schedule's runs their parameters.
func scheduledGoal(agent *v1alpha1.Agent, goal template.Template) []Refusal {
	values, refusals := fill(declared(agent, goal), nil)
	if len(refusals) > 0 {
		return []Refusal{{v1alpha1.RefusalMissingParameters, "spec.parameters", "expected a default for each, nobody gives a schedule's runs values: " + refusals[0].Expected}}
	}
	if refusal := bounded(goal, values); refusal != nil && goal.Size(nil) <= v1alpha1.MaxGoalBytes {
		refusal.Field = "spec.parameters"
		return []Refusal{*refusal}
	}
	return nil
}

func agentWarnings(agent *v1alpha1.Agent) []string {
	goal, err := template.Parse(agent.Spec.GoalTemplate)
	if err != nil || agent.Spec.GoalTemplate == "" && isService(agent) {
		return nil
	}
	used := goal.Names()
	var idle []string
	for _, p := range agent.Spec.Parameters {
		if !slices.Contains(used, p.Name) {
			idle = append(idle, p.Name)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	return []string{"spec.parameters: goalTemplate does not use " + shown(idle)}
}
