package schedule

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // as cmd/controller

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// noon is a time of most schedules here.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// nightly is an Agent with a run an hour, made an hour and a half before noon and looked at since.
func nightly(change ...func(*v1alpha1.Agent)) *v1alpha1.Agent {
	a := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nightly", UID: "agent-uid", Generation: 3, CreationTimestamp: metav1.NewTime(noon.Add(-90 * time.Minute))},
		Spec: v1alpha1.AgentSpec{
			Mode: v1alpha1.AgentModeScheduled, Goal: "Look at what changed.",
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
			Schedule: &v1alpha1.Schedule{Cron: "0 * * * *", ConcurrencyPolicy: v1alpha1.ConcurrencyForbid, StartingDeadlineSeconds: ptr.To[int64](60)},
		},
		Status: v1alpha1.AgentStatus{ObservedGeneration: 3, ObservedSchedule: "0 * * * * UTC", NextScheduleTime: ptr.To(metav1.NewTime(noon)),
			LastScheduleTime: ptr.To(metav1.NewTime(noon.Add(-time.Hour)))},
	}
	for _, f := range change {
		f(a)
	}
	return a
}

func made(at time.Time, uid types.UID, ended bool) v1alpha1.AgentRun {
	run, _ := runOf(nightly(), at)
	run.Spec.AgentRef.UID = uid
	if ended {
		run.Status.CompletionTime = ptr.To(metav1.NewMicroTime(at.Add(time.Minute)))
	}
	return *run
}

func clock(t time.Time) string { return t.UTC().Format("15:04") }

