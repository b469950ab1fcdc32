package run

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// once is a one-shot run, changed.
func once(changes ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	run := oneShotRun()
	for _, change := range changes {
		change(run)
	}
	return run
}

// went is a one-shot run whose Pod was seen running, pinned one whose Pod was only made.
func went(r *v1alpha1.AgentRun) {
	r.Status.Phase, r.Status.PodName, r.Status.PodUID, r.Status.StartTime = v1alpha1.PhaseRunning, r.Name, "pod-uid", ptr.To(metav1.NewMicroTime(begin))
}

func pinned(r *v1alpha1.AgentRun) {
	r.Status.Phase, r.Status.PodName, r.Status.PodUID = v1alpha1.PhasePending, r.Name, "pod-uid"
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.AgentRunConditionSucceeded, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPodNotRunning, Message: "container agent: ImagePullBackOff: no such image"}}
}

// onePod is oneShotRun's Pod, ready; changed.
func onePod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := BuildPod(oneShotRun())
	p.UID, p.ResourceVersion = "pod-uid", "7"
	p.Status = livePod().Status
	for _, change := range changes {
		change(p)
	}
	return p
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func pending(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }

func waits(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
	}
}

// exits is a container that ended half a minute after its start, and its Pod with it.
func exits(code int32, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Conditions = corev1.PodFailed, nil
		reason := "Error"
		if code == 0 {
			p.Status.Phase, reason = corev1.PodSucceeded, "Completed"
		}
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reason, ExitCode: code, Message: message, StartedAt: metav1.NewTime(begin), FinishedAt: metav1.NewTime(begin.Add(30 * time.Second))}}
	}
}

// unknown is what kubelet makes of a container that it does not find when its Pod ends, and of one that never started.
func unknown(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "ContainerStatusUnknown", ExitCode: 137, Message: "The container could not be located when the pod was terminated"}}}}}
}

// deleted is a Pod whose deletion was asked for at a time, with 30 s of grace.
func deleted(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: at.Add(30 * time.Second)}, ptr.To[int64](30)
	}
}

func why(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = reason, message }
}

func envelope(outcome wire.Outcome, reason wire.Reason, message string) string {
	return string(wire.EncodeTermination(wire.Envelope{Outcome: outcome, Reason: reason, Message: message, Output: &wire.Output{MediaType: "text/plain", Value: "out"},
		Usage: &wire.Usage{TotalTokens: ptr.To[int64](7)}, Truncation: &wire.Truncation{OriginalBytes: 9, SHA256: "abc"}, Timing: wire.Timing{StartedAt: begin.Add(9 * time.Second), FinishedAt: begin.Add(20 * time.Second), DurationMillis: 11000}}))
}

// The deadlines of oneShotRun: it has 600 s from its creation to start, and 1800 s + 30 s + 30 s from its start.
var (
	tooLate = created.Add(600 * time.Second)
	tooLong = begin.Add(1860 * time.Second)
)

type row struct {
	name      string
	o         Observed
	phase     v1alpha1.Phase
	succeeded metav1.ConditionStatus
	reason    string
	says      string
	acp       string // the reason of ACPReady
}

const (
	alive = metav1.ConditionUnknown
	yes   = metav1.ConditionTrue
	no    = metav1.ConditionFalse
)

// check looks at the row as it is, and as it is of a Sandbox (R13), which may say more.
func (c row) check(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		c.status(t, func(want, got string) { assert.Equal(t, want, got) })
	})
	if c.o.Blocked != "" && c.o.Pod != nil {
		return // a Sandbox makes its own Service
	}
	c.o = sandboxed(c.o)
	t.Run(c.name+", of a Sandbox (R13)", func(t *testing.T) {
		c.status(t, func(want, got string) {
			assert.True(t, want == got || want != "" && strings.HasPrefix(got, want), "%q: %q", want, got)
		})
	})
}

