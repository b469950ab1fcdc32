package page

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files and the screenshots")

// noon is the clock of all these tests.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// secretText is in everything that must not be shown.
const secretText = "do-not-show"

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func microAgo(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(noon.Add(-d))) }

func conditionOf(kind string, status metav1.ConditionStatus, reason, message string, since time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(since)}
}

func agentOf(namespace, name string, change func(*hearthv1.Agent)) *hearthv1.Agent {
	a := &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Generation: 3, CreationTimestamp: ago(9 * 24 * time.Hour), ResourceVersion: "1"},
		Spec: hearthv1.AgentSpec{Mode: hearthv1.AgentModeService, Goal: secretText, GoalTemplate: secretText, Replicas: ptr.To(int32(1)),
			Parameters: []hearthv1.Parameter{{Name: "ticket", Default: ptr.To(secretText)}},
			Runtime:    hearthv1.AgentRuntime{Command: []string{secretText}, Delivery: &hearthv1.DeliveryRuntime{Concurrency: 2, Queue: ptr.To(int32(2))}}},
	}
	change(a)
	return a
}

func standingOf(a *hearthv1.Agent, n int, change func(*hearthv1.AgentRun)) *hearthv1.AgentRun {
	name := fmt.Sprintf("%s-%d", a.Name, n)
	r := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name, UID: types.UID(name), CreationTimestamp: ago(26 * time.Hour), ResourceVersion: "1",
			Annotations: map[string]string{hearthv1.AnnotationGeneration: "3"}},
		Spec: hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: a.Name, UID: a.UID, Generation: 3}, Goal: secretText, Runtime: a.Spec.Runtime.DeepCopy()},
		Status: hearthv1.AgentRunStatus{Phase: hearthv1.PhaseRunning, PodName: name, PodUID: types.UID(name), Address: secretText, StartTime: microAgo(26 * time.Hour),
			Conditions: []metav1.Condition{
				conditionOf(hearthv1.AgentRunConditionSucceeded, "Unknown", hearthv1.ReasonRunning, "", 26*time.Hour),
				conditionOf(hearthv1.AgentRunConditionACPReady, "True", hearthv1.ReasonListening, "", 26*time.Hour)}},
	}
	change(r)
	return r
}

// runOf is a delivered run that waits, made some time ago.
func runOf(namespace, agent, name string, made time.Duration, change func(*hearthv1.AgentRun)) *hearthv1.AgentRun {
	r := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: ago(made), ResourceVersion: "1"},
		Spec: hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent, UID: types.UID(agent), Generation: 3}, Goal: secretText,
			Parameters: map[string]string{"ticket": secretText}, Delivery: &hearthv1.DeliverySpec{Port: 4100},
			StartingDeadlineSeconds: ptr.To(int64(3600)), ActiveDeadlineSeconds: ptr.To(int64(1800)), TTLSecondsAfterFinished: ptr.To(int64(604800))},
		Status: hearthv1.AgentRunStatus{Phase: hearthv1.PhasePending, Conditions: []metav1.Condition{
			conditionOf(hearthv1.AgentRunConditionSucceeded, "Unknown", hearthv1.ReasonTargetBusy, "every standing run is at capacity", made)}},
	}
	change(r)
	return r
}

func reserved(pod string, attempt int64, at time.Duration) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		r.Status.PodName, r.Status.PodUID = pod, types.UID(pod)
		r.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: attempt, PodName: pod, PodUID: types.UID(pod), Session: secretText, Digest: secretText,
			ReservedAt: microAgo(at), AcceptedAt: microAgo(at - 20*time.Millisecond)}
		r.Status.Conditions[0] = conditionOf(hearthv1.AgentRunConditionSucceeded, "Unknown", hearthv1.ReasonQueued, "", at)
	}
}

func working(pod string, at time.Duration) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		reserved(pod, 1, at+50*time.Millisecond)(r)
		r.Status.Phase, r.Status.StartTime = hearthv1.PhaseRunning, microAgo(at)
		r.Status.Conditions[0] = conditionOf(hearthv1.AgentRunConditionSucceeded, "Unknown", hearthv1.ReasonRunning, "", at)
	}
}

