package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Rows 22 and 55: a Link that was closed, or that forgot, is no proof that nothing was sent.
func TestWhatALinkForgotMayHaveLeft(t *testing.T) {
	at := time.Unix(1, 0)
	refused := delivery.Sent{Count: 1, Outcome: delivery.SendNotTaken}
	for name, c := range map[string]struct {
		last         client.Attempt
		handed, open bool
		want         delivery.Observed
	}{
		"never handed over":                 {want: delivery.Observed{}},
		"never handed over, open":           {open: true, want: delivery.Observed{}},
		"handed over, the Link knows":       {last: client.Attempt{Sent: refused}, handed: true, open: true, want: delivery.Observed{Sent: refused}},
		"under way":                         {last: client.Attempt{Sent: delivery.Sent{Count: 1}, InFlight: true}, handed: true, open: true, want: delivery.Observed{Sent: delivery.Sent{Count: 1}, InFlight: true}},
		"closed after the answer":           {last: client.Attempt{Sent: refused, NotBefore: at}, handed: true, want: delivery.Observed{Sent: refused, NotBefore: at}},
		"closed while the second was sent":  {last: client.Attempt{Sent: delivery.Sent{Count: 2, Outcome: delivery.SendNotTaken}, InFlight: true}, handed: true, want: delivery.Observed{Sent: delivery.Sent{Count: 2}}},
		"handed over, the Link knows none":  {handed: true, open: true, want: delivery.Observed{Sent: delivery.Sent{Count: 1}}},
		"handed over, closed before a word": {handed: true, want: delivery.Observed{Sent: delivery.Sent{Count: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got delivery.Observed
			fill(&got, c.last, c.handed, c.open)
			assert.Equal(t, c.want, got)
		})
	}
}

// Row 44: who proved who it is and has not told yet what it holds is not asked for each run: its list tells of all of them at once.
func TestATargetIsAskedOnceItsListIsKnown(t *testing.T) {
	assert.Equal(t, delivery.LinkChallenging, usable(client.Status{State: client.StateVerified}))
	assert.Equal(t, delivery.LinkVerified, usable(client.Status{State: client.StateVerified, Listed: true}))
	assert.Equal(t, delivery.LinkUnreachable, usable(client.Status{State: client.StateUnreachable, Listed: true}))
}

// A note belongs to one reservation of one run; what it says of another would be believed wrongly (I5).
func TestANoteIsAboutOneReservation(t *testing.T) {
	m, at := newMemory(), time.Unix(1, 0)
	run := testRun("a", "uid-1")
	r := delivery.Reservation{Attempt: 1, PodUID: "pod-1"}
	m.about(run, r, at, func(n *note) { n.mine, n.handed, n.cancelSince = true, true, at })
	assert.True(t, m.about(run, r, at, nil).mine)
	other := m.about(run, delivery.Reservation{Attempt: 2, PodUID: "pod-1"}, at, nil)
	assert.False(t, other.mine)
	assert.False(t, other.handed)
	m.about(run, delivery.Reservation{Attempt: 2, PodUID: "pod-1"}, at, func(n *note) { n.mine = true })
	assert.False(t, m.about(run, delivery.Reservation{Attempt: 1}, at, nil).mine, "an old view of the run")
	assert.True(t, m.about(run, delivery.Reservation{Attempt: 2, PodUID: "pod-1"}, at, nil).mine, "does not make the newer note forgotten")
	assert.Equal(t, at, other.cancelSince, "the cancel is the run's, not the attempt's")
	assert.Zero(t, m.about(testRun("a", "uid-2"), r, at, nil).cancelSince, "another run under the same name")
}

// SPEC.md, Lifecycle: the wait of a target that refuses doubles, its own wish counts, and an acceptance ends it.
func TestATargetThatRefusesIsLeftAlone(t *testing.T) {
	m, at := newMemory(), time.Unix(1000, 0)
	m.refusedBy("pod-1", at, time.Time{}, 0)
	assert.Equal(t, at.Add(time.Second), m.backoffUntil("pod-1"))
	m.refusedBy("pod-1", at, time.Time{}, 0)
	assert.Equal(t, at.Add(2*time.Second), m.backoffUntil("pod-1"))
	m.refusedBy("pod-1", at, at.Add(time.Minute), 0)
	assert.Equal(t, at.Add(time.Minute), m.backoffUntil("pod-1"))
	m.took("pod-1")
	assert.Zero(t, m.backoffUntil("pod-1"))
}

func TestWordsOfTheCoreAreWordsOfTheAPI(t *testing.T) {
	for _, pair := range words() {
		assert.Equal(t, pair[1], pair[0])
	}
	assert.Equal(t, wire.SessionFresh, toRequest(time.Unix(1, 0), testRun("a", "u")).Session)
	remembers := testRun("a", "u")
	remembers.Spec.Runtime = &hearthv1.AgentRuntime{Session: hearthv1.SessionStanding}
	assert.Equal(t, wire.SessionStanding, toRequest(time.Unix(1, 0), remembers).Session)
}