func (c row) status(t *testing.T, says func(want, got string)) v1alpha1.AgentRunStatus {
	t.Helper()
	if c.o.Now.IsZero() {
		c.o.Now = now
	}
	s := Status(c.o)
	succeeded := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionSucceeded)
	acp := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionACPReady)
	require.NotNil(t, succeeded)
	require.NotNil(t, acp, "ACPReady is there from the first look (R4)")
	assert.Equal(t, []any{c.phase, c.succeeded, c.reason}, []any{s.Phase, succeeded.Status, succeeded.Reason})
	says(c.says, succeeded.Message)
	assert.Equal(t, []any{c.acp, c.acp == "Listening"}, []any{acp.Reason, acp.Status == yes})
	assert.Equal(t, c.acp == "Listening", s.Address != "")
	require.Equal(t, c.succeeded != alive, s.CompletionTime != nil)
	if s.CompletionTime != nil {
		assert.Equal(t, c.reason, s.Reason)
		says(c.says, s.Message)
		assert.Equal(t, c.succeeded == yes, s.Phase == v1alpha1.PhaseSucceeded)
		run := c.o.Run.DeepCopy()
		run.Status = s
		assert.Equal(t, s, Status(Observed{Run: run, Pod: onePod(), Now: now.Add(time.Hour)}), "a record never changes")
	}
	return s
}

