package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const other = "example.com/delivery/v1"

// SPEC.md, The older contract: what another contract's listener submits is decided and carried out as the wire's own.
func TestAnotherContractsAttemptsAreCarriedOutAsOurOwn(t *testing.T) {
	h := build(t)
	r := wire.DeliveryRequest{APIVersion: other, Run: wire.RunRef{Namespace: "team", Name: "review-run", UID: "run"}, Attempt: 1, Goal: "Review it."}
	require.Nil(t, h.server.Submit(r))
	require.Equal(t, "run", <-h.actor.began)
	key := journal.Key{RunUID: "run", Attempt: 1}
	assert.Equal(t, wire.CodeAttemptActive, h.server.Recorded(key).Code)
	waiting := r
	waiting.Run.UID = "waiting"
	require.Nil(t, h.server.Submit(waiting))
	busy := r
	busy.Run.UID = "busy"
	assert.Equal(t, wire.CodeBusy, h.server.Submit(busy).Code)
	require.Nil(t, h.server.Withdraw(journal.Key{RunUID: "waiting", Attempt: 1}))
	assert.Equal(t, wire.StateVoided, h.state("waiting", 1))
	require.Nil(t, h.server.Withdraw(key))
	h.untilState("run", wire.StateFinished)
	require.Nil(t, h.server.Recorded(key))
	e, err := h.journal.Get(key)
	require.NoError(t, err)
	assert.True(t, e.Recorded)
	assert.Equal(t, other, e.Contract)
}

// A boot of the wire's own contract neither runs nor hands over what another contract left: nobody will ask for it.
func TestWhatAnotherContractLeftIsPutRightAtTheBoot(t *testing.T) {
	h := build(t)
	for _, uid := range []string{"ended", "waiting"} {
		require.Nil(t, h.server.Submit(wire.DeliveryRequest{
			APIVersion: other, Run: wire.RunRef{Namespace: "team", Name: uid, UID: uid}, Attempt: 1, Goal: "Review " + uid + ".",
		}))
	}
	require.Equal(t, "ended", <-h.actor.began)
	h.actor.set(wire.AgentDown) // nothing is started for a reason of its own
	h.crash()
	assert.Equal(t, wire.StateFinished, h.state("ended", 1))
	assert.Equal(t, wire.StateVoided, h.state("waiting", 1))
	assert.Zero(t, h.journal.Unrecorded())
	assert.Len(t, h.actor.work(), 1)
	assert.Equal(t, http.StatusGone, h.deliver(h.delivery("waiting", 1)).status)
}
