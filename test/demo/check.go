package main

import (
	"fmt"
	"strings"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

// failedChecks is the demo that ran to its end and is not right; each line says what.
type failedChecks []string

func (f failedChecks) Error() string { return "not as it should be:\n  " + strings.Join(f, "\n  ") }

// check holds the demo to its promise: three runs recorded Succeeded by one standing Pod, with the right
// output, and the side effect there exactly once.
func check(results []result, m marker, marked string, unread error) error {
	var wrong failedChecks
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	pods := map[string]bool{}
	for _, r := range results {
		s := r.run.Status
		succeeded := cluster.Condition(s.Conditions, hearthv1.AgentRunConditionSucceeded)
		if s.Phase != hearthv1.PhaseSucceeded || succeeded.Status != "True" {
			complain("run %s: expected Succeeded, is %s/%s: %s", r.run.Name, s.Phase, succeeded.Reason, s.Message)
			continue
		}
		if s.RecordedAt == nil || s.Delivery == nil || s.Delivery.ReservedAt == nil || s.Delivery.AcceptedAt == nil {
			complain("run %s: its record lacks times", r.run.Name)
		}
		if text := output(r.run); !strings.Contains(text, r.want) && (!r.anyWords || strings.TrimSpace(text) == "") {
			complain("run %s: expected %q in its output, is %q", r.run.Name, r.want, text)
		}
		pods[string(s.PodUID)] = true
	}
	if len(wrong) == 0 && len(pods) != 1 {
		complain("expected one standing Pod to carry out every run, were %d", len(pods))
	}
	if unread != nil {
		complain("%v", unread)
	} else if want := m.token + "\n"; marked != want {
		complain("marker %s: expected one line %q, holds %q", m.file(), m.token, marked)
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

func output(run hearthv1.AgentRun) string {
	if run.Status.Output == nil {
		return ""
	}
	return run.Status.Output.Value
}
