package retention

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/deliver"
)

var end = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// record is a delivered run that has ended and stays for a minute.
func record(change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	r := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "review-1", UID: "run-uid", ResourceVersion: "7"},
		Spec: v1alpha1.AgentRunSpec{
			AgentRef: v1alpha1.AgentRef{Name: "reviewer", UID: "agent-uid", Generation: 1}, Goal: "Review PR 17.", Delivery: &v1alpha1.DeliverySpec{Port: 4100},
			TTLSecondsAfterFinished: ptr.To[int64](60),
		},
		Status: v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseSucceeded, RecordedAt: ptr.To(metav1.NewMicroTime(end)), CompletionTime: ptr.To(metav1.NewMicroTime(end.Add(-time.Hour)))},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func oneShot(r *v1alpha1.AgentRun) { r.Spec.Delivery = nil }

func scheduledAt(at time.Time) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		oneShot(r)
		r.Name = fmt.Sprintf("nightly-%08d", at.Unix()/60)
		r.Annotations = map[string]string{v1alpha1.AnnotationScheduledAt: at.Format(time.RFC3339)}
	}
}

// R32; SPEC.md, Retention.
func TestWhenARecordMayGo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRun)
		want   time.Time // zero is never
	}{
		"delivered": {func(*v1alpha1.AgentRun) {}, end.Add(time.Minute)},
		"one-shot":  {oneShot, end.Add(time.Minute)},
		"ad hoc":    {func(r *v1alpha1.AgentRun) { oneShot(r); r.Spec.AgentRef = v1alpha1.AgentRef{} }, end.Add(time.Minute)},
		"at once":   {func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = ptr.To[int64](0) }, end},
		"as late as can be said": {func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = ptr.To[int64](1<<31 - 1) },
			end.Add((1<<31 - 1) * time.Second)},
		"says nothing":                  {func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = nil }, end.Add(7 * 24 * time.Hour)},
		"without recordedAt":            {func(r *v1alpha1.AgentRun) { r.Status.RecordedAt = nil }, end.Add(-59 * time.Minute)},
		"recorded by a clock far ahead": {func(r *v1alpha1.AgentRun) { r.Status.RecordedAt = ptr.To(metav1.NewMicroTime(end.AddDate(1, 0, 0))) }, end.AddDate(1, 0, 0).Add(time.Minute)},
		"failed":                        {func(r *v1alpha1.AgentRun) { r.Status.Phase = v1alpha1.PhaseFailed }, end.Add(time.Minute)},
		"living":                        {func(r *v1alpha1.AgentRun) { r.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseRunning} }, time.Time{}},
		"being deleted":                 {func(r *v1alpha1.AgentRun) { r.DeletionTimestamp = ptr.To(metav1.NewTime(end)) }, time.Time{}},
		"standing, left behind by its Agent": {func(r *v1alpha1.AgentRun) {
			oneShot(r)
			r.Annotations, r.Spec.TTLSecondsAfterFinished = map[string]string{v1alpha1.AnnotationGeneration: "1"}, nil
		}, end.Add(7 * 24 * time.Hour)},
		"standing, with its Agent alive": {func(r *v1alpha1.AgentRun) { oneShot(r); r.OwnerReferences = owned() }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			run := record(c.change)
			got, ever := Expiry(run)
			assert.Equal(t, !c.want.IsZero(), ever)
			if ever {
				assert.True(t, c.want.Equal(got), "%s", got)
			}
			cached, err := deliver.Transform(run.DeepCopy())
			require.NoError(t, err)
			again, still := Expiry(cached.(*v1alpha1.AgentRun))
			assert.Equal(t, []any{got, ever}, []any{again, still}, "the cache keeps what is needed")
		})
	}
}

func owned() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "hearth.dev/v1alpha1", Kind: "Agent", Name: "reviewer", UID: "agent-uid", Controller: ptr.To(true)}}
}

