package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

func testRun(name string, uid types.UID) *hearthv1.AgentRun {
	return &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: uid, ResourceVersion: "10"},
		Spec:       hearthv1.AgentRunSpec{Goal: "g", Delivery: &hearthv1.DeliverySpec{Port: 4100}},
	}
}

func words() [][2]string {
	return [][2]string{
		{string(delivery.ReasonWaitingForService), hearthv1.ReasonWaitingForService}, {string(delivery.ReasonServiceRecasting), hearthv1.ReasonServiceRecasting},
		{string(delivery.ReasonTargetNotReady), hearthv1.ReasonTargetNotReady}, {string(delivery.ReasonTargetBusy), hearthv1.ReasonTargetBusy},
		{string(delivery.ReasonTargetUnreachable), hearthv1.ReasonTargetUnreachable}, {string(delivery.ReasonTargetUnauthenticated), hearthv1.ReasonTargetUnauthenticated},
		{string(delivery.ReasonTargetIncompatible), hearthv1.ReasonTargetIncompatible}, {string(delivery.ReasonReserved), hearthv1.ReasonReserved},
		{string(delivery.ReasonQueued), hearthv1.ReasonQueued}, {string(delivery.ReasonRunning), hearthv1.ReasonRunning},
		{string(delivery.ReasonContactLost), hearthv1.ReasonContactLost}, {string(delivery.ReasonCancelling), hearthv1.ReasonCancelling},
		{string(delivery.ReasonAccepted), hearthv1.ReasonAccepted}, {string(delivery.ReasonFinished), hearthv1.ReasonFinished},
		{string(delivery.ReasonCancelled), hearthv1.ReasonCancelled}, {string(delivery.ReasonInterrupted), hearthv1.ReasonInterrupted},
		{string(delivery.ReasonCancelUnconfirmed), hearthv1.ReasonCancelUnconfirmed}, {string(delivery.ReasonStartingDeadlineExceeded), hearthv1.ReasonStartingDeadlineExceeded},
		{string(delivery.ReasonTargetLost), hearthv1.ReasonTargetLost}, {string(delivery.ReasonOutcomeUnknown), hearthv1.ReasonOutcomeUnknown},
		{string(delivery.ReasonRejected), hearthv1.ReasonRejected}, {string(delivery.ReasonNotAdmitted), hearthv1.ReasonNotAdmitted},
		{string(delivery.ReasonAgentNotFound), hearthv1.ReasonAgentNotFound},
		{string(delivery.PhasePending), string(hearthv1.PhasePending)}, {string(delivery.PhaseRunning), string(hearthv1.PhaseRunning)},
		{string(delivery.PhaseSucceeded), string(hearthv1.PhaseSucceeded)}, {string(delivery.PhaseFailed), string(hearthv1.PhaseFailed)},
		{string(delivery.True), string(metav1.ConditionTrue)}, {string(delivery.False), string(metav1.ConditionFalse)}, {string(delivery.Unknown), string(metav1.ConditionUnknown)},
	}
}

// What is written is read back as the same value, to the microsecond that the API keeps; and saying it again is no write.
func TestAStatusIsReadBackAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)
	run := testRun("a", "uid-1")
	want := delivery.ReserveStatus(toRun(run), delivery.Reservation{Attempt: 3, PodName: "p", PodUID: "u", Journal: "j", Digest: "d", Generation: 4, By: "me", At: at})
	want.AcceptedAt, want.StartedAt, want.NextTime = at, at, at
	want.Session, want.Losses, want.Spent = "s", 2, 90*time.Second
	out := withStatus(at, run, want, endpoint{listening: true, address: "10.0.0.1:4000"})
	require.NotNil(t, out)
	got := toRun(out).Progress
	for _, when := range []*time.Time{&got.At, &got.AcceptedAt, &got.StartedAt, &got.NextTime} {
		assert.Equal(t, at.Truncate(time.Microsecond), *when)
		*when = at
	}
	assert.Equal(t, want.Progress, got)
	assert.Equal(t, "10.0.0.1:4000", out.Status.Address)
	want.Succeeded.Message, want.Delivered.Message = "in other words", "in other words"
	assert.Nil(t, withStatus(at.Add(time.Hour), out, want, endpoint{}), "neither another message nor another endpoint is worth a write")
}

// What was written a moment ago counts until the cache has caught up, and for no other run of that name.
func TestTheNewestOfCacheAndOwnWritesCounts(t *testing.T) {
	n := newNewest()
	written := testRun("a", "uid-1")
	written.ResourceVersion = "12"
	n.put(written)
	assert.Same(t, written, n.pick(testRun("a", "uid-1")))
	other := testRun("a", "uid-2")
	assert.Same(t, other, n.pick(other))
	n.put(written)
	caught := testRun("a", "uid-1")
	caught.ResourceVersion = "12"
	assert.Same(t, caught, n.pick(caught))
	assert.Empty(t, n.list(func(*hearthv1.AgentRun) bool { return true }), "it is not kept any longer")
}
