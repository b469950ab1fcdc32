package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// R30: the limits of a delivery bound its run, and the agent that obeys stays for the next.
func TestADeliveredRunKeepsItsBudget(t *testing.T) {
	tokens := int64(100)
	p := newPlace(t)
	b := p.ready("--queue=4")
	for run, c := range map[string]struct {
		goal   string
		reason wire.Reason
	}{
		"tokens":  {"counted: 90 11 ;; mute:", wire.ReasonBudgetExceeded},
		"cost":    {"told: 1 0.51 USD ;; mute:", wire.ReasonBudgetExceeded},
		"answer":  {"say: x ;; usage: 100 1", wire.ReasonBudgetExceeded},
		"used-up": {"say: x ;; told: 100 0.5 USD ;; usage: 90 10", wire.ReasonCompleted},
	} {
		require.Equal(t, http.StatusAccepted, b.call(http.MethodPost, wire.RunsPath, wire.DeliveryRequest{
			APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: run, UID: run}, Attempt: 1,
			Target: wire.Target{Name: b.Identity.PodName, UID: b.Identity.PodUID}, Journal: b.boot.Journal, Goal: c.goal,
			Limits: &wire.Limits{Tokens: &tokens, Cost: &wire.Cost{Amount: "0.50", Currency: "USD"}},
		}, nil))
		e := b.until(run, wire.StateFinished).Envelope
		assert.Equal(t, c.reason, e.Reason, run)
		require.NotNil(t, e.Usage, run)
		if run == "cost" {
			assert.Equal(t, &wire.Cost{Amount: "0.51", Currency: "USD"}, e.Usage.Cost)
		} else {
			assert.Equal(t, map[string]int64{"tokens": 101, "answer": 101, "used-up": 100}[run], *e.Usage.TotalTokens, run)
		}
	}
	assert.NotContains(t, b.log.String(), "agent: ended", "no budget touches the standing agent")
}
