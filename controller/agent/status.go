package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
)

// maxNamed bounds how many runs a message names.
const maxNamed = 5

// describe fills counters and conditions. A condition's message changes only when something did.
func (p *Plan) describe(o Observed, c *cast, problems []admission.Refusal) {
	s := &p.Status
	s.ObservedGeneration = o.Agent.Generation
	s.Replicas = int32(len(c.serving()) + len(c.lost) + len(c.cordoned)) //nolint:gosec // a few thousand at most
	can := p.count(c)
	reason, message := p.waiting(o, c, problems)
	before := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentConditionReady)
	switch {
	case can == 0 && s.ReadyReplicas > 0 && before != nil && before.Status == metav1.ConditionTrue:
		// What was ready before this controller started listens still and is being asked: that is no news.
	case s.ReadyReplicas == 0:
		p.set(o, v1alpha1.AgentConditionReady, metav1.ConditionFalse, reason, message)
	case int(s.ReadyReplicas) < c.want && len(c.outdated) == 0:
		p.set(o, v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding, fmt.Sprintf("%d of %d can take work; %s", s.ReadyReplicas, c.want, message))
	default:
		p.set(o, v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonStanding, "")
	}
	status, reason, message := p.progress(o, c, problems, reason, message)
	p.set(o, v1alpha1.AgentConditionProgressing, status, reason, message)
}

// count fills the counters and gives how many can take work for certain. A controller that has just started knows nothing of the Links
// yet: what it does not know stays as it was said to be. Nobody waits for a Link without its Secret, and none of a cordoned run makes
// an Agent ready.
func (p *Plan) count(c *cast) (can int) {
	opening, unsure := 0, false
	var running, queued int32
	serving := c.serving()
	for i, m := range slices.Concat(serving, c.lost, c.cordoned) {
		running, queued = running+m.load.Running, queued+m.load.Queued
		if m.listening && !m.ready && m.load.Link == LinkOpening && !credentialLost(m.run) {
			unsure = true
			if i < len(serving) {
				opening++
			}
		}
	}
	can = ready(serving)
	p.Status.ReadyReplicas = max(int32(can), min(p.Status.ReadyReplicas, int32(can+opening))) //nolint:gosec // a thousand
	if unsure {
		running, queued = max(running, p.Status.Busy), max(queued, p.Status.Queued)
	}
	p.Status.Busy, p.Status.Queued = running, queued
	return can
}

// waiting says what the Agent waits for while it has fewer that can take work than it wants.
func (p *Plan) waiting(o Observed, c *cast, problems []admission.Refusal) (reason, message string) {
	if c.want == 0 {
		return v1alpha1.ReasonScaledToZero, "spec.replicas is 0"
	}
	for _, m := range c.serving() {
		if !m.ready {
			return m.problem()
		}
	}
	due, ended := recastDue(o.Agent, c)
	switch {
	case len(problems) > 0:
		return v1alpha1.ReasonInvalidTemplate, problems[0].String()
	case ended > 0 && !p.Recast && len(c.current) < c.want:
		return v1alpha1.ReasonRecasting, lastEnd(c, due)
	case len(p.Create) == 0 && len(p.Uncordon) == 0 && len(o.Free) == 0 && len(c.current) < c.want:
		return v1alpha1.ReasonNoFreeName, fmt.Sprintf("expected one of %s to %s to be free: each is the name of a run or a Pod", nameOf(o.Agent.Name, 1), nameOf(o.Agent.Name, maxNumber))
	default:
		return v1alpha1.ReasonNoStandingRun, "a standing run is being made"
	}
}

func lastEnd(c *cast, due time.Time) string {
	r := c.ended[0]
	return fmt.Sprintf("%s ended (%s: %.512s); replaced at %s", r.Name, r.Status.Reason, r.Status.Message, due.UTC().Format(time.RFC3339))
}

// progress says whether standing runs are being brought up or taken away.
func (p *Plan) progress(o Observed, c *cast, problems []admission.Refusal, reason, message string) (status metav1.ConditionStatus, why, says string) {
	switch {
	case len(problems) > 0:
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, problems[0].String()
	case reason == v1alpha1.ReasonNoFreeName:
		return metav1.ConditionFalse, reason, message
	case len(c.outdated) > 0 && c.want > 0:
		return metav1.ConditionTrue, v1alpha1.ReasonRolling, p.rolling(c, reason, message)
	case len(c.current) < c.want || ready(c.current) < min(c.want, len(c.current)):
		return metav1.ConditionTrue, reason, message
	case len(c.outdated)+len(c.lost)+len(c.cordoned)+len(p.Cordon) > 0:
		return metav1.ConditionTrue, v1alpha1.ReasonDraining, draining(o, c)
	case c.want == 0:
		return metav1.ConditionFalse, v1alpha1.ReasonScaledToZero, message
	default:
		return metav1.ConditionFalse, v1alpha1.ReasonStanding, ""
	}
}

// rolling says how far it is, and what the next step waits for.
func (p *Plan) rolling(c *cast, reason, message string) string {
	far := fmt.Sprintf("%d of %d are made from the present template and can take work, %d of an earlier one take work still", ready(c.current), c.want, len(c.outdated))
	for _, m := range c.current {
		if !m.ready {
			_, why := m.problem()
			return far + "; " + why
		}
	}
	if reason == v1alpha1.ReasonRecasting {
		return far + "; " + message
	}
	return far
}

func draining(o Observed, c *cast) string {
	var named []string
	for _, m := range c.cordoned {
		if len(named) == maxNamed {
			named = append(named, "…")
			break
		}
		named = append(named, fmt.Sprintf("%s until %s", m.run.Name, drainedAt(o.Agent, m.run).UTC().Format(time.RFC3339)))
	}
	return "finishing what they have, and then deleted: " + cmp.Or(strings.Join(named, ", "), "those cordoned now")
}

// problem is why a run cannot take work.
func (m member) problem() (reason, message string) {
	switch {
	case !m.listening:
		return v1alpha1.ReasonNotListening, m.run.Name + ": " + told(m.run)
	case m.load.Link == LinkFailed:
		return cmp.Or(m.load.Reason, v1alpha1.ReasonTargetUnreachable), m.run.Name + " listens, and its delivery port cannot be talked to: " + m.load.Message
	default:
		return v1alpha1.ReasonNotListening, m.run.Name + " listens, and its delivery port has not proved yet that it is the Pod's"
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
	setCondition(&p.Status, o.Agent, o.Now, kind, status, reason, message)
}

func setCondition(s *v1alpha1.AgentStatus, agent *v1alpha1.Agent, now time.Time, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf("%.4096s", message),
		ObservedGeneration: agent.Generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// taskStatus is that of a Task Agent: it keeps nothing standing, so it is ready as soon as runs can be made from it.
func taskStatus(agent *v1alpha1.Agent, now time.Time) v1alpha1.AgentStatus {
	s := *agent.Status.DeepCopy()
	s.ObservedGeneration = agent.Generation
	if problems := admission.AgentRefusals(agent); len(problems) > 0 {
		setCondition(&s, agent, now, v1alpha1.AgentConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, problems[0].String())
	} else {
		setCondition(&s, agent, now, v1alpha1.AgentConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAcceptsRuns, "")
	}
	return s
}