// R34; SPEC.md, Scheduled.
func TestWhatIsDueAndWhatWentBy(t *testing.T) {
	promise := func(at time.Time) func(*v1alpha1.Agent) {
		return func(a *v1alpha1.Agent) { a.Status.NextScheduleTime = ptr.To(metav1.NewTime(at)) }
	}
	allow := func(a *v1alpha1.Agent) { a.Spec.Schedule.ConcurrencyPolicy = v1alpha1.ConcurrencyAllow }
	fresh := func(a *v1alpha1.Agent) { a.Status = v1alpha1.AgentStatus{} }
	for name, c := range map[string]struct {
		change []func(*v1alpha1.Agent)
		runs   []v1alpha1.AgentRun
		after  time.Duration // noon
		at     string
		missed []string
		next   string
	}{
		"before its time":                      {after: -time.Second, next: "12:00"},
		"at its time":                          {at: "12:00", next: "13:00"},
		"within its deadline":                  {after: 60 * time.Second, at: "12:00", next: "13:00"},
		"later than its deadline":              {after: 61 * time.Second, missed: []string{"1 12:00-12:00 more than 1m0s late"}, next: "13:00"},
		"the one before has ended":             {runs: []v1alpha1.AgentRun{made(noon.Add(-time.Hour), "agent-uid", true)}, at: "12:00", next: "13:00"},
		"the one before lives":                 {runs: []v1alpha1.AgentRun{made(noon.Add(-time.Hour), "agent-uid", false)}, missed: []string{"1 12:00-12:00 run nightly-29932500 has not ended"}, next: "13:00"},
		"it lives and may":                     {change: []func(*v1alpha1.Agent){allow}, runs: []v1alpha1.AgentRun{made(noon.Add(-time.Hour), "agent-uid", false)}, at: "12:00", next: "13:00"},
		"it lives and is another's":            {runs: []v1alpha1.AgentRun{made(noon.Add(-time.Hour), "another-uid", false)}, at: "12:00", next: "13:00"},
		"made, and the status does not say so": {runs: []v1alpha1.AgentRun{made(noon, "agent-uid", false)}, after: time.Second, next: "13:00"},
		"made, and found after the deadline":   {runs: []v1alpha1.AgentRun{made(noon, "agent-uid", true)}, after: 20 * time.Minute, next: "13:00"},
		"three hours away, back at a time": {change: []func(*v1alpha1.Agent){promise(noon.Add(-3 * time.Hour))}, after: time.Second, at: "12:00",
			missed: []string{"3 09:00-11:00 more than 1m0s late"}, next: "13:00"},
		"three hours away, one was made": {change: []func(*v1alpha1.Agent){promise(noon.Add(-3 * time.Hour))}, after: time.Second, at: "12:00",
			runs: []v1alpha1.AgentRun{made(noon.Add(-2*time.Hour), "agent-uid", true)}, missed: []string{"2 09:00-11:00 more than 1m0s late"}, next: "13:00"},
		"three hours away, back between": {change: []func(*v1alpha1.Agent){promise(noon.Add(-3 * time.Hour))}, after: 30 * time.Minute,
			missed: []string{"4 09:00-12:00 more than 1m0s late"}, next: "13:00"},
		"a year away": {change: []func(*v1alpha1.Agent){promise(noon.AddDate(-1, 0, 0))}, at: "12:00", missed: []string{"100+ 12:00-11:00 more than 1m0s late"}, next: "13:00"},
		"a year away, a long deadline makes the newest only": {change: []func(*v1alpha1.Agent){promise(noon.AddDate(-1, 0, 0)), func(a *v1alpha1.Agent) { a.Spec.Schedule.StartingDeadlineSeconds = ptr.To[int64](31536000) }},
			after: 30 * time.Minute, at: "12:00", missed: []string{"100+ 12:00-11:00 more than 8760h0m0s late (startingDeadlineSeconds), or a later"}, next: "13:00"},
		"set back an hour after its run": {change: []func(*v1alpha1.Agent){promise(noon.Add(time.Hour)), func(a *v1alpha1.Agent) { a.Status.LastScheduleTime = ptr.To(metav1.NewTime(noon)) }},
			after: -30 * time.Minute, next: "13:00"},
		"set back after a jump that missed everything": {change: []func(*v1alpha1.Agent){promise(noon.Add(9 * time.Hour))}, after: -time.Minute, next: "12:00"},
		"new, at a time after its creation":            {change: []func(*v1alpha1.Agent){fresh}, at: "12:00", missed: []string{"1 11:00-11:00 more than 1m0s late"}, next: "13:00"},
		"new, no time since":                           {change: []func(*v1alpha1.Agent){fresh, func(a *v1alpha1.Agent) { a.CreationTimestamp = metav1.NewTime(noon) }}, after: time.Second, next: "13:00"},
		"resumed":                                      {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Status.NextScheduleTime, a.Status.ObservedSchedule = nil, "" }}, after: time.Second, next: "13:00"},
		"suspended before its time":                    {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Schedule.Suspend = true }}, after: -time.Second},
		"suspended, and the time has come": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Schedule.Suspend = true }}, after: time.Second,
			missed: []string{"1 12:00-12:00 the schedule is suspended"}},
		"suspended, and the time has its run": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Schedule.Suspend = true }}, after: time.Second,
			runs: []v1alpha1.AgentRun{made(noon, "agent-uid", true)}},
		"a later time had its run": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Status.LastScheduleTime = ptr.To(metav1.NewTime(noon.Add(time.Hour))) }}, after: time.Second,
			missed: []string{"1 12:00-12:00 more than 1m0s late (startingDeadlineSeconds), or a later time had come"}, next: "14:00"},
		"changed": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Schedule.Cron = "*/5 * * * *" }}, after: -2 * time.Minute, next: "12:00"},
		"changed, and the promised time has come": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Schedule.Cron = "*/5 * * * *" }}, after: 11 * time.Minute,
			missed: []string{"1 12:00-12:00 the schedule was changed"}, next: "12:15"},
		"another zone": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) {
			a.Spec.Schedule.Cron, a.Spec.Schedule.TimeZone = "30 14 * * *", "Europe/Berlin"
		}}, after: -time.Second, next: "13:30"},
		"another goal changes nothing": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Goal, a.Generation = "Look twice.", 4 }}, after: time.Second, at: "12:00", next: "13:00"},
		"a Pod that can never be made": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostPID = true }}, after: time.Second,
			missed: []string{"1 12:00-12:00 the Agent cannot work: [InvalidTemplate] spec.template.spec.hostPID"}},
		"a cron that was stored without admission": {change: []func(*v1alpha1.Agent){func(a *v1alpha1.Agent) { a.Spec.Schedule.Cron = "0 0 30 2 *" }}, after: -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			agent := nightly(c.change...)
			p := Decide(Observed{Agent: agent, Runs: c.runs, Now: noon.Add(c.after), Problem: problemOf(agent)})
			if c.at == "" {
				assert.Zero(t, p.At)
			} else {
				assert.Equal(t, c.at, clock(p.At))
			}
			require.Len(t, p.Missed, len(c.missed))
			for i, m := range p.Missed {
				more := map[bool]string{true: "+"}[m.More]
				assert.Contains(t, fmt.Sprintf("%d%s %s-%s %s", m.Count, more, clock(m.First), clock(m.Last), m.Why), c.missed[i])
				assert.True(t, p.Status.LastMissedTime.Time.Equal(m.Last))
			}
			assert.Equal(t, len(c.missed) > 0 || c.at != "", p.Acts())
			if c.next == "" {
				assert.Nil(t, p.Status.NextScheduleTime)
				assert.Empty(t, p.Status.ObservedSchedule)
			} else {
				require.NotNil(t, p.Status.NextScheduleTime)
				assert.Equal(t, c.next, clock(p.Status.NextScheduleTime.Time))
			}
			assert.Positive(t, p.After)
			assert.LessOrEqual(t, p.After, lookAgain)
		})
	}
}

