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

// Row 38: an agent that must be ended by force takes the whole ladder, and a process that does not die at once yet longer. What
// came of the run is handed over all the same.
func TestADrainHandsOverWhatTheWholeLadderEnded(t *testing.T) {
	for name, ladder := range map[string]time.Duration{
		"SIGTERM, SIGKILL":             15*time.Second + 100*time.Millisecond,
		"processes left, SIGKILL":      17*time.Second + 100*time.Millisecond,
		"a process slow to be killed":  23 * time.Second,
		"the agent obeys at once":      0,
		"the agent obeys a bit later":  time.Second,
		"right when the wait is over":  CancelWait,
		"right after the wait is over": CancelWait + time.Nanosecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t)
				h.server.cfg.Runner = runnerFunc(func(ctx context.Context, w Work, start func(string) error) wire.Envelope {
					if start("s") == nil {
						h.actor.began <- w.Run.UID
					}
					<-ctx.Done()
					time.Sleep(ladder)
					return wire.Envelope{Outcome: wire.OutcomeCancelled, Reason: wire.ReasonCancelled, Message: context.Cause(ctx).Error()}
				})
				h.running("run")
				took := h.drain(t.Context(), time.Minute)
				time.Sleep(time.Minute + ladder + 4*time.Second)
				assert.Empty(t, took, "it is not over before the result was fetched")
				assert.Equal(t, ErrDrained.Error(), h.get(at("run")).attempt(t).Envelope.Message)
				assert.Equal(t, http.StatusNoContent, h.send(h.call(http.MethodPost, recordOf("run"), nil)).status)
				assert.Equal(t, time.Minute+ladder+4*time.Second, <-took)
			})
		})
	}
}

// A turn that does not end although it was cancelled does not keep the harness: the next boot says Interrupted. All waits
// together leave a Pod of the default grace period (90 s) the time to close.
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
		waited := <-took
		assert.Equal(t, time.Minute+CancelWait+HandoverWait, waited)
		assert.LessOrEqual(t, waited+closeTimeout, 90*time.Second)
		close(release)
	})
}

func TestADrainWithNothingToDoTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		assert.Zero(t, <-h.drain(t.Context(), time.Hour))
	})
}
