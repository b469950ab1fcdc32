package run

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

var (
	begin   = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	created = begin.Add(-time.Minute)
	now     = begin.Add(time.Minute)
)

// livePod is a Pod of standingRun that listens.
func livePod() *corev1.Pod {
	p := BuildPod(standingRun())
	p.UID = "pod-uid"
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.77.0.9", StartTime: &metav1.Time{Time: begin.Add(-time.Second)},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", RestartCount: 0,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}}}},
	}
	return p
}

func podWith(change func(*corev1.Pod)) *corev1.Pod {
	p := livePod()
	change(p)
	return p
}

func runWith(change func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	run := standingRun()
	change(run)
	return run
}

// standingNote is what tells a standing run whose Agent is gone from a one-shot run.
func standingNote(r *v1alpha1.AgentRun) {
	r.Annotations = map[string]string{v1alpha1.AnnotationGeneration: "4"}
}

// seen is a run whose Pod was seen running.
func seen(r *v1alpha1.AgentRun) {
	r.Status.Phase, r.Status.PodName, r.Status.PodUID = v1alpha1.PhaseRunning, "reviewer-1", "pod-uid"
	r.Status.StartTime = ptr.To(metav1.NewMicroTime(begin))
	r.Status.Address = "10.77.0.9:4000"
}

func fails(p *corev1.Pod) {
	p.Status.Phase = corev1.PodFailed
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Error", ExitCode: 1, StartedAt: metav1.NewTime(begin), FinishedAt: metav1.NewTime(begin.Add(30 * time.Second))}}
}

