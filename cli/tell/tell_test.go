package tell

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

var update = flag.Bool("update", false, "write what is told as the golden files")

// golden compares with testdata/NAME.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(start.Add(d))) }

// run is one in a phase for a reason.
func run(phase hearthv1.Phase, reason, message string, changes ...func(*hearthv1.AgentRun)) *hearthv1.AgentRun {
	r := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "review-x7k2p", CreationTimestamp: metav1.NewTime(start)},
		Spec: hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: "reviewer"}, Delivery: &hearthv1.DeliverySpec{Port: 4100}}}
	r.Status.Phase = phase
	if reason != "" {
		r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Reason: reason, Message: message}}
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func ended(outcome string) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		c := r.Status.Conditions[0]
		r.Status.Outcome, r.Status.Reason, r.Status.Message = outcome, c.Reason, c.Message
		r.Status.PodName, r.Status.StartTime, r.Status.CompletionTime = "reviewer-1", at(2*time.Second), at(6*time.Second)
	}
}

func on(pod string, attempt int64) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		r.Status.PodName, r.Status.Delivery = pod, &hearthv1.DeliveryStatus{Attempt: attempt}
	}
}

const hostile = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202egnp.exe\r\nreview-x7k2p: Succeeded"

// R55: every reason has the exit code that docs/cli.md says, the first four as harness run has them.
func TestEveryReasonHasAnExitCode(t *testing.T) {
	want := map[int]string{
		kube.ExitDone:      "Completed",
		kube.ExitFailed:    "AgentError AgentCrashed AgentSilent NoEvidence InvalidOutput ResultTooLarge AgentNotFound InvalidTemplate PodFailed",
		kube.ExitLimit:     "LimitReached BudgetExceeded DeadlineExceeded StartingDeadlineExceeded",
		kube.ExitRefused:   "Refused Rejected NotAdmitted",
		kube.ExitCancelled: "Cancelled",
		kube.ExitUnknown:   "CancelUnconfirmed TargetLost Interrupted OutcomeUnknown",
	}
	known := map[string]bool{}
	for code, reasons := range want {
		for _, reason := range strings.Fields(reasons) {
			known[reason] = true
			phase := hearthv1.PhaseFailed
			if reason == "Completed" {
				phase = hearthv1.PhaseSucceeded
			}
			assert.Equal(t, code, Code(run(phase, reason, "", ended(""))), reason)
			assert.Contains(t, Reasons(), reason)
		}
	}
	for _, reason := range documented(t, "## How did my run end?") {
		assert.True(t, known[reason], "%s of docs/operating.md has no exit code", reason)
	}
	// What a foreign runtime says in words of its own.
	assert.Equal(t, kube.ExitCancelled, Code(run(hearthv1.PhaseFailed, "Halted", "", ended("Cancelled"))))
	assert.Equal(t, kube.ExitUnknown, Code(run(hearthv1.PhaseFailed, "Halted", "", ended("Interrupted"))))
	assert.Equal(t, kube.ExitFailed, Code(run(hearthv1.PhaseFailed, "Halted", "", ended("Failed"))))
}

// Every reason why a run waits has words for who waits long.
func TestEveryWaitIsExplained(t *testing.T) {
	for _, reason := range documented(t, "## Why does my run wait?") {
		if reason != hearthv1.ReasonRunning {
			assert.NotEmpty(t, waits[reason], reason)
		}
	}
}