// R2 to R9 for a run that ends by itself, each row of its Pod.
func TestStatusOfAOneShotRunFollowsItsPod(t *testing.T) {
	for _, c := range []row{
		{"not created", Observed{Run: once()}, "Pending", alive, "PodNotRunning", "Pod does not exist", "NotListening"},
		{"quota (R7)", Observed{Run: once(), Blocked: "the API server refused the Pod: exceeded quota"}, "Pending", alive, "PodNotRunning", "the API server refused the Pod: exceeded quota", "NotListening"},
		{"refused for ever", Observed{Run: once(), Blocked: "the API server refused the Pod: invalid", Never: true}, "Failed", no, "InvalidTemplate", "the API server refused the Pod: invalid", "Finished"},
		{"pending", Observed{Run: once(), Pod: onePod(pending)}, "Pending", alive, "PodNotRunning", "Pod exists with phase: Pending", "NotListening"},
		{"unschedulable", Observed{Run: once(), Pod: onePod(pending, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
		})}, "Pending", alive, "PodNotRunning", "Unschedulable: 0/1 nodes", "NotListening"},
		{"image cannot be pulled", Observed{Run: once(), Pod: onePod(waits("ImagePullBackOff", "no such image"))}, "Pending", alive, "PodNotRunning", "container agent: ImagePullBackOff: no such image", "NotListening"},
		{"invalid image name", Observed{Run: once(), Pod: onePod(waits("InvalidImageName", "UPPER"))}, "Pending", alive, "PodNotRunning", "container agent: InvalidImageName: UPPER", "NotListening"},
		{"container cannot be made", Observed{Run: once(), Pod: onePod(waits("CreateContainerConfigError", "no Secret"))}, "Pending", alive, "PodNotRunning", "container agent: CreateContainerConfigError: no Secret", "NotListening"},
		{"an init container crashes", Observed{Run: once(), Pod: onePod(pending, func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		})}, "Pending", alive, "PodNotRunning", "container fetch: CrashLoopBackOff", "NotListening"},
		{"running, not ready (R10)", Observed{Run: once(), Pod: onePod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })}, "Running", alive, "Running", "", "NotListening"},
		{"ready", Observed{Run: once(), Pod: onePod()}, "Running", alive, "Running", "", "Listening"},
		{"ready without IP", Observed{Run: once(), Pod: onePod(func(p *corev1.Pod) { p.Status.PodIP = "" })}, "Running", alive, "Running", "", "NotListening"},
		{"ready, and its Service's name is taken", Observed{Run: once(went), Pod: onePod(), Blocked: "Service exists"}, "Running", alive, "Running", "", "Listening"},
		{"terminating though ready", Observed{Run: once(went), Pod: onePod(deleted(now))}, "Running", alive, "Running", "", "NotListening"},
		{"terminating for long, in its own time: its node may come back", Observed{Run: once(went), Pod: onePod(deleted(now.Add(-time.Hour))), Begun: begin}, "Running", alive, "Running", "", "NotListening"},
		{"evicted (row 47)", Observed{Run: once(went), Pod: onePod(phase("Failed"), why("Evicted", "low on memory"))}, "Failed", no, "TargetLost", "Evicted: low on memory while it had the run", "Finished"},
		{"evicted before it started", Observed{Run: once(pinned), Pod: onePod(pending, phase("Failed"), why("Evicted", "low on disk"))}, "Failed", no, "TargetLost", "Evicted: low on disk: it may have started", "Finished"},
		{"its node was shut down", Observed{Run: once(went), Pod: onePod(exits(143, ""), why("Terminated", "node shutdown"))}, "Failed", no, "TargetLost", "Terminated: node shutdown while it had the run", "Finished"},
		{"removed with its node object", Observed{Run: once(went), Pod: onePod(phase("Failed"), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
		})}, "Failed", no, "TargetLost", "Pod ended with phase: Failed while it had the run", "Finished"},
		{"kubelet lost its container", Observed{Run: once(went), Pod: onePod(unknown)}, "Failed", no, "TargetLost", "container agent: ContainerStatusUnknown, exit code 137: The container could not be located when the pod was terminated while it had the run", "Finished"},
		{"rejected by kubelet", Observed{Run: once(pinned), Pod: onePod(pending, phase("Failed"), why("OutOfcpu", "Node didn't have enough resource"))}, "Failed", no, "PodFailed", "OutOfcpu: Node didn't have enough resource", "Finished"},
		{"succeeded", Observed{Run: once(went), Pod: onePod(exits(0, ""))}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"succeeded, and nothing is told of its container", Observed{Run: once(went), Pod: onePod(phase("Succeeded"), func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })}, "Succeeded", yes, "Completed", "Pod ended with phase: Succeeded", "Finished"},
		{"failed before it was seen running (R8)", Observed{Run: once(), Pod: onePod(exits(1, ""))}, "Failed", no, "PodFailed", "container agent: Error, exit code 1", "Finished"},
		{"another container failed", Observed{Run: once(went), Pod: onePod(exits(0, ""), phase("Failed"))}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"another container runs on", Observed{Run: once(went), Pod: onePod(exits(3, ""), phase("Running"))}, "Failed", no, "PodFailed", "container agent: Error, exit code 3", "Finished"},
		{"another container has no image", Observed{Run: once(pinned), Pod: onePod(exits(0, ""), phase("Pending"))}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"gone", Observed{Run: once(went), Gone: true}, "Failed", no, "TargetLost", "the Pod was deleted while it had the run", "Finished"},
		{"gone before it was seen to start", Observed{Run: once(pinned), Gone: true}, "Failed", no, "TargetLost", "the Pod was deleted: it may have started", "Finished"},
		{"gone with a result that came with its removal", Observed{Run: once(went), Gone: true, Last: onePod(exits(0, ""))}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"gone, last seen running", Observed{Run: once(went), Gone: true, Last: onePod()}, "Failed", no, "TargetLost", "the Pod was deleted while it had the run", "Finished"},
		{"gone before anybody wrote that it was there", Observed{Run: once(), Last: onePod()}, "Failed", no, "TargetLost", "the Pod was deleted while it had the run", "Finished"},
		{"another run's Pod was last seen", Observed{Run: once(), Last: onePod(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })}, "Pending", alive, "PodNotRunning", "Pod does not exist", "NotListening"},
		{"not in the cache, and nobody looked live (row 51)", Observed{Run: once(went)}, "Running", alive, "Running", "", "NotListening"},
		{"replaced under its name", Observed{Run: once(went), Pod: onePod(func(p *corev1.Pod) { p.UID = "other" })}, "Failed", no, "TargetLost", "the Pod was deleted while it had the run", "Finished"},
		{"deleted, a foreign program said 0", Observed{Run: once(went), Pod: onePod(exits(0, ""), deleted(begin.Add(30*time.Second)))}, "Failed", no, "TargetLost", "the Pod was deleted while it had the run: container agent: Completed, exit code 0", "Finished"},
		{"ended, then deleted", Observed{Run: once(went), Pod: onePod(exits(0, ""), deleted(begin.Add(31*time.Second)))}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"stored without admission", Observed{Run: once(func(r *v1alpha1.AgentRun) { r.Spec.Goal = "" })}, "Failed", no, "NotAdmitted", "the run was stored without admission: nothing was started", "Finished"},
	} {
		c.check(t)
	}
}

