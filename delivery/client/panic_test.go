package client

import (
	"crypto/rand"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// broken is a source of randomness that panics as often as told.
type broken struct{ left atomic.Int32 }

func (b *broken) Read(p []byte) (int, error) {
	if b.left.Add(-1) >= 0 {
		panic("broken")
	}
	return rand.Read(p)
}

// Row 42: a panic while a Link challenges, watches, or carries a command out is counted, and the Link goes on; of what was being sent
// nobody knows what came of it.
func TestALinkSurvivesPanics(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	cfg := testConfig(t, h.Address)
	cfg.Target = h.Identity
	cfg.Keys = harness.Keys(t, h.Identity.PodUID)
	random, counted := &broken{}, atomic.Int32{}
	cfg.Random, cfg.Panicked = random, func() { counted.Add(1) }
	random.left.Store(2)
	l := open(t, cfg)
	eventually(t, "the Link is verified", func() bool { return l.Status().State == StateVerified && l.Status().Listed })
	assert.Equal(t, int32(2), counted.Load())

	unknown := func(uid string) (wire.DeliveryRequest, bool) {
		request := wire.DeliveryRequest{
			APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "run", UID: uid}, Attempt: 1, Journal: l.Status().Journal, Goal: "it",
			Target: wire.Target{Name: h.Identity.PodName, UID: h.Identity.PodUID},
		}
		random.left.Store(1)
		require.NoError(t, l.Send(Delivery{DeliveryRequest: request}, 0))
		key := Key{RunUID: uid, Attempt: 1}
		eventually(t, "the send is over", func() bool { a, ok := l.Snapshot(key); return ok && !a.InFlight })
		a, _ := l.Snapshot(key)
		return request, a.Sent.Outcome == delivery.SendUnknown
	}
	request, met := unknown("uid")
	if !met { // the feed met it
		request, met = unknown("another")
	}
	require.True(t, met)
	eventually(t, "the target is known again", func() bool { return l.Status().State == StateVerified })
	require.NoError(t, l.Send(Delivery{DeliveryRequest: request}, 1))
	eventually(t, "the same attempt is accepted", func() bool {
		a, ok := l.Snapshot(Key{RunUID: request.Run.UID, Attempt: 1})
		return ok && a.Seen != nil
	})
}
