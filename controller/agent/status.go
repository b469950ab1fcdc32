package agent

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
)

// describe fills counters and conditions. A condition's message changes only when something did.
func (p *Plan) describe(o Observed, alive, ended []v1alpha1.AgentRun, problems []admission.Refusal) {
	s := &p.Status
	s.ObservedGeneration = o.Agent.Generation
	s.Replicas, s.ReadyReplicas = int32(len(alive)), 0 //nolint:gosec // a handful
	for i := range alive {
		if ready := acpReady(&alive[i]); ready != nil && ready.Status == metav1.ConditionTrue {
			s.ReadyReplicas++
		}
	}
	reason, message := waiting(o, alive, ended, problems)
	if s.ReadyReplicas > 0 {
		p.set(o, v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding, "")
	} else {
		p.set(o, v1alpha1.AgentConditionReady, metav1.ConditionFalse, reason, message)
	}
	switch {
	case len(problems) > 0:
		p.set(o, v1alpha1.AgentConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, problems[0].String())
	case s.ReadyReplicas > 0 && len(p.Delete) == 0:
		p.set(o, v1alpha1.AgentConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStanding, "")
	default:
		p.set(o, v1alpha1.AgentConditionProgressing, metav1.ConditionTrue, reason, message)
	}
}

// waiting says what the Agent waits for while no standing run listens.
func waiting(o Observed, alive, ended []v1alpha1.AgentRun, problems []admission.Refusal) (reason, message string) {
	switch {
	case len(alive) > 0:
		return v1alpha1.ReasonNotListening, alive[0].Name + ": " + told(&alive[0])
	case len(problems) > 0:
		return v1alpha1.ReasonInvalidTemplate, problems[0].String()
	case len(ended) > 0 && !counted(o.Agent, &ended[0]):
		return v1alpha1.ReasonRecasting, fmt.Sprintf("%s ended (%s: %.512s); replaced at %s", ended[0].Name, ended[0].Status.Reason, ended[0].Status.Message,
			dueAt(o.Agent, &ended[0]).UTC().Format(time.RFC3339))
	default:
		return v1alpha1.ReasonNoStandingRun, "a standing run is being made"
	}
}

// told is what a living run says about itself.
func told(run *v1alpha1.AgentRun) string {
	for _, kind := range []string{v1alpha1.AgentRunConditionSucceeded, v1alpha1.AgentRunConditionACPReady} {
		if c := meta.FindStatusCondition(run.Status.Conditions, kind); c != nil && c.Message != "" {
			return c.Message
		}
	}
	return cmp.Or(string(run.Status.Phase), "not looked at yet")
}

func (p *Plan) set(o Observed, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf("%.4096s", message),
		ObservedGeneration: o.Agent.Generation, LastTransitionTime: metav1.NewTime(o.Now),
	})
}