// Every row of "from (Pod, run) to status": R2 to R9.
func TestStatusFollowsThePod(t *testing.T) {
	const unknown, yes, no = metav1.ConditionUnknown, metav1.ConditionTrue, metav1.ConditionFalse
	for _, c := range []struct {
		name      string
		o         Observed
		phase     v1alpha1.Phase
		succeeded metav1.ConditionStatus
		reason    string
		says      string
		acp       metav1.ConditionStatus
		acpReason string
		acpSays   string
		ended     bool
	}{
		{"not created yet", Observed{Run: standingRun()}, "Pending", unknown, "PodNotRunning", "Pod does not exist", no, "NotListening", "Pod does not exist", false},
		{"cannot be created", Observed{Run: standingRun(), Blocked: "the API server refused the Pod: quota"}, "Pending", unknown, "PodNotRunning", "the API server refused the Pod: quota", no, "NotListening", "the API server refused the Pod: quota", false},
		{"pending", Observed{Run: standingRun(), Pod: podWith(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} })}, "Pending", unknown, "PodNotRunning", "Pod exists with phase: Pending", no, "NotListening", "Pod exists with phase: Pending", false},
		{"image cannot be pulled (R7)", Observed{Run: standingRun(), Pod: podWith(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}
		})}, "Pending", unknown, "PodNotRunning", "container agent: ImagePullBackOff: no such image", no, "NotListening", "container agent: ImagePullBackOff: no such image", false},
		{"running, not ready (R10)", Observed{Run: standingRun(), Pod: podWith(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })}, "Running", unknown, "Running", "", no, "NotListening", "Pod is Running but not Ready", false},
		{"ready", Observed{Run: standingRun(), Pod: livePod()}, "Running", unknown, "Running", "", yes, "Listening", "listening on 10.77.0.9:4000", false},
		{"ready without IP", Observed{Run: standingRun(), Pod: podWith(func(p *corev1.Pod) { p.Status.PodIP = "" })}, "Running", unknown, "Running", "", no, "NotListening", "Pod is Ready but has no IP yet", false},
		{"terminating though ready (R4)", Observed{Run: runWith(seen), Pod: podWith(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })}, "Running", unknown, "Running", "", no, "NotListening", "Pod reviewer-1 is terminating", false},
		{"agent restarts: Running is one way (R2)", Observed{Run: runWith(seen), Pod: podWith(func(p *corev1.Pod) {
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodPending, nil
		})}, "Running", unknown, "Running", "", no, "NotListening", "Pod exists with phase: Pending", false},
		{"evicted", Observed{Run: runWith(seen), Pod: podWith(func(p *corev1.Pod) {
			fails(p)
			p.Status.Reason, p.Status.Message = "Evicted", "low on memory"
		})}, "Failed", no, "PodFailed", "Evicted: low on memory", no, "Finished", "the run has ended", true},
		{"failed before it was seen running (R8)", Observed{Run: standingRun(), Pod: podWith(fails)}, "Failed", no, "PodFailed", "container agent: Error, exit code 1", no, "Finished", "the run has ended", true},
		{"failed and terminating", Observed{Run: runWith(seen), Pod: podWith(func(p *corev1.Pod) {
			fails(p)
			p.DeletionTimestamp = &metav1.Time{Time: now}
		})}, "Failed", no, "PodFailed", "container agent: Error, exit code 1", no, "Finished", "the run has ended", true},
		{"succeeded", Observed{Run: runWith(seen), Pod: podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, "Succeeded", yes, "Completed", "Pod ended with phase: Succeeded", no, "Finished", "the run has ended", true},
		{"gone", Observed{Run: runWith(seen), Gone: true}, "Failed", no, "PodFailed", "the Pod was deleted", no, "Finished", "the run has ended", true},
		{"not in the cache, and nobody looked live (row 51)", Observed{Run: runWith(seen)}, "Running", unknown, "Running", "", no, "NotListening", "Pod does not exist", false},
		{"replaced under the same name", Observed{Run: runWith(seen), Pod: podWith(func(p *corev1.Pod) { p.UID = "another" })}, "Failed", no, "PodFailed", "the Pod was deleted", no, "Finished", "the run has ended", true},
		{"a foreign Pod has the name", Observed{Run: standingRun(), Pod: podWith(func(p *corev1.Pod) { p.OwnerReferences = nil }), Blocked: "Pod reviewer-1 exists and is not this run's"}, "Pending", unknown, "PodNotRunning", "Pod reviewer-1 exists and is not this run's", no, "NotListening", "Pod reviewer-1 exists and is not this run's", false},
		{"cancelling", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { seen(r); r.Spec.Cancel = true }), Pod: livePod()}, "Running", unknown, "Cancelling", "waiting for the Pod to end", yes, "Listening", "listening on 10.77.0.9:4000", false},
		{"cancelled while pending (R9)", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.Spec.Cancel = true }), Pod: podWith(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} })}, "Pending", unknown, "Cancelling", "waiting for the Pod to end", no, "NotListening", "Pod exists with phase: Pending", false},
		{"cancelled, Pod gone", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { seen(r); r.Spec.Cancel = true }), Gone: true}, "Failed", no, "Cancelled", "cancelled", no, "Finished", "the run has ended", true},
		{"cancelled before there was a Pod", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.Spec.Cancel = true })}, "Failed", no, "Cancelled", "cancelled", no, "Finished", "the run has ended", true},
		{"stored without admission", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.Spec.Template = nil })}, "Failed", no, "NotAdmitted", "the run was stored without admission: nothing was started", no, "Finished", "the run has ended", true},
		{"complete, but no Agent controls it", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.OwnerReferences = nil; standingNote(r) })}, "Failed", no, "NotAdmitted", "the run was stored without admission: nothing was started", no, "Finished", "the run has ended", true},
		{"orphaned: its Agent was deleted, and it is to stay", Observed{Run: runWith(func(r *v1alpha1.AgentRun) { seen(r); r.OwnerReferences = nil; standingNote(r) }), Pod: livePod()}, "Running", unknown, "Running", "", yes, "Listening", "listening on 10.77.0.9:4000", false},
	} {
		c.o.Now = now
		check := func(t *testing.T, o Observed, says func(t *testing.T, want, got string)) {
			s := Status(o)
			assert.Equal(t, c.phase, s.Phase)
			succeeded := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionSucceeded)
			acp := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionACPReady)
			require.NotNil(t, succeeded)
			require.NotNil(t, acp, "ACPReady is there from the first look (R4)")
			assert.Equal(t, []any{c.succeeded, c.reason}, []any{succeeded.Status, succeeded.Reason})
			assert.Equal(t, []any{c.acp, c.acpReason}, []any{acp.Status, acp.Reason})
			says(t, c.says, succeeded.Message)
			says(t, c.acpSays, acp.Message)
			assert.Equal(t, c.acp == yes, s.Address != "")
			require.Equal(t, c.ended, s.CompletionTime != nil)
			if c.ended {
				assert.Equal(t, c.reason, s.Reason)
				says(t, c.says, s.Message)
				run := o.Run.DeepCopy()
				run.Status = s
				assert.Equal(t, s, Status(Observed{Run: run, Pod: livePod(), Now: now.Add(time.Hour)}), "a record never changes")
			}
		}
		t.Run(c.name, func(t *testing.T) {
			check(t, c.o, func(t *testing.T, want, got string) { assert.Equal(t, want, got) })
		})
		t.Run(c.name+", of a Sandbox (R13)", func(t *testing.T) {
			check(t, sandboxed(c.o), func(t *testing.T, want, got string) { // the Sandbox may say more
				assert.True(t, want == got || want != "" && strings.HasPrefix(got, want), "%q: %q", want, got)
			})
		})
	}
}