// R9, row 33: what was asked to stop ends Cancelled, unless the real end came first; and what nobody confirmed is said.
func TestACancelledOneShotRun(t *testing.T) {
	for _, c := range []row{
		{"before there was a Pod", Observed{Run: once(cancelled)}, "Failed", no, "Cancelled", "cancelled before it had a Pod: nothing was started", "Finished"},
		{"being deleted with a finalizer, before there was a Pod", Observed{Run: once(func(r *v1alpha1.AgentRun) { r.DeletionTimestamp = &metav1.Time{Time: now} })}, "Failed", no, "Cancelled", "cancelled before it had a Pod: nothing was started", "Finished"},
		{"while pending", Observed{Run: once(pinned, cancelled), Pod: onePod(pending, deleted(now))}, "Pending", alive, "Cancelling", "waiting for the Pod to end", "NotListening"},
		{"while running", Observed{Run: once(went, cancelled), Pod: onePod(deleted(now))}, "Running", alive, "Cancelling", "waiting for the Pod to end", "NotListening"},
		{"the Pod is gone", Observed{Run: once(went, cancelled), Gone: true}, "Failed", no, "Cancelled", "cancelled: the Pod is gone while it had the run", "Finished"},
		{"killed", Observed{Run: once(went, cancelled), Pod: onePod(exits(137, "half"), deleted(begin.Add(29*time.Second)))}, "Failed", no, "Cancelled", "cancelled: container agent: Error, exit code 137: half", "Finished"},
		{"never started", Observed{Run: once(pinned, cancelled), Pod: onePod(unknown, deleted(now))}, "Failed", no, "Cancelled", "cancelled before it was seen to start", "Finished"},
		{"the harness stopped it", Observed{Run: once(went, cancelled), Pod: onePod(exits(1, envelope("Cancelled", "Cancelled", "as asked")), deleted(begin))}, "Failed", no, "Cancelled", "as asked", "Finished"},
		{"the harness stopped it, and by now its own time would be over", Observed{Run: once(went, cancelled), Pod: onePod(exits(1, envelope("Cancelled", "Cancelled", "as asked")), deleted(begin)), Now: tooLong.Add(time.Hour)}, "Failed", no, "Cancelled", "as asked", "Finished"},
		{"the real end came first", Observed{Run: once(went, cancelled), Pod: onePod(exits(0, envelope("Succeeded", "Completed", "done")), deleted(begin))}, "Succeeded", yes, "Completed", "done", "Finished"},
		{"a foreign program's real end came first", Observed{Run: once(went, cancelled), Pod: onePod(exits(0, ""))}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"in its grace period and 30 s", Observed{Run: once(went, cancelled), Pod: onePod(deleted(now)), Now: now.Add(59 * time.Second)}, "Running", alive, "Cancelling", "waiting for the Pod to end", "NotListening"},
		{"beyond", Observed{Run: once(went, cancelled), Pod: onePod(deleted(now)), Now: now.Add(60 * time.Second)}, "Failed", no, "CancelUnconfirmed", "the Pod did not end in its grace period and 30 s: its node may be gone, and the agent may run on", "Finished"},
	} {
		c.check(t)
	}
}