func nightly(noted *time.Time) *v1alpha1.Agent {
	a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nightly", UID: "agent-uid"},
		Spec: v1alpha1.AgentSpec{Mode: v1alpha1.AgentModeScheduled, Schedule: &v1alpha1.Schedule{Cron: "* * * * *"}}}
	if noted != nil {
		a.Status.LastScheduleTime = ptr.To(metav1.NewTime(*noted))
	}
	return a
}

// SPEC.md, Retention: the run is the proof that its time had one, until the Agent's status says so.
func TestAScheduledRunStaysUntilItsAgentHasNotedIt(t *testing.T) {
	before, after := end.Add(-time.Minute), end.Add(time.Minute)
	run := record(scheduledAt(end))
	assert.False(t, Noted(run, nightly(nil)))
	assert.False(t, Noted(run, nightly(&before)))
	assert.True(t, Noted(run, nightly(&end)))
	assert.True(t, Noted(run, nightly(&after)))
	assert.True(t, Noted(run, nil), "the Agent is gone")
	again := nightly(nil)
	again.UID = "another-uid"
	assert.True(t, Noted(run, again), "the Agent is gone, and made again")
	assert.True(t, Noted(record(), nightly(nil)), "no schedule made it")
}

// R32, R34: of those that a schedule made the newest stay, so many that succeeded and so many that did not.
func TestHistoryLimitsKeepTheNewest(t *testing.T) {
	var runs []v1alpha1.AgentRun
	add := func(minute int, change ...func(*v1alpha1.AgentRun)) {
		r := record(append([]func(*v1alpha1.AgentRun){scheduledAt(end.Add(time.Duration(minute) * time.Minute))}, change...)...)
		runs = append(runs, *r)
	}
	failed := func(r *v1alpha1.AgentRun) { r.Status.Phase = v1alpha1.PhaseFailed }
	living := func(r *v1alpha1.AgentRun) { r.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseRunning} }
	for _, minute := range []int{3, 0, 4, 1, 2} { // as a cache lists them: in no order
		add(minute)
		add(10+minute, failed)
	}
	add(20, living)
	add(-5, living)
	add(30, func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.UID = "another-uid" })
	add(31, func(r *v1alpha1.AgentRun) { r.DeletionTimestamp = ptr.To(metav1.NewTime(end)) })
	runs = append(runs, *record()) // no schedule made it

	all := end.Add(time.Hour)
	minutes := func(agent *v1alpha1.Agent) (m []int) {
		for _, run := range Surplus(agent, runs) {
			var of int64
			_, err := fmt.Sscanf(run.Name, "nightly-%d", &of)
			require.NoError(t, err)
			m = append(m, int(of-end.Unix()/60))
		}
		return m
	}
	assert.ElementsMatch(t, []int{1, 0, 13, 12, 11, 10}, minutes(nightly(&all)), "3 and 1 by default")
	with := func(successful, failed int32) *v1alpha1.Agent {
		a := nightly(&all)
		a.Spec.Schedule.SuccessfulRunsHistoryLimit, a.Spec.Schedule.FailedRunsHistoryLimit = &successful, &failed
		return a
	}
	assert.ElementsMatch(t, []int{0, 1, 2, 3, 4, 10, 11, 12, 13, 14}, minutes(with(0, 0)))
	assert.Empty(t, minutes(with(5, 1000)))
	noted := end.Add(2 * time.Minute)
	behind := with(0, 0)
	behind.Status.LastScheduleTime = ptr.To(metav1.NewTime(noted))
	assert.ElementsMatch(t, []int{0, 1, 2}, minutes(behind), "what its Agent has not noted stays")
	gone := with(0, 0)
	gone.DeletionTimestamp = ptr.To(metav1.NewTime(end))
	assert.Empty(t, minutes(gone), "records outlive the Agent")
	assert.Empty(t, Surplus(&v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{UID: "agent-uid"}}, runs), "no schedule, no limits")
}
