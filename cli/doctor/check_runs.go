package doctor

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// lookPatience is how long the controller may take to look at something new.
const lookPatience = 30 * time.Second

// waitings are the reasons with which a run waits: whether that can be the ordinary course of things.
var waitings = map[string]bool{
	hearthv1.ReasonResolved: false, hearthv1.ReasonWaitingForService: false, hearthv1.ReasonServiceRecasting: true, hearthv1.ReasonTargetNotReady: false,
	hearthv1.ReasonTargetBusy: true, hearthv1.ReasonTargetUnreachable: false, hearthv1.ReasonTargetUnauthenticated: false,
	hearthv1.ReasonTargetIncompatible: false, hearthv1.ReasonReserved: true, hearthv1.ReasonQueued: true, hearthv1.ReasonPodNotRunning: false,
	hearthv1.ReasonContactLost: false,
}

// runs are those that wait, by their reason, the oldest of each; and the newest that ended, of each Agent that is looked at.
func (o Observed) runs() []Finding {
	if o.Runs.Why != "" {
		return []Finding{notChecked(o.Runs.Why)}
	}
	var findings []Finding
	if o.MoreRun {
		findings = append(findings, notChecked("there are more than "+count(maxRuns, "run")+": the rest was not looked at"))
	}
	oldest, number := map[string]hearthv1.AgentRun{}, map[string]int{}
	waiting := 0
	for _, run := range o.Runs.Value {
		reason := waitsFor(run)
		if reason == "" {
			continue
		}
		waiting++
		number[reason]++
		if first, seen := oldest[reason]; !seen || run.CreationTimestamp.Before(&first.CreationTimestamp) {
			oldest[reason] = run
		}
	}
	for reason, run := range sorted(oldest) {
		findings = append(findings, o.waiting(reason, number[reason], run))
	}
	findings = append(findings, o.lastEnds()...)
	if len(findings) == 0 {
		return []Finding{ok("no run waits")}
	}
	return findings
}

// waitsFor is the reason that a run has not begun, or that nothing is heard of it; empty if it is at work or ended.
func waitsFor(run hearthv1.AgentRun) string {
	if run.Ended() || run.Standing() {
		return ""
	}
	c := condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
	if c.Type == "" {
		return hearthv1.ReasonResolved
	}
	if _, waits := waitings[c.Reason]; waits {
		return c.Reason
	}
	return ""
}

func (o Observed) waiting(reason string, number int, run hearthv1.AgentRun) Finding {
	since := o.Now.Sub(run.CreationTimestamp.Time)
	describe := "kubectl -n " + o.Namespace + " describe agentrun " + run.Name
	c := condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
	words := "oldest: " + run.Name + ", made " + ago(o.Now, run.CreationTimestamp.Time) + "; " + told(reason, c.Message)
	switch {
	case reason == hearthv1.ReasonResolved && since > lookPatience:
		return fail(RunNotLookedAt, "%s that no controller has looked at", count(number, "run")).saw("%s", words).do("kubectl -n %s get pods", o.System)
	case waitings[reason] || since <= lookPatience:
		f := hint(RunWaits, "%s with %s", waitVerb(number), reason).saw("%s", words)
		if reason == hearthv1.ReasonTargetBusy {
			return f.do("kubectl -n %s scale agent/%s --replicas=N", o.Namespace, run.Spec.AgentRef.Name)
		}
		return f.do("%s", describe)
	default:
		return fail(RunBlocked, "%s with %s", waitVerb(number), reason).saw("%s", words).do("%s", describe)
	}
}

func waitVerb(number int) string {
	if number == 1 {
		return "1 run waits"
	}
	return count(number, "run") + " wait"
}

// lastEnds: of each Agent that is looked at, the newest run that ended, if it failed.
func (o Observed) lastEnds() (findings []Finding) {
	newest := map[string]hearthv1.AgentRun{}
	for _, run := range o.Runs.Value {
		if !run.Ended() || run.Standing() {
			continue
		}
		if last, seen := newest[run.Spec.AgentRef.Name]; !seen || last.Status.CompletionTime.Before(run.Status.CompletionTime) {
			newest[run.Spec.AgentRef.Name] = run
		}
	}
	for _, run := range sorted(newest) {
		if meta.IsStatusConditionTrue(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded) || run.Status.Reason == hearthv1.ReasonCancelled {
			continue
		}
		f := hint(LastRunFailed, "the newest run that ended, %s, did not succeed: %s", run.Name, run.Status.Reason).saw("%s", run.Status.Message)
		if run.Status.Reason == string(wire.ReasonAgentError) { // the provider's words are the agent's output, which no record repeats
			f = f.do("hearth logs %s -n %s   # what the agent and its model provider said", run.Name, o.Namespace)
		}
		findings = append(findings, f.do("kubectl -n %s describe agentrun %s", o.Namespace, run.Name))
	}
	return findings
}

// sorted gives a map in the order of its keys.
func sorted(m map[string]hearthv1.AgentRun) func(func(string, hearthv1.AgentRun) bool) {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, strings.Compare)
	return func(yield func(string, hearthv1.AgentRun) bool) {
		for _, key := range keys {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
