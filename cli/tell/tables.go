package tell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hearthdev/hearth/api/shard"
	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// none is in a cell that has nothing to say.
const none = "-"

func columns(everywhere bool, names ...string) []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	if everywhere {
		all = append(all, kube.Column("namespace", false))
	}
	for _, name := range names {
		name, wide := strings.CutSuffix(name, "+")
		all = append(all, kube.Column(name, wide))
	}
	return all
}

// RunColumns are those of RunRow; everywhere is of several namespaces.
func RunColumns(everywhere bool) []metav1.TableColumnDefinition {
	return columns(everywhere, "name", "agent", "phase", "reason", "age", "duration", "pod+", "attempt+", "message+")
}

// RunRow is a run in a table; gone tells that it was deleted.
func RunRow(run *hearthv1.AgentRun, everywhere, gone bool, now time.Time) metav1.TableRow {
	phase, reason, message := State(run)
	shown := string(phase)
	if gone {
		shown = "Deleted"
	}
	length := none
	if s, e := run.Status.StartTime, run.Status.CompletionTime; s != nil && e != nil {
		length = took(s, e)
	} else if s != nil {
		length = duration.HumanDuration(max(0, now.Sub(s.Time)))
	}
	tries := none
	if n := attempt(run); n > 0 {
		tries = strconv.FormatInt(n, 10)
	}
	cells := []any{run.Name, cmp.Or(run.Spec.AgentRef.Name, none), shown, cmp.Or(reason, none), age(run.CreationTimestamp, now), length,
		cmp.Or(run.Status.PodName, none), tries, cmp.Or(message, none)}
	if everywhere {
		cells = append([]any{run.Namespace}, cells...)
	}
	return metav1.TableRow{Cells: cells}
}

// AgentColumns are those of AgentRow.
func AgentColumns(everywhere bool) []metav1.TableColumnDefinition {
	return columns(everywhere, "name", "mode", "ready", "reason", "standing", "busy", "waiting", "age", "next+", "recasts+", "shard+", "message+")
}

// AgentRow is an Agent in a table. waiting is how many of its runs have not started, below 0 if that is not known.
func AgentRow(agent *hearthv1.Agent, waiting int, everywhere bool, now time.Time) metav1.TableRow {
	ready, reason, message := none, none, none
	if c := meta.FindStatusCondition(agent.Status.Conditions, hearthv1.AgentConditionReady); c != nil {
		ready, reason, message = string(c.Status), c.Reason, cmp.Or(c.Message, none)
	}
	standing, busy, next, wait := none, strconv.Itoa(int(agent.Status.ActiveRuns)), none, none
	if agent.Spec.Mode == hearthv1.AgentModeService {
		wanted := int32(1)
		if agent.Spec.Replicas != nil {
			wanted = *agent.Spec.Replicas
		}
		standing, busy = fmt.Sprintf("%d/%d", agent.Status.ReadyReplicas, wanted), strconv.Itoa(int(agent.Status.Busy))
	} else if agent.Spec.Mode == hearthv1.AgentModeTask {
		busy = none
	}
	if t := agent.Status.NextScheduleTime; t != nil {
		next = "in " + duration.HumanDuration(max(0, t.Sub(now)))
	}
	if waiting >= 0 {
		wait = strconv.Itoa(waiting)
	}
	cells := []any{agent.Name, string(agent.Spec.Mode), ready, reason, standing, busy, wait, age(agent.CreationTimestamp, now), next,
		strconv.Itoa(int(agent.Status.Recasts)), shard.Name(agent.Labels), message}
	if everywhere {
		cells = append([]any{agent.Namespace}, cells...)
	}
	return metav1.TableRow{Cells: cells}
}

// Waiting counts the runs of each Agent, by namespace/name, that have not started.
func Waiting(runs []hearthv1.AgentRun) map[string]int {
	counts := map[string]int{}
	for i := range runs {
		run := &runs[i]
		if phase, _, _ := State(run); !run.Standing() && !run.Ended() && phase == hearthv1.PhasePending {
			counts[run.Namespace+"/"+run.Spec.AgentRef.Name]++
		}
	}
	return counts
}

// Filter chooses runs for a list.
type Filter struct {
	Agent    string
	Phases   []string
	Reasons  []string
	Standing bool // standing runs too
}

// Has tells whether a run is chosen; words are compared without case.
func (f Filter) Has(run *hearthv1.AgentRun) bool {
	phase, reason, _ := State(run)
	one := func(words []string, word string) bool {
		return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
	}
	return (f.Standing || !run.Standing()) && (f.Agent == "" || run.Spec.AgentRef.Name == f.Agent) && one(f.Phases, string(phase)) && one(f.Reasons, reason)
}

// Oldest sorts runs as they were made, the newest last: under it is where a person types.
func Oldest(runs []hearthv1.AgentRun) {
	slices.SortStableFunc(runs, func(a, b hearthv1.AgentRun) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// Reasons are those that a run may have, for a shell to complete.
func Reasons() []string {
	all := []string{hearthv1.ReasonCompleted, hearthv1.ReasonRunning}
	for _, words := range []map[string]string{waits, afterwards} {
		all = slices.AppendSeq(all, maps.Keys(words))
	}
	all = slices.AppendSeq(all, maps.Keys(codes))
	all = append(all, failures...)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(r string) bool { return r == "" })
}

func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return none
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}
