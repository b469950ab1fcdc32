package server

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func (h *house) drain(ctx context.Context, limit time.Duration) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	go func() {
		began := time.Now()
		h.server.Drain(ctx, limit)
		took <- time.Since(began)
	}()
	synctest.Wait()
	return took
}

// Row 38: a run that needs less than the drain ends by itself and is handed over; what has not started is voided.
func TestADrainLetsWorkFinishAndHandsItOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("waiting", 1)).status)
		took := h.drain(t.Context(), time.Minute)
		assert.Equal(t, wire.StateVoided, h.state("waiting", 1))
		a := h.deliver(h.delivery("more", 1))
		assert.Equal(t, wire.CodeDraining, a.problem(t).Code)
		assert.NotEmpty(t, a.header.Get("Retry-After"))
		assert.Equal(t, wire.AgentDraining, h.changes(0, "").Agent.State)
		assert.Equal(t, http.StatusOK, h.deliver(h.delivery("run", 1)).status, "known work is still answered for")

		time.Sleep(20 * time.Second)
		h.actor.finish("run", "done")
		time.Sleep(4 * time.Second)
		assert.Equal(t, "done", h.get(at("run")).attempt(t).Envelope.Output.Value, "the listener outlives the work")
		for _, run := range []string{"run", "waiting"} {
			assert.Equal(t, http.StatusNoContent, h.send(h.call(http.MethodPost, recordOf(run), nil)).status)
		}
		assert.Equal(t, 24*time.Second, <-took, "recorded, so nothing is left to wait for")
	})
}

// Row 38: a run that needs more is cancelled, and the envelope says so; nobody records, so ten seconds are waited.
func TestADrainCancelsWhatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		took := h.drain(t.Context(), time.Minute)
		assert.Equal(t, time.Minute+HandoverWait, <-took)
		e := h.get(at("run")).attempt(t).Envelope
		require.NotNil(t, e)
		assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
		assert.Equal(t, ErrDrained.Error(), e.Message)
	})
}

func TestAnEndedContextCancelsADrainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		ctx, cancel := context.WithCancel(t.Context())
		took := h.drain(ctx, time.Hour)
		time.Sleep(time.Second)
		cancel()
		assert.Equal(t, time.Second+HandoverWait, <-took)
		assert.Equal(t, wire.StateFinished, h.state("run", 1))
	})
}

// A turn that does not end although it was cancelled does not keep the harness: the next boot says Interrupted.
func TestADrainDoesNotWaitForEverForATurnThatIgnoresIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		release := make(chan struct{})
		h.server.cfg.Runner = runnerFunc(func(_ context.Context, w Work, start func(string) error) wire.Envelope {
			if start("s") == nil {
				h.actor.began <- w.Run.UID
			}
			<-release
			return succeeded("too late to matter")
		})
		h.running("run")
		took := h.drain(t.Context(), time.Minute)
		assert.Equal(t, time.Minute+CancelWait, <-took)
		close(release)
	})
}

func TestADrainWithNothingToDoTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		assert.Zero(t, <-h.drain(t.Context(), time.Hour))
	})
}