// R3: the container's start, else the Pod's; set once.
func TestStartTimeIsTheContainersAndSetOnce(t *testing.T) {
	at := func(s v1alpha1.AgentRunStatus) time.Time { return s.StartTime.Time }
	assert.Equal(t, begin, at(Status(Observed{Run: standingRun(), Pod: livePod(), Now: now})))
	assert.Equal(t, begin.Add(-time.Second), at(Status(Observed{Run: standingRun(), Now: now, Pod: podWith(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })})))
	restarted := podWith(func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].RestartCount = 2
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(now)
	})
	s := Status(Observed{Run: runWith(seen), Pod: restarted, Now: now})
	assert.Equal(t, begin, at(s))
	assert.Equal(t, int32(2), s.Restarts)
	assert.Nil(t, Status(Observed{Run: standingRun(), Now: now, Pod: podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}).StartTime)
}

func TestTheEndIsTheContainersAndDurationIsWallTime(t *testing.T) {
	s := Status(Observed{Run: standingRun(), Pod: podWith(fails), Now: now})
	assert.Equal(t, begin.Add(30*time.Second), s.CompletionTime.Time)
	assert.Equal(t, now, s.RecordedAt.Time, "the controller's own clock, for the recast")
	assert.Equal(t, int64(30), *s.DurationSeconds)
	s = Status(Observed{Run: runWith(seen), Gone: true, Now: now})
	assert.Equal(t, now, s.CompletionTime.Time)
	assert.Equal(t, int64(60), *s.DurationSeconds)
}

func TestALostCredentialIsAConditionOfTheLivingRun(t *testing.T) {
	s := Status(Observed{Run: runWith(seen), Pod: livePod(), CredentialLost: true, Now: now})
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionCredentialReady)
	require.NotNil(t, c)
	assert.Equal(t, []any{metav1.ConditionFalse, v1alpha1.ReasonCredentialLost}, []any{c.Status, c.Reason})
	assert.Nil(t, s.CompletionTime)
	assert.Nil(t, meta.FindStatusCondition(Status(Observed{Run: runWith(seen), Pod: livePod(), Now: now}).Conditions, v1alpha1.AgentRunConditionCredentialReady))
}

func TestNothingIsWrittenAgainWhenNothingChanged(t *testing.T) {
	run := standingRun()
	run.Status = Status(Observed{Run: run, Pod: livePod(), Now: now})
	assert.Equal(t, run.Status, Status(Observed{Run: run, Pod: livePod(), Now: now.Add(time.Hour)}))
}

func TestClipCutsOnACharacter(t *testing.T) {
	assert.Equal(t, "short", clip("short", 10))
	for limit := 3; limit < 20; limit++ {
		got := clip(strings.Repeat("é", 30), limit)
		assert.LessOrEqual(t, len(got), limit)
		assert.True(t, utf8.ValidString(got))
		assert.True(t, strings.HasSuffix(got, "…"))
	}
}

// R9, R22: who has a Pod, who gets one, who loses it.
func TestDecide(t *testing.T) {
	cancelled := func(r *v1alpha1.AgentRun) { r.Spec.Cancel = true }
	for name, c := range map[string]struct {
		o    Observed
		want action
	}{
		"new":                        {Observed{Run: standingRun()}, actionMake},
		"a foreign Pod has the name": {Observed{Run: standingRun(), Pod: podWith(func(p *corev1.Pod) { p.OwnerReferences = nil })}, actionMake},
		"has its Pod":                {Observed{Run: standingRun(), Pod: livePod()}, actionNone},
		"had a Pod that is gone":     {Observed{Run: runWith(seen), Gone: true}, actionNone},
		"not admitted":               {Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.OwnerReferences = nil })}, actionNone},
		"cancelled while pending":    {Observed{Run: runWith(cancelled), Pod: podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, actionEnd},
		"cancelled, no Pod":          {Observed{Run: runWith(cancelled)}, actionNone},
		"cancelled, terminating":     {Observed{Run: runWith(cancelled), Pod: podWith(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })}, actionNone},
		"cancelled, foreign Pod":     {Observed{Run: runWith(cancelled), Pod: podWith(func(p *corev1.Pod) { p.OwnerReferences = nil })}, actionNone},
		"being deleted":              {Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.DeletionTimestamp = &metav1.Time{Time: now} }), Pod: livePod()}, actionEnd},
		"ended with a living Pod":    {Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now)) }), Pod: livePod()}, actionEnd},
		"ended with an ended Pod":    {Observed{Run: runWith(func(r *v1alpha1.AgentRun) { r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now)) }), Pod: podWith(fails)}, actionNone},
	} {
		assert.Equal(t, c.want, decide(c.o), name)
	}
}