// documented are the reasons in the table of a section of docs/operating.md.
func documented(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n"+heading+"\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	var reasons []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z]+(?:, [A-Z][A-Za-z]+)*) \|`).FindAllStringSubmatch(section, -1) {
		reasons = append(reasons, strings.Split(row[1], ", ")...)
	}
	require.NotEmpty(t, reasons)
	return reasons
}

// R55: what is told of a wait: each change once, after a while what it means, and the state of now under it.
func TestTheStoryOfAWait(t *testing.T) {
	command := func(args ...string) string { return "hearth " + strings.Join(args, " ") }
	var s Story
	var b strings.Builder
	fmt.Fprintf(&b, "%q\n", s.Now(start))
	assert.Empty(t, s.Advice(start, command))
	for _, step := range []struct {
		after time.Duration
		run   *hearthv1.AgentRun // nil: time goes by
	}{
		{0, run("", "", "")},
		{time.Second, run(hearthv1.PhasePending, hearthv1.ReasonResolved, "")},
		{12 * time.Second, nil},
		{13 * time.Second, run(hearthv1.PhasePending, hearthv1.ReasonTargetBusy, "all 2 standing runs are busy")},
		{14 * time.Second, run(hearthv1.PhasePending, hearthv1.ReasonTargetBusy, "all 3 standing runs are busy")},
		{24 * time.Second, nil},
		{34 * time.Second, nil},
		{35 * time.Second, run(hearthv1.PhasePending, hearthv1.ReasonReserved, "", on("reviewer-1", 1))},
		{36 * time.Second, run(hearthv1.PhaseRunning, hearthv1.ReasonRunning, "", on("reviewer-1", 1))},
		{60 * time.Minute, nil},
		{61 * time.Minute, run(hearthv1.PhasePending, hearthv1.ReasonTargetNotReady, "attempt 1 was lost: Pod reviewer-1 went away", on("", 1))},
		{62 * time.Minute, nil},
		{63 * time.Minute, run(hearthv1.PhaseRunning, hearthv1.ReasonRunning, "", on("reviewer-2", 2))},
		{64 * time.Minute, run(hearthv1.PhaseRunning, "Odd\x1b[31m", hostile, on("reviewer-2", 2))},
		{65 * time.Minute, run(hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "", ended("Succeeded"))},
		{66 * time.Minute, nil},
	} {
		now := start.Add(step.after)
		var lines []string
		if step.run != nil {
			lines = s.See(step.run, now)
		}
		lines = append(lines, s.Advice(now, command)...)
		for _, line := range lines {
			fmt.Fprintf(&b, "%8s %s\n", step.after, line)
		}
		fmt.Fprintf(&b, "%8s > %s %s\n", step.after, s.Phase(), s.Now(now))
	}
	golden(t, "wait", b.String())
}

func TestWhatIsSaidOfAnEnd(t *testing.T) {
	var b strings.Builder
	for _, r := range []*hearthv1.AgentRun{
		run(hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "the agent finished", ended("Succeeded")),
		run(hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "", ended("Succeeded"), func(r *hearthv1.AgentRun) {
			r.Status.Usage = &hearthv1.Usage{InputTokens: ptr.To[int64](900), OutputTokens: ptr.To[int64](100), Cost: &hearthv1.Cost{Amount: "0.25", Currency: "EUR"}}
			r.Status.Truncation = &hearthv1.Truncation{OriginalBytes: 300000}
			r.Status.CompletionTime = at(time.Hour)
		}),
		run(hearthv1.PhaseFailed, hearthv1.ReasonDeadlineExceeded, "activeDeadlineSeconds of 60 s was over", ended("Failed")),
		run(hearthv1.PhaseFailed, hearthv1.ReasonTargetLost, "Pod reviewer-1 went away", ended("")),
		run(hearthv1.PhaseFailed, hearthv1.ReasonInterrupted, "the harness restarted", ended("Interrupted")),
		run(hearthv1.PhaseFailed, "AgentError", hostile, ended("Failed"), func(r *hearthv1.AgentRun) {
			r.Status.CompletionTime = at(0) // before it started, by another clock
			r.Status.Usage = &hearthv1.Usage{TotalTokens: ptr.To[int64](7)}
		}),
		run(hearthv1.PhaseFailed, hearthv1.ReasonStartingDeadlineExceeded, "never started", ended("Failed"), func(r *hearthv1.AgentRun) {
			r.Status.PodName, r.Status.StartTime = "", nil
		}),
	} {
		fmt.Fprintln(&b, strings.Join(Ended(r), "\n"))
	}
	fmt.Fprintln(&b, Already(run(hearthv1.PhaseFailed, hearthv1.ReasonCancelled, "", ended("Cancelled"))))
	golden(t, "end", b.String())
	assert.NotContains(t, b.String(), "\x1b")
}

func TestRowsOfTables(t *testing.T) {
	var b strings.Builder
	now := start.Add(90 * time.Second)
	for _, everywhere := range []bool{false, true} {
		for _, c := range RunColumns(everywhere) {
			fmt.Fprintf(&b, "%s/%d ", c.Name, c.Priority)
		}
		fmt.Fprintln(&b)
	}
	for _, r := range []*hearthv1.AgentRun{
		run("", "", ""),
		run(hearthv1.PhaseRunning, hearthv1.ReasonRunning, "", on("reviewer-1", 3), func(r *hearthv1.AgentRun) { r.Status.StartTime = at(30 * time.Second) }),
		run(hearthv1.PhaseFailed, hearthv1.ReasonCancelled, "as asked", ended("Cancelled"), func(r *hearthv1.AgentRun) { r.Spec.AgentRef = hearthv1.AgentRef{} }),
	} {
		fmt.Fprintln(&b, RunRow(r, false, false, now).Cells)
	}
	fmt.Fprintln(&b, RunRow(run("", "", ""), true, true, now).Cells)

	agent := func(mode hearthv1.AgentMode, change func(*hearthv1.Agent)) *hearthv1.Agent {
		a := &hearthv1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer", CreationTimestamp: metav1.NewTime(start)}}
		a.Spec.Mode = mode
		change(a)
		return a
	}
	for _, c := range AgentColumns(false) {
		fmt.Fprintf(&b, "%s/%d ", c.Name, c.Priority)
	}
	fmt.Fprintln(&b)
	for i, a := range []*hearthv1.Agent{
		agent(hearthv1.AgentModeService, func(a *hearthv1.Agent) {
			a.Spec.Replicas, a.Status.ReadyReplicas, a.Status.Busy, a.Status.Recasts = ptr.To[int32](3), 2, 1, 4
			a.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Standing", Message: "2 of 3 stand"}}
		}),
		agent(hearthv1.AgentModeTask, func(a *hearthv1.Agent) { a.Labels = map[string]string{hearthv1.LabelShard: "blue"} }),
		agent(hearthv1.AgentModeScheduled, func(a *hearthv1.Agent) {
			a.Status.ActiveRuns, a.Status.NextScheduleTime = 1, ptr.To(metav1.NewTime(start.Add(time.Hour)))
		}),
	} {
		fmt.Fprintln(&b, AgentRow(a, 1-i, i == 0, now).Cells)
	}
	golden(t, "rows", b.String())
}

func TestWhoWaitsAndWhoIsChosen(t *testing.T) {
	standing := run(hearthv1.PhasePending, hearthv1.ReasonPodNotRunning, "", func(r *hearthv1.AgentRun) {
		r.Spec.Delivery, r.Annotations = nil, map[string]string{hearthv1.AnnotationGeneration: "1"}
	})
	runs := []hearthv1.AgentRun{
		*run("", "", ""), *run(hearthv1.PhasePending, hearthv1.ReasonTargetBusy, ""), *run(hearthv1.PhaseRunning, hearthv1.ReasonRunning, ""),
		*run(hearthv1.PhaseFailed, hearthv1.ReasonCancelled, "", ended("Cancelled")), *standing,
	}
	assert.Equal(t, map[string]int{"team/reviewer": 2}, Waiting(runs))
	for _, c := range []struct {
		filter Filter
		want   int
	}{
		{Filter{}, 4},
		{Filter{Standing: true}, 5},
		{Filter{Agent: "other"}, 0},
		{Filter{Agent: "reviewer", Phases: []string{"pending"}}, 2},
		{Filter{Phases: []string{"Pending", "Failed"}}, 3},
		{Filter{Reasons: []string{"TargetBusy", "cancelled"}}, 2},
		{Filter{Phases: []string{"Failed"}, Reasons: []string{"TargetBusy"}}, 0},
	} {
		n := 0
		for i := range runs {
			if c.filter.Has(&runs[i]) {
				n++
			}
		}
		assert.Equal(t, c.want, n, "%+v", c.filter)
	}
}

func TestOldestFirst(t *testing.T) {
	made := func(name string, d time.Duration) hearthv1.AgentRun {
		return hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(d))}}
	}
	runs := []hearthv1.AgentRun{made("c", 2), made("b", time.Hour), made("a", 2)}
	Oldest(runs)
	assert.Equal(t, []string{"a", "c", "b"}, []string{runs[0].Name, runs[1].Name, runs[2].Name})
}

func TestNearNames(t *testing.T) {
	names := []string{"reviewer", "review-bot", "tidy", "a", "Überprüfer"}
	for typed, want := range map[string][]string{
		"reviewr":                  {"reviewer"},
		"reveiwer":                 {"reviewer"},
		"review":                   {"reviewer", "review-bot"},
		"reviewer2":                {"reviewer"},
		"tdiy":                     {"tidy"},
		"nothing":                  nil,
		"":                         nil,
		"b":                        {"a"},
		strings.Repeat("x", 10000): nil,
	} {
		if len(want) == 0 {
			assert.Empty(t, Near(typed, names), "%.20s", typed)
			continue
		}
		assert.Equal(t, want, Near(typed, names), typed)
	}
	assert.Len(t, Near("abc", []string{"abd", "abe", "abf", "abg"}), 3)
}
