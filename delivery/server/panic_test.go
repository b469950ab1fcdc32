package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Row 42: a panic right after a write is in the file, before anything else is done about it. What was accepted runs, without being sent
// again, what was started is started once, and what ended is told.
func TestAPanicAfterAWriteLeavesTheAttemptAlive(t *testing.T) {
	for write, outcome := range map[string]wire.Outcome{
		"accept": wire.OutcomeSucceeded, "start": wire.OutcomeFailed, "finish": wire.OutcomeSucceeded,
	} {
		t.Run(write, func(t *testing.T) {
			h := build(t)
			h.after.Store(&write)
			first := h.deliver(h.delivery("run", 1))
			if write == "accept" {
				assert.Equal(t, wire.CodeInternal, first.problem(t).Code)
			}
			if write != "start" { // there the runner panics before it has begun
				assert.Equal(t, "run", <-h.actor.began)
				h.actor.finish("run", "looks good")
			}
			h.untilState("run", wire.StateFinished)
			again := h.deliver(h.delivery("run", 1))
			require.Equal(t, http.StatusOK, again.status)
			require.NotNil(t, again.attempt(t).Envelope)
			assert.Equal(t, outcome, again.attempt(t).Envelope.Outcome)

			assert.Equal(t, http.StatusAccepted, h.deliver(h.delivery("next", 1)).status)
			assert.Equal(t, "next", <-h.actor.began)
			h.actor.finish("next", "looks good")
			h.untilState("next", wire.StateFinished)
		})
	}
}