func ended(pod, reason string, at, took time.Duration) func(*hearthv1.AgentRun) {
	return func(r *hearthv1.AgentRun) {
		working(pod, at+took)(r)
		s := &r.Status
		s.Phase, s.Outcome, s.Reason, s.Message = hearthv1.PhaseFailed, "Failed", reason, secretText
		status := metav1.ConditionFalse
		if reason == hearthv1.ReasonCompleted {
			s.Phase, s.Outcome, status = hearthv1.PhaseSucceeded, "Succeeded", metav1.ConditionTrue
		}
		s.CompletionTime, s.RecordedAt = microAgo(at), microAgo(at-30*time.Millisecond)
		s.Output, s.TerminationData = &hearthv1.Output{Value: secretText}, secretText
		s.Usage = &hearthv1.Usage{InputTokens: ptr.To(int64(18234)), OutputTokens: ptr.To(int64(912)), Cost: &hearthv1.Cost{Amount: "0.42", Currency: "EUR"}}
		s.Conditions[0] = conditionOf(hearthv1.AgentRunConditionSucceeded, status, reason, secretText, at)
	}
}

func onePod(r *hearthv1.AgentRun) {
	r.Spec.Delivery = nil
	r.Status.Conditions[0].Reason, r.Status.Conditions[0].Message = hearthv1.ReasonPodNotRunning, "Pod exists with phase: Pending"
}

