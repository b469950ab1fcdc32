package run

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

var rank = map[v1alpha1.Phase]int{"": 0, v1alpha1.PhasePending: 0, v1alpha1.PhaseRunning: 1, v1alpha1.PhaseSucceeded: 2, v1alpha1.PhaseFailed: 2}

// anyPod draws any state of a run's Pod, or of another one under its name, or none.
func anyPod(t *rapid.T, run *v1alpha1.AgentRun, at time.Time) *corev1.Pod {
	if rapid.IntRange(0, 9).Draw(t, "no Pod") == 0 {
		return nil
	}
	states := []func(*corev1.Pod){
		func(*corev1.Pod) {}, pending, waits("ImagePullBackOff", "no such image"), waits("CrashLoopBackOff", ""), unknown, exits(0, ""), exits(1, "foreign"),
		exits(0, envelope("Succeeded", "Completed", "")), exits(1, envelope("Cancelled", "Cancelled", "")), phase("Failed"), phase("Pending"), phase("Unknown"),
		func(p *corev1.Pod) { p.Status.PodIP = "" }, func(p *corev1.Pod) { p.Status.Conditions = nil }, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
		func(p *corev1.Pod) { p.Status = corev1.PodStatus{} },
	}
	p := BuildPod(run)
	p.UID, p.Status = "pod-uid", livePod().Status
	rapid.SampledFrom(states).Draw(t, "state")(p)
	others := []func(*corev1.Pod){
		deleted(at.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "deleted s ago")) * time.Second)), why("Evicted", "low on memory"),
		func(p *corev1.Pod) { p.UID = "other" }, func(p *corev1.Pod) { p.OwnerReferences = nil },
	}
	for _, change := range others {
		if rapid.IntRange(0, 4).Draw(t, "changed") == 0 {
			change(p)
		}
	}
	return p
}

// R2, R4, I2, R41: over any sequence of what may be seen of a run's Pod, in any order, with a clock that only goes on: the phase never
// goes back, a record never changes, ACPReady is there, True only for a Pod that listens, Finished exactly when the run has ended.
func TestWhateverIsSeenTheStatusKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := standingRun()
		if rapid.Bool().Draw(t, "one-shot") {
			run = oneShotRun()
		}
		at := now
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			at = at.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "s")) * time.Second)
			run.Spec.Cancel = run.Spec.Cancel || rapid.IntRange(0, 9).Draw(t, "cancel") == 0
			if run.DeletionTimestamp == nil && rapid.IntRange(0, 19).Draw(t, "delete") == 0 {
				run.DeletionTimestamp = &metav1.Time{Time: at}
			}
			o := Observed{Run: run, Now: at, Pod: anyPod(t, run, at), Begun: begin}
			o.Gone = o.Pod == nil && run.Status.PodUID != "" && rapid.Bool().Draw(t, "gone")
			if o.Gone && rapid.Bool().Draw(t, "seen going") {
				o.Last = anyPod(t, run, at)
			}
			if rapid.IntRange(0, 5).Draw(t, "blocked") == 0 {
				o.Blocked, o.Never = "refused", o.own() == nil && rapid.Bool().Draw(t, "never")
			}
			before, s := run.Status, Status(o)
			if before.CompletionTime != nil {
				require.Equal(t, before, s, "a record never changes")
				require.NotEqual(t, actionMake, decide(o), "no second Pod")
				continue
			}
			require.GreaterOrEqual(t, rank[s.Phase], rank[before.Phase])
			acp := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionACPReady)
			succeeded := meta.FindStatusCondition(s.Conditions, v1alpha1.AgentRunConditionSucceeded)
			require.NotNil(t, acp)
			require.NotNil(t, succeeded)
			listening, _ := pod.Listening(o.own())
			ended := s.CompletionTime != nil
			require.Equal(t, listening && !ended, acp.Status == metav1.ConditionTrue, acp.Message)
			require.Equal(t, acp.Status == metav1.ConditionTrue, s.Address != "")
			require.Equal(t, ended, acp.Reason == v1alpha1.ReasonFinished)
			require.Equal(t, ended, succeeded.Status != metav1.ConditionUnknown)
			require.Equal(t, ended, rank[s.Phase] == 2)
			require.Equal(t, s.Phase == v1alpha1.PhaseSucceeded, succeeded.Status == metav1.ConditionTrue)
			require.NotEmpty(t, succeeded.Reason, "the API demands one")
			require.LessOrEqual(t, len(s.TerminationData), wire.MaxTerminationBytes)
			if before.StartTime != nil {
				require.Equal(t, before.StartTime, s.StartTime, "set once (R3)")
			}
			if before.PodUID != "" {
				require.Equal(t, before.PodUID, s.PodUID, "one Pod a run")
				require.NotEqual(t, actionMake, decide(o))
			}
			if ended {
				require.Equal(t, succeeded.Reason, s.Reason)
				require.NotNil(t, s.RecordedAt)
			}
			run.Status = s
		}
	})
}

// R41: whatever became of its Pod, a one-shot run ends: at its last deadline, or as soon as the Pod that was then deleted is gone or should be.
func TestNoOneShotRunLivesForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := oneShotRun()
		o := Observed{Run: run, Now: now, Pod: anyPod(t, run, now), Begun: now}
		run.Status = Status(o)
		far := tooLate.Add(1860 * time.Second)
		p := anyPod(t, run, far)
		o = Observed{Run: run, Now: far, Pod: p, Gone: run.Status.PodUID != "" && p == nil}
		if own := o.own(); own != nil && !pod.Ended(own) && own.DeletionTimestamp == nil && Status(o).CompletionTime == nil {
			require.Equal(t, actionEnd, decide(o), "it is told to end")
			deleted(far)(own)
			o.Now = far.Add(time.Minute)
		}
		if own := o.own(); own != nil && Status(o).CompletionTime == nil {
			o.Now = own.DeletionTimestamp.Add(slack)
		}
		require.NotNil(t, Status(o).CompletionTime, "%+v", Status(o).Conditions)
	})
}

// R2 to R4: each condition appears once.
func TestConditionsAppearOnce(t *testing.T) {
	s := Status(Observed{Run: once(went), Pod: onePod(exits(0, "")), Now: now})
	kinds := []string{}
	for _, c := range s.Conditions {
		kinds = append(kinds, c.Type)
	}
	slices.Sort(kinds)
	require.Equal(t, []string{v1alpha1.AgentRunConditionACPReady, v1alpha1.AgentRunConditionSucceeded}, kinds)
}