// R7, R41, row 37: each state that has not ended has a deadline, and what is recorded is proven.
func TestDeadlinesOfAOneShotRun(t *testing.T) {
	lateStart := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.StartedAt = metav1.NewTime(tooLate)
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(tooLate.Add(time.Second))
	}
	longRun := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(tooLong.Add(time.Second))
	}
	image := waits("ImagePullBackOff", "no such image")
	for _, c := range []row{
		{"a moment before", Observed{Run: once(pinned), Pod: onePod(image), Now: tooLate.Add(-1)}, "Pending", alive, "PodNotRunning", "container agent: ImagePullBackOff: no such image", "NotListening"},
		{"not started: the Pod goes first", Observed{Run: once(pinned), Pod: onePod(image), Now: tooLate}, "Pending", alive, "PodNotRunning", "not started within 600 s: container agent: ImagePullBackOff: no such image", "NotListening"},
		{"not started, the Pod ended", Observed{Run: once(pinned), Pod: onePod(unknown, deleted(tooLate)), Now: tooLate}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: container agent: ImagePullBackOff: no such image", "Finished"},
		{"not started, the Pod is gone", Observed{Run: once(pinned), Gone: true, Now: tooLate}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: container agent: ImagePullBackOff: no such image", "Finished"},
		{"not started, the Pod is gone and was seen", Observed{Run: once(pinned), Gone: true, Last: onePod(image), Now: tooLate}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: container agent: ImagePullBackOff: no such image", "Finished"},
		{"no Pod could be made", Observed{Run: once(func(r *v1alpha1.AgentRun) {
			pinned(r)
			r.Status.PodUID = ""
			r.Status.Conditions[0].Message = "exceeded quota"
		}), Now: tooLate}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: exceeded quota", "Finished"},
		{"first seen when it was too late", Observed{Run: once(), Now: tooLate}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: no Pod was made", "Finished"},
		{"it started at the last moment and goes on", Observed{Run: once(pinned), Pod: onePod(), Begun: tooLate, Now: tooLate}, "Running", alive, "Running", "", "Listening"},
		{"it started while its Pod was being deleted", Observed{Run: once(pinned), Pod: onePod(exits(1, ""), lateStart, deleted(tooLate)), Now: tooLate.Add(2 * time.Second)}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: its Pod was deleted when it had just started, and may have had effects", "Finished"},
		{"the same, and the harness says so", Observed{Run: once(pinned), Pod: onePod(exits(1, envelope("Cancelled", "Cancelled", "cut off")), lateStart, deleted(tooLate)), Now: tooLate.Add(2 * time.Second)}, "Failed", no, "StartingDeadlineExceeded", "not started within 600 s: its Pod was deleted when it had just started, and may have had effects", "Finished"},
		{"the same, and it had ended", Observed{Run: once(pinned), Pod: onePod(exits(0, envelope("Succeeded", "Completed", "done")), lateStart, deleted(tooLate)), Now: tooLate.Add(2 * time.Second)}, "Succeeded", yes, "Completed", "done", "Finished"},
		{"not started, and the Pod does not go", Observed{Run: once(pinned), Pod: onePod(image, deleted(tooLate)), Now: tooLate.Add(60 * time.Second)}, "Failed", no, "OutcomeUnknown", "out of time, and the Pod did not end in its grace period and 30 s: its node may be gone, and the agent may run on", "Finished"},
		{"its container started, another has no image", Observed{Run: once(pinned), Pod: onePod(phase("Pending")), Begun: begin, Now: tooLate}, "Pending", alive, "PodNotRunning", "Pod exists with phase: Pending", "NotListening"},

		{"own time not over by a moment", Observed{Run: once(went), Pod: onePod(), Now: tooLong.Add(-1)}, "Running", alive, "Running", "", "Listening"},
		{"own time over: the Pod goes first", Observed{Run: once(went), Pod: onePod(), Now: tooLong}, "Running", alive, "Running", "still running after its own time of 1800 s: waiting for the Pod to end", "Listening"},
		{"own time over by the node's clock, not by ours", Observed{Run: once(went), Pod: onePod(), Begun: begin.Add(time.Minute), Now: tooLong}, "Running", alive, "Running", "", "Listening"},
		{"a node's clock that is fast defers it no further than the time to start", Observed{Run: once(func(r *v1alpha1.AgentRun) { went(r); r.Status.StartTime.Time = begin.Add(time.Hour) }), Pod: onePod(), Now: tooLate.Add(1860 * time.Second)}, "Running", alive, "Running", "still running after its own time of 1800 s: waiting for the Pod to end", "Listening"},
		{"own time over, the Pod ended", Observed{Run: once(went), Pod: onePod(exits(137, ""), longRun, deleted(tooLong)), Now: tooLong.Add(2 * time.Second)}, "Failed", no, "DeadlineExceeded", "still running after its own time of 1800 s: the Pod was deleted", "Finished"},
		{"own time over, the harness was cut off", Observed{Run: once(went), Pod: onePod(exits(1, envelope("Cancelled", "Cancelled", "cut off")), longRun, deleted(tooLong)), Now: tooLong.Add(2 * time.Second)}, "Failed", no, "DeadlineExceeded", "still running after its own time of 1800 s: the Pod was deleted", "Finished"},
		{"own time over, the Pod is gone", Observed{Run: once(went), Gone: true, Now: tooLong}, "Failed", no, "DeadlineExceeded", "still running after its own time of 1800 s: the Pod was deleted", "Finished"},
		{"own time over, and it had ended before", Observed{Run: once(went), Pod: onePod(exits(0, "")), Now: tooLong}, "Succeeded", yes, "Completed", "container agent: Completed, exit code 0", "Finished"},
		{"own time over, and the Pod does not go", Observed{Run: once(went), Pod: onePod(deleted(tooLong)), Now: tooLong.Add(60 * time.Second)}, "Failed", no, "OutcomeUnknown", "out of time, and the Pod did not end in its grace period and 30 s: its node may be gone, and the agent may run on", "Finished"},
		{"the harness's own deadline", Observed{Run: once(went), Pod: onePod(exits(1, envelope("Failed", "DeadlineExceeded", "its own time is over")))}, "Failed", no, "DeadlineExceeded", "its own time is over", "Finished"},
	} {
		c.check(t)
	}
}

// R3: the container of a one-shot run may have started before every other of its Pod could; that is the run's start.
func TestTheStartOfAOneShotRunIsItsContainers(t *testing.T) {
	s := Status(Observed{Run: once(pinned), Pod: onePod(phase("Pending")), Begun: begin, Now: now})
	require.NotNil(t, s.StartTime)
	assert.Equal(t, begin, s.StartTime.Time)
	assert.Nil(t, Status(Observed{Run: once(pinned), Pod: onePod(pending), Now: now}).StartTime)
}

// R13, R41: what is told of a Sandbox that ended counts though its Pod is gone, unless it was told to go; and a Pod that somebody else has
// to remove does not keep a run for ever.
func TestAOneShotRunWhosePodIsGoneGoesByItsSandbox(t *testing.T) {
	end := func(reason string, at time.Time, changes ...func(*v1alpha1.AgentRun)) string {
		o := sandboxed(Observed{Run: once(append([]func(*v1alpha1.AgentRun){went}, changes...)...), Now: at, Gone: true})
		o.Sandbox = theSandbox(o.Run, metav1.Condition{Type: "Finished", Status: yes, Reason: reason, Message: "as told"})
		return Status(o).Reason
	}
	assert.Equal(t, "Completed", end("PodSucceeded", now))
	assert.Equal(t, "PodFailed", end("PodFailed", now))
	assert.Equal(t, "Completed", end("PodSucceeded", now, cancelled))
	assert.Equal(t, "Cancelled", end("PodFailed", now, cancelled))
	assert.Equal(t, "Completed", end("PodSucceeded", tooLong))
	assert.Equal(t, "DeadlineExceeded", end("PodFailed", tooLong))

	left := sandboxed(Observed{Run: once(), Pod: onePod(pending), Now: tooLate.Add(patience - 1)})
	left.Sandbox = nil
	assert.Nil(t, Status(left).CompletionTime)
	left.Now = tooLate.Add(patience)
	assert.Equal(t, "OutcomeUnknown", Status(left).Reason)
}

// R11, R27: an envelope is recorded as that of a delivered run is; the times are the container's.
func TestAnEnvelopeIsTheRecord(t *testing.T) {
	equal := func(want, got string) { assert.Equal(t, want, got) }
	s := row{"", Observed{Run: once(went), Pod: onePod(exits(2, envelope("Failed", "LimitReached", "stopped at its limit")))}, "Failed", no, "LimitReached", "stopped at its limit", "Finished"}.status(t, equal)
	assert.Equal(t, "Failed", s.Outcome)
	assert.Equal(t, &v1alpha1.Output{MediaType: "text/plain", Value: "out"}, s.Output)
	assert.Equal(t, &v1alpha1.Usage{TotalTokens: ptr.To[int64](7)}, s.Usage)
	assert.Equal(t, &v1alpha1.Truncation{OriginalBytes: 9, SHA256: "abc"}, s.Truncation)
	assert.Empty(t, s.TerminationData, "it is no foreign message")
	assert.Equal(t, []any{begin, begin.Add(30 * time.Second), int64(30), now}, []any{s.StartTime.Time, s.CompletionTime.Time, *s.DurationSeconds, s.RecordedAt.Time})
	s = row{"exit code 0 and a failure", Observed{Run: once(went), Pod: onePod(exits(0, envelope("Failed", "Refused", "no")))}, "Failed", no, "Refused", "no", "Finished"}.status(t, equal)
	assert.Equal(t, "Failed", s.Outcome, "the envelope decides")
}

// R11: what a foreign image left is kept as it was, as valid text that fits; kubelet's own words are not of the image.
func TestAForeignMessageIsKept(t *testing.T) {
	data := func(message string, changes ...func(*corev1.Pod)) string {
		s := Status(Observed{Run: once(went), Pod: onePod(append([]func(*corev1.Pod){exits(1, message)}, changes...)...), Now: now})
		assert.Empty(t, s.Outcome, "no runtime of ours said anything")
		assert.Nil(t, s.Output)
		return s.TerminationData
	}
	assert.Equal(t, `{"result": 42}`, data(`{"result": 42}`))
	assert.Equal(t, `{"result": 42}`, data(`{"result": 42}`, why("Evicted", "low on memory")))
	assert.Equal(t, "bad \uFFFD\uFFFD", data("bad \xff\x00"))
	assert.Equal(t, strings.Repeat("é", 2048), data("x" + strings.Repeat("é", 4096))[1:]+"é")
	assert.Empty(t, data(""))
	assert.Empty(t, Status(Observed{Run: once(went), Pod: onePod(unknown), Now: now}).TerminationData)
}

// R3: a run that never started has no start, though its Pod began on a node.
func TestARunThatNeverStartedHasNoStartTime(t *testing.T) {
	begun := func(p *corev1.Pod) { p.Status.StartTime = ptr.To(metav1.NewTime(begin)) }
	never := Status(Observed{Run: once(pinned), Pod: onePod(unknown, begun, deleted(tooLate)), Now: tooLate.Add(time.Minute)})
	assert.Equal(t, v1alpha1.ReasonStartingDeadlineExceeded, never.Reason)
	assert.Nil(t, never.StartTime)
	assert.Nil(t, never.DurationSeconds)
	assert.NotNil(t, Status(Observed{Run: once(pinned), Pod: onePod(exits(1, "")), Now: now}).StartTime)
}

// A node whose clock is centuries ahead does not make a record of centuries.
func TestTimesOfANodeAreBelievedWithinReason(t *testing.T) {
	far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	ahead := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.StartedAt, p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(far), metav1.NewTime(far)
	}
	s := Status(Observed{Run: once(pinned), Pod: onePod(exits(1, ""), ahead), Now: now})
	assert.Equal(t, now, s.CompletionTime.Time)
	assert.Equal(t, now, s.StartTime.Time)
	assert.Zero(t, *s.DurationSeconds)
}

// When to look again though nothing happens: at the next deadline.
func TestALivingOneShotRunIsLookedAtAtItsNextDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		o    Observed
		want time.Duration
	}{
		"not started":                  {Observed{Run: once(pinned), Pod: onePod(pending)}, tooLate.Sub(now)},
		"no Pod, refused":              {Observed{Run: once(), Blocked: "quota"}, now.Sub(created) / 8},
		"no Pod, refused, just made":   {Observed{Run: once(), Blocked: "quota", Now: created}, lookAgain},
		"no Pod, refused for long":     {Observed{Run: once(), Blocked: "quota", Now: created.Add(510 * time.Second)}, lookLater},
		"running":                      {Observed{Run: once(went), Pod: onePod(), Begun: begin}, tooLong.Sub(now)},
		"running, Service refused":     {Observed{Run: once(went), Pod: onePod(), Begun: begin, Blocked: "Service exists"}, lookLater},
		"terminating":                  {Observed{Run: once(went), Pod: onePod(deleted(now)), Begun: begin}, time.Minute},
		"out of time, deletion failed": {Observed{Run: once(pinned), Pod: onePod(pending), Now: tooLate}, lookAgain},
		"out of time, terminating":     {Observed{Run: once(pinned), Pod: onePod(pending, deleted(tooLate)), Now: tooLate}, time.Minute},
		"ended":                        {Observed{Run: once(func(r *v1alpha1.AgentRun) { r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now)) }), Pod: onePod()}, 0},
		"not admitted":                 {Observed{Run: once(func(r *v1alpha1.AgentRun) { r.Spec.StartingDeadlineSeconds = nil })}, 0},
		"standing":                     {Observed{Run: standingRun(), Pod: livePod()}, 0},
		"standing, refused":            {Observed{Run: standingRun(), Blocked: "quota", Now: created.Add(30 * time.Second)}, lookAgain},
	} {
		if c.o.Now.IsZero() {
			c.o.Now = now
		}
		assert.Equal(t, c.want, c.o.again(), name)
	}
}