// played is a morning in a small company.
func played() (agents []*hearthv1.Agent, runs []*hearthv1.AgentRun) {
	reviewer := agentOf("payments", "reviewer", func(a *hearthv1.Agent) {
		a.Spec.Replicas = ptr.To(int32(2))
		a.Status = hearthv1.AgentStatus{Replicas: 2, ReadyReplicas: 2, Busy: 3, Conditions: []metav1.Condition{
			conditionOf(hearthv1.AgentConditionReady, "True", hearthv1.ReasonStanding, "", 26*time.Hour),
			conditionOf(hearthv1.AgentConditionProgressing, "False", hearthv1.ReasonStanding, "", 26*time.Hour)}}
	})
	triage := agentOf("payments", "triage", func(a *hearthv1.Agent) {
		a.Status = hearthv1.AgentStatus{Recasts: 4, LastRecastTime: microAgo(5 * time.Minute), Conditions: []metav1.Condition{
			conditionOf(hearthv1.AgentConditionReady, "False", hearthv1.ReasonRecasting, "triage-1 ended (PodFailed: OOMKilled, exit code 137); replaced at 2026-11-30T12:00:20Z", 40*time.Second)}}
	})
	nightly := agentOf("platform", "nightly-report", func(a *hearthv1.Agent) {
		a.Spec.Mode, a.Spec.Schedule, a.Spec.Runtime.Delivery = hearthv1.AgentModeScheduled, &hearthv1.Schedule{Cron: "0 3 * * *", TimeZone: "Europe/Berlin"}, nil
		a.Status = hearthv1.AgentStatus{NextScheduleTime: ptr.To(ago(-14 * time.Hour)), LastScheduleTime: ptr.To(ago(10 * time.Hour)), Conditions: []metav1.Condition{
			conditionOf(hearthv1.AgentConditionReady, "True", hearthv1.ReasonScheduled, "next at 2026-12-01T02:00:00Z", 10*time.Hour)}}
	})
	upgrade := agentOf("platform", "upgrade-dependencies", func(a *hearthv1.Agent) {
		a.Spec.Mode, a.Spec.Runtime.Delivery = hearthv1.AgentModeTask, nil
		a.Status = hearthv1.AgentStatus{Conditions: []metav1.Condition{conditionOf(hearthv1.AgentConditionReady, "True", hearthv1.ReasonAcceptsRuns, "", 9*24*time.Hour)}}
	})
	const p = "payments"
	runs = []*hearthv1.AgentRun{
		standingOf(reviewer, 1, func(*hearthv1.AgentRun) {}),
		standingOf(reviewer, 2, func(*hearthv1.AgentRun) {}),
		runOf(p, "reviewer", "review-482", 15*time.Second, func(*hearthv1.AgentRun) {}),
		runOf(p, "reviewer", "review-481", 48*time.Second, reserved("reviewer-2", 1, 47*time.Second)),
		runOf(p, "reviewer", "review-480", 70*time.Second, working("reviewer-2", 69*time.Second)),
		runOf(p, "reviewer", "review-479", 95*time.Second, working("reviewer-1", 94*time.Second)),
		runOf(p, "reviewer", "review-478", 4*time.Minute, working("reviewer-2", 3*time.Minute)),
		runOf(p, "triage", "triage-incident-77", 2*time.Minute, func(r *hearthv1.AgentRun) {
			r.Status.Conditions[0] = conditionOf(hearthv1.AgentRunConditionSucceeded, "Unknown", hearthv1.ReasonServiceRecasting, "triage-1 ended and is being replaced", 40*time.Second)
			r.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, Losses: 1, SpentSeconds: 75, NextTime: microAgo(-20 * time.Second)}
			r.Spec.BackoffLimit = ptr.To(int32(3))
		}),
		runOf("platform", "upgrade-dependencies", "upgrade-web", 20*time.Second, onePod),
		runOf(p, "reviewer", "review-477", 11*time.Minute, ended("reviewer-1", hearthv1.ReasonCompleted, 8*time.Minute, 2*time.Minute+12*time.Second)),
		runOf(p, "reviewer", "review-476", 31*time.Minute, ended("reviewer-2", hearthv1.ReasonDeadlineExceeded, 25*time.Second, 30*time.Minute)),
		runOf("platform", "nightly-report", "nightly-report-29411280", 10*time.Hour, func(r *hearthv1.AgentRun) {
			onePod(r)
			ended("nightly-report-29411280", hearthv1.ReasonCompleted, 9*time.Hour+48*time.Minute, 11*time.Minute)(r)
			r.Status.Delivery = nil
			r.Annotations = map[string]string{hearthv1.AnnotationScheduledAt: "2026-11-30T02:00:00Z"}
		}),
	}
	return []*hearthv1.Agent{reviewer, triage, nightly, upgrade}, runs
}

// stage is a site with a world of its own.
type stage struct {
	*site
	ready, leading atomic.Bool
}

func newStage(t testing.TB, agents []*hearthv1.Agent, runs []*hearthv1.AgentRun) *stage {
	t.Helper()
	s, err := newSite(Options{Replica: "hearth-controller-6d9f7c-x2x8k", Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	g := &stage{site: s}
	g.ready.Store(true)
	g.leading.Store(true)
	s.synced, s.leads = g.ready.Load, g.leading.Load
	for _, a := range agents {
		s.index.put(a)
	}
	for _, r := range runs {
		s.index.put(r)
	}
	return g
}

func playedStage(t testing.TB) *stage {
	agents, runs := played()
	return newStage(t, agents, runs)
}

// get asks for a page as a browser would.
func (g *stage) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "localhost:8090"
	g.server().Handler.ServeHTTP(w, request)
	return w
}

// golden compares with testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, got, 0o600))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	was, is := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(was), len(is)) {
		if !assert.Equal(t, was[i], is[i], "%s, line %d; -update writes it", name, i+1) {
			return
		}
	}
	assert.Len(t, is, len(was), name)
}

type run = hearthv1.AgentRun

func list[T any](all ...T) []T { return all }

// hostileAgent is one whose every text is long.
func hostileAgent(long string) func(*hearthv1.Agent) {
	return func(a *hearthv1.Agent) {
		a.Status.Conditions = []metav1.Condition{conditionOf(hearthv1.AgentConditionReady, "False", long, long+long, time.Hour)}
	}
}