// SPEC.md, Scheduled: what Ready says.
func TestReadySaysWhenOrWhyNot(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*v1alpha1.Agent)
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"scheduled": {func(*v1alpha1.Agent) {}, metav1.ConditionTrue, v1alpha1.ReasonScheduled, "next at 2026-11-29T12:00:00Z"},
		"in its zone": {func(a *v1alpha1.Agent) { a.Spec.Schedule.TimeZone = "Europe/Berlin" }, metav1.ConditionTrue, v1alpha1.ReasonScheduled,
			"next at 2026-11-29T13:00:00+01:00"},
		"set back": {func(a *v1alpha1.Agent) { a.Status.LastScheduleTime = ptr.To(metav1.NewTime(noon)) }, metav1.ConditionTrue, v1alpha1.ReasonScheduled,
			"next at 2026-11-29T13:00:00Z; the clock was set back: no time up to 2026-11-29T12:00:00Z is repeated"},
		"suspended":   {func(a *v1alpha1.Agent) { a.Spec.Schedule.Suspend = true }, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.schedule.suspend"},
		"no cron":     {func(a *v1alpha1.Agent) { a.Spec.Schedule.Cron = "@reboot" }, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, "spec.schedule.cron"},
		"no zone":     {func(a *v1alpha1.Agent) { a.Spec.Schedule.TimeZone = "CEST" }, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, "spec.schedule.timeZone"},
		"no schedule": {func(a *v1alpha1.Agent) { a.Spec.Schedule = nil }, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, "spec.schedule.cron"},
		"no value":    {func(a *v1alpha1.Agent) { a.Spec.Goal, a.Spec.GoalTemplate = "", "Look at ${what}." }, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, "MissingParameters"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := nightly(c.change)
			p := Decide(Observed{Agent: agent, Now: noon.Add(-time.Minute), Problem: problemOf(agent)})
			ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.AgentConditionReady)
			require.NotNil(t, ready)
			assert.Equal(t, c.status, ready.Status)
			assert.Equal(t, c.reason, ready.Reason)
			assert.Contains(t, ready.Message, c.message)
			assert.Equal(t, agent.Generation, p.Status.ObservedGeneration)
			again := agent.DeepCopy()
			again.Status = p.Status
			assert.Equal(t, p.Status, Decide(Observed{Agent: again, Now: noon.Add(-50 * time.Second), Problem: problemOf(again)}).Status, "nothing changed: nothing to write")
		})
	}
}

// R34: what a Scheduled Agent's run is: complete as admission resolves it, its time on it, and no owner, so that it outlives the Agent.
func TestARunIsCompleteAndNamedAfterItsTime(t *testing.T) {
	agent := nightly(func(a *v1alpha1.Agent) {
		a.Spec.Goal, a.Spec.GoalTemplate = "", "Look at ${what}."
		a.Spec.Parameters = []v1alpha1.Parameter{{Name: "what", Default: ptr.To("the logs")}}
		a.Spec.TTLSecondsAfterFinished, a.Spec.ActiveDeadlineSeconds, a.Spec.StartingDeadlineSeconds = ptr.To[int64](60), 1800, 600
	})
	run, refusals := runOf(agent, time.Date(2026, 10, 25, 2, 30, 0, 0, time.FixedZone("", 7200)))
	require.Empty(t, refusals)
	assert.Equal(t, "nightly-29881470", run.Name)
	assert.Equal(t, map[string]string{v1alpha1.AnnotationScheduledAt: "2026-10-25T00:30:00Z"}, run.Annotations)
	assert.Equal(t, map[string]string{v1alpha1.LabelAgent: "nightly"}, run.Labels)
	agent.Labels = map[string]string{v1alpha1.LabelShard: "blue", "team": "payments"}
	sharded, _ := runOf(agent, time.Unix(0, 0))
	assert.Equal(t, map[string]string{v1alpha1.LabelAgent: "nightly", v1alpha1.LabelShard: "blue"}, sharded.Labels, "SPEC.md, Shards: the Agent's own controller finds it")
	assert.Empty(t, run.OwnerReferences)
	assert.True(t, run.OneShot())
	assert.Equal(t, "Look at the logs.", run.Spec.Goal)
	assert.Equal(t, v1alpha1.AgentRef{Name: "nightly", UID: "agent-uid", Generation: 3}, run.Spec.AgentRef)
	assert.Equal(t, []any{agent.Spec.Template, int64(1800), int64(600), int64(60)},
		[]any{*run.Spec.Template, *run.Spec.ActiveDeadlineSeconds, *run.Spec.StartingDeadlineSeconds, *run.Spec.TTLSecondsAfterFinished})
	assert.Equal(t, "a-00000000", nameOf(&v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, time.Unix(0, 0)), "names sort as times do")
}
