package paced

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/signals"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func waitingEvent(uid, kind, reason, action string) told {
	return told{regarding: &corev1.ObjectReference{UID: types.UID(uid)}, kind: kind, reason: reason, action: action, due: noon.Add(eventRest)}
}

func reasonsOf(q queue) []string {
	var out []string
	for _, t := range q.waiting {
		out = append(out, string(t.regarding.UID)+" "+t.reason)
	}
	return out
}

// SPEC.md, Signals: Events come one after the other, a moment later, and what the end says as well is not said before it.
func TestEventsWaitForTheirTurn(t *testing.T) {
	var q queue
	for _, e := range []told{
		waitingEvent("a", corev1.EventTypeNormal, signals.EventReserved, "Reserve"), waitingEvent("b", corev1.EventTypeNormal, signals.EventReserved, "Reserve"),
		waitingEvent("a", corev1.EventTypeWarning, signals.EventAttemptLost, "Retry"), waitingEvent("a", corev1.EventTypeNormal, signals.EventStarted, "Start"),
		waitingEvent("a", corev1.EventTypeWarning, hearthv1.ReasonTargetLost, signals.ActionEnd),
	} {
		assert.False(t, q.add(e))
	}
	assert.Equal(t, []string{"b Reserved", "a AttemptLost", "a TargetLost"}, reasonsOf(q), "warnings are all told")

	e, wait := q.next(noon)
	assert.Nil(t, e)
	assert.Equal(t, eventRest, wait)
	now := noon.Add(eventRest)
	for _, want := range []string{signals.EventReserved, signals.EventAttemptLost, hearthv1.ReasonTargetLost} {
		e, wait = q.next(now)
		require.NotNil(t, e, want)
		assert.Equal(t, want, e.reason)
		assert.Equal(t, eventGap, wait)
		e, wait = q.next(now.Add(eventGap - 1))
		assert.Nil(t, e, "one after the other")
		if want != hearthv1.ReasonTargetLost {
			assert.Equal(t, time.Duration(1), wait)
		}
		now = now.Add(eventGap)
	}
	_, wait = q.next(now)
	assert.Zero(t, wait, "nobody looks at nothing")
}

func TestTooManyEventsAreDroppedNormalOnesFirst(t *testing.T) {
	var q queue
	assert.False(t, q.add(waitingEvent("w", corev1.EventTypeWarning, signals.EventAttemptLost, "Retry")))
	for i := range maxEvents - 1 {
		assert.False(t, q.add(waitingEvent(fmt.Sprint(i), corev1.EventTypeNormal, signals.EventReserved, "Reserve")))
	}
	assert.True(t, q.add(waitingEvent("x", corev1.EventTypeNormal, signals.EventReserved, "Reserve")))
	assert.Len(t, q.waiting, maxEvents)
	assert.Equal(t, []string{"w AttemptLost", "1 Reserved"}, reasonsOf(q)[:2], "the oldest Normal one went")
	q.waiting = nil
	for i := range maxEvents + 1 {
		q.add(waitingEvent(fmt.Sprint(i), corev1.EventTypeWarning, signals.EventAttemptLost, "Retry"))
	}
	assert.Equal(t, "1 AttemptLost", reasonsOf(q)[0])
}

// recorded keeps what a recorder was given.
type recorded struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorded) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, beside := regarding.(*corev1.ObjectReference), "nothing"
	if related != nil {
		beside = related.(*corev1.ObjectReference).Name
	}
	r.lines = append(r.lines, fmt.Sprintf("%s %s %s beside %s: %s %s %s %s", of.Kind, of.Name, of.UID, beside, kind, reason, action, fmt.Sprintf(note, args...)))
}

func (r *recorded) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

// What waits holds no run, is written in its turn, and the rest is when the process ends.
func TestPacedEventsAreWrittenAsTheyWereTold(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, hearthv1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	var mu sync.Mutex
	now := noon
	p := New(scheme, func() time.Time { mu.Lock(); defer mu.Unlock(); return now })
	to := &recorded{}
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "work", UID: "u"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "reviewer-1"}}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- p.Run(ctx) }()
	p.To(to).Eventf(run, pod, corev1.EventTypeNormal, signals.EventReserved, "Reserve", "attempt %d", 1)
	mu.Lock()
	now = now.Add(eventRest)
	mu.Unlock()
	p.To(to).Eventf(run, nil, corev1.EventTypeWarning, signals.EventAttemptLost, "Retry", "100%% %s", "lost")
	first := "AgentRun work u beside reviewer-1: Normal Reserved Reserve attempt 1"
	require.Eventually(t, func() bool { return len(to.told()) == 1 }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{first}, to.told())
	cancel()
	require.NoError(t, <-over)
	assert.Equal(t, []string{first, "AgentRun work u beside nothing: Warning AttemptLost Retry 100% lost"}, to.told())
}

// Where the process ends, reconcilers may still end what they had begun: what they tell then waits for nobody who would write it.
func TestAnEventToldAfterTheRestIsWrittenAtOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, hearthv1.AddToScheme(scheme))
	p, to := New(scheme, func() time.Time { return noon }), &recorded{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Run(ctx))
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "work", UID: "u"}}
	p.To(to).Eventf(run, nil, corev1.EventTypeNormal, signals.EventStarted, "Start", "late")
	assert.Equal(t, []string{"AgentRun work u beside nothing: Normal Started Start late"}, to.told())
}
