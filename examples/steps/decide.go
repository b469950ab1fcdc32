package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	analyze, execute, verify, escalate   = "analyze", "execute", "verify", "escalate"
	working, resolved, escalated, failed = "Working", "Resolved", "Escalated", "Failed"

	// Reasons of our own: the run was deleted, so nobody knows what it did; somebody else's run has its name.
	recordGone, nameTaken = "RecordGone", "NameTaken"

	maxOutput = 4 << 10
)

// decide says what comes after steps that have all ended: the next one, or none and the phase that it ends in.
func decide(attempts int32, steps []Step) (next *Step, phase string) {
	if len(steps) == 0 {
		return &Step{Name: analyze, Attempt: 1}, working
	}
	last := steps[len(steps)-1]
	switch {
	case last.Name == escalate && last.Succeeded:
		return nil, escalated
	case last.Name == escalate:
		return nil, failed
	case last.Name == analyze && last.Succeeded:
		return &Step{Name: execute, Attempt: 1}, working
	case last.Name == execute && settled(last): // failed or not, it may have helped: look
		return &Step{Name: verify, Attempt: last.Attempt}, working
	case last.Name == verify && fixed(last):
		return nil, resolved
	case last.Name == verify && settled(last) && last.Attempt < attempts:
		return &Step{Name: execute, Attempt: last.Attempt + 1}, working
	default:
		return &Step{Name: escalate, Attempt: 1}, working
	}
}

// open is the step that has not ended, nil when there is none.
func (r *Remediation) open() *Step {
	if n := len(r.Status.Steps); n > 0 && r.Status.Steps[n-1].Reason == "" {
		return &r.Status.Steps[n-1]
	}
	return nil
}

// advance decides on a Remediation whose steps have all ended.
func (r *Remediation) advance() {
	next, phase := decide(r.Spec.Attempts, r.Status.Steps)
	r.Status.Phase, r.Status.Message = phase, ""
	if next != nil {
		// Always the same name for the same step: the API server keeps it from being made twice. The UID is last, because
		// an AgentRun named <agent>-<number> would be the controller's.
		next.Run = fmt.Sprintf("%s-%d-%s", next.Name, next.Attempt, r.UID)
		r.Status.Steps = append(r.Status.Steps, *next)
	}
}

// take notes whose run it is, and how it ended, if it has.
func (s *Step) take(run *hearthv1.AgentRun) {
	s.UID = run.UID
	if run.Ended() {
		s.Reason, s.Succeeded = run.Status.Reason, run.Status.Phase == hearthv1.PhaseSucceeded
		if out := run.Status.Output; out != nil {
			s.Output = strings.ToValidUTF8(out.Value[:min(len(out.Value), maxOutput)], "")
		}
	}
}

// settled tells whether the agent has certainly stopped, and nobody stopped it. Otherwise people decide: what may still be at work
// must not get company.
func settled(s Step) bool {
	return !slices.Contains([]string{recordGone, nameTaken, hearthv1.ReasonCancelled, hearthv1.ReasonCancelUnconfirmed, hearthv1.ReasonOutcomeUnknown, hearthv1.ReasonTargetLost}, s.Reason)
}

// fixed reads the verifier's verdict; anything but a clear yes is a no.
func fixed(s Step) bool {
	var verdict struct{ Fixed bool }
	return s.Succeeded && json.Unmarshal([]byte(s.Output), &verdict) == nil && verdict.Fixed
}

// parameters of a step that has been decided, the last one: the problem, and what the earlier ones said.
func parameters(problem string, steps []Step) map[string]string {
	said, history := map[string]string{}, ""
	for _, s := range steps[:len(steps)-1] {
		said[s.Name] = s.Output
		history += fmt.Sprintf("%s %d: %s: %s\n", s.Name, s.Attempt, s.Reason, s.Output)
	}
	return map[string]map[string]string{
		analyze:  {"problem": problem},
		execute:  {"problem": problem, "analysis": said[analyze], "verdict": said[verify]},
		verify:   {"problem": problem, "change": said[execute]},
		escalate: {"problem": problem, "history": history},
	}[steps[len(steps)-1].Name]
}