// R9, R22, R45: who has a Pod, who gets one, who loses it.
func TestDecideForAOneShotRun(t *testing.T) {
	finished := func(r *v1alpha1.AgentRun) { r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now)) }
	for name, c := range map[string]struct {
		o    Observed
		want action
	}{
		"new":                          {Observed{Run: once()}, actionMake},
		"ad hoc":                       {Observed{Run: once(func(r *v1alpha1.AgentRun) { r.Spec.AgentRef = v1alpha1.AgentRef{} })}, actionMake},
		"not admitted":                 {Observed{Run: once(func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.UID = "" })}, actionNone},
		"has its Pod":                  {Observed{Run: once(), Pod: onePod()}, actionNone},
		"had a Pod that is gone":       {Observed{Run: once(went), Gone: true}, actionNone},
		"had a Pod nobody wrote down":  {Observed{Run: once(), Last: onePod()}, actionNone},
		"cancelled":                    {Observed{Run: once(cancelled)}, actionNone},
		"cancelled, pending":           {Observed{Run: once(cancelled), Pod: onePod(pending)}, actionEnd},
		"cancelled, terminating":       {Observed{Run: once(cancelled), Pod: onePod(deleted(now))}, actionNone},
		"too late for a Pod":           {Observed{Run: once(), Now: tooLate}, actionNone},
		"too late to start":            {Observed{Run: once(pinned), Pod: onePod(pending), Now: tooLate}, actionEnd},
		"started at the last moment":   {Observed{Run: once(pinned), Pod: onePod(), Begun: tooLate, Now: tooLate}, actionNone},
		"own time over":                {Observed{Run: once(went), Pod: onePod(), Begun: begin, Now: tooLong}, actionEnd},
		"ended, its Pod too":           {Observed{Run: once(went, finished), Pod: onePod(exits(0, ""))}, actionNone},
		"ended, the phase not yet":     {Observed{Run: once(went, finished), Pod: onePod(exits(0, ""), phase("Running"))}, actionNone},
		"ended, a sidecar runs":        {Observed{Run: once(went, finished), Pod: onePod(exits(0, ""), phase("Running"), sidecar)}, actionEnd},
		"ended, a sidecar not started": {Observed{Run: once(went, finished), Pod: onePod(exits(0, ""), phase("Running"), func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"}) })}, actionEnd},
		"ended by a record, Pod lives": {Observed{Run: once(went, finished), Pod: onePod()}, actionEnd},
	} {
		if c.o.Now.IsZero() {
			c.o.Now = now
		}
		assert.Equal(t, c.want, decide(c.o), name)
	}
}

func sidecar(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
}

// SPEC.md, Traces: a one-shot run's harness learns the run's trace from its environment.
func TestAOneShotPodIsToldItsTrace(t *testing.T) {
	env := func(o Observed) map[string]string {
		out := map[string]string{}
		for _, c := range o.pod().Spec.Containers {
			for _, e := range c.Env {
				if strings.HasPrefix(e.Name, "TRACE") {
					out[c.Name+" "+e.Name] = e.Value
				}
			}
		}
		return out
	}
	assert.Empty(t, env(Observed{Run: oneShotRun()}))
	assert.Equal(t, map[string]string{"agent TRACEPARENT": "00-a", "agent TRACESTATE": "v=1"}, env(Observed{Run: oneShotRun(), Traceparent: "00-a", Tracestate: "v=1"}))
	assert.Empty(t, env(Observed{Run: standingRun(), Traceparent: "00-a"}), "a standing run is no piece of work")
}
