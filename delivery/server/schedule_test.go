package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func startWithin(r wire.DeliveryRequest, seconds int64) wire.DeliveryRequest {
	r.Limits = &wire.Limits{StartWithinSeconds: &seconds}
	return r
}

func TestAttemptsStartInTheOrderTheyCameAndNoMoreThanConcurrency(t *testing.T) {
	h := build(t, func(c *Config) { c.Concurrency, c.Queue = 2, 3 })
	for i := range 5 {
		require.Equal(t, http.StatusAccepted, h.deliver(h.delivery(fmt.Sprintf("run-%d", i), 1)).status)
	}
	assert.Equal(t, wire.CodeBusy, h.deliver(h.delivery("run-5", 1)).problem(t).Code)
	first := map[string]bool{<-h.actor.began: true, <-h.actor.began: true}
	assert.Equal(t, map[string]bool{"run-0": true, "run-1": true}, first)
	accepted, running := h.journal.Counts()
	assert.Equal(t, []int{3, 2}, []int{accepted, running})
	h.actor.finish("run-1", "x")
	assert.Equal(t, "run-2", <-h.actor.began)
	h.actor.finish("run-0", "x")
	assert.Equal(t, "run-3", <-h.actor.began)
	h.actor.finish("run-2", "x")
	assert.Equal(t, "run-4", <-h.actor.began)
}

// Row 33: a cancel before the start, during the run, and after the end.
func TestACancelDoesWhatTheAttemptAllows(t *testing.T) {
	h := build(t)
	h.running("run")
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("waiting", 1)).status)

	void := h.send(h.call(http.MethodDelete, at("waiting"), nil))
	assert.Equal(t, http.StatusOK, void.status)
	assert.Equal(t, wire.StateVoided, void.attempt(t).State)
	assert.Equal(t, wire.StateVoided, h.send(h.call(http.MethodDelete, at("waiting")+"&ifNotStarted", nil)).attempt(t).State, "idempotent")

	assert.Equal(t, wire.CodeStarted, h.send(h.call(http.MethodDelete, at("run")+"&ifNotStarted=true", nil)).problem(t).Code)
	stop := h.send(h.call(http.MethodDelete, at("run"), nil))
	assert.Equal(t, http.StatusAccepted, stop.status)
	assert.True(t, stop.attempt(t).CancelRequested)
	h.untilState("run", wire.StateFinished)
	ended := h.send(h.call(http.MethodDelete, at("run"), nil))
	assert.Equal(t, http.StatusOK, ended.status)
	assert.Equal(t, wire.OutcomeCancelled, ended.attempt(t).Envelope.Outcome)
	assert.Equal(t, ErrCancelled.Error(), ended.attempt(t).Envelope.Message, "the runner is told why")

	unseen := h.send(h.call(http.MethodDelete, at("unseen")+"&ifNotStarted", nil))
	assert.Equal(t, http.StatusOK, unseen.status)
	assert.Equal(t, wire.StateVoided, unseen.attempt(t).State)
	assert.Equal(t, wire.CodeVoided, h.deliver(h.delivery("unseen", 1)).problem(t).Code)
	assert.Len(t, h.actor.work(), 1)
}

// Row 33: the cancel arrives while the runner holds the goal but has not sent it.
func TestACancelBetweenDispatchAndStartKeepsTheGoalFromTheAgent(t *testing.T) {
	h := build(t)
	reached, refused := make(chan struct{}), make(chan error, 1)
	h.actor.before = func(ctx context.Context, w Work) bool {
		close(reached)
		<-ctx.Done()
		refused <- context.Cause(ctx)
		return true // and calls start, which must refuse
	}
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
	<-reached
	assert.Equal(t, http.StatusOK, h.send(h.call(http.MethodDelete, at("run"), nil)).status)
	require.ErrorIs(t, <-refused, errVoided)
	assert.Equal(t, wire.StateVoided, h.state("run", 1))
	h.server.work.Wait()
	assert.Empty(t, h.actor.work())
}

// Row 53: without any controller, an attempt that cannot start in time is voided; the clock is monotonic (row 37).
func TestAnAttemptThatDoesNotStartInTimeIsVoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, func(c *Config) { c.Queue = 3 })
		require.Equal(t, http.StatusAccepted, h.deliver(startWithin(h.delivery("run", 1), 5)).status)
		require.Equal(t, http.StatusAccepted, h.deliver(startWithin(h.delivery("short", 1), 5)).status)
		require.Equal(t, http.StatusAccepted, h.deliver(startWithin(h.delivery("long", 1), 600)).status)
		require.Equal(t, "run", <-h.actor.began)
		time.Sleep(5*time.Second - time.Millisecond)
		synctest.Wait()
		assert.Equal(t, wire.StateAccepted, h.state("short", 1))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, wire.StateVoided, h.state("short", 1))
		assert.Equal(t, wire.StateRunning, h.state("run", 1), "what started goes on")
		h.actor.finish("run", "x")
		assert.Equal(t, "long", <-h.actor.began)
		time.Sleep(time.Hour)
		assert.Equal(t, wire.StateRunning, h.state("long", 1))
		h.stop()
		h.boot()
	})
}

func TestTheStartLimitCountsAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		require.Equal(t, http.StatusAccepted, h.deliver(startWithin(h.delivery("waiting", 1), 100)).status)
		h.actor.set(wire.AgentDown)
		time.Sleep(60 * time.Second)
		h.crash()
		time.Sleep(39 * time.Second)
		synctest.Wait()
		assert.Equal(t, wire.StateAccepted, h.state("waiting", 1))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, wire.StateVoided, h.state("waiting", 1))
	})
}

// Rows 15, 16: what a restart runs, and what it does not.
func TestARestartRunsWhatWasAcceptedAndInterruptsWhatRan(t *testing.T) {
	h := build(t)
	h.running("run")
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("waiting", 1)).status)
	former := h.server.Boot()
	h.crash()
	assert.NotEqual(t, former, h.server.Boot())
	assert.Equal(t, "waiting", <-h.actor.began)
	e := h.get(at("run")).attempt(t)
	assert.Equal(t, wire.OutcomeInterrupted, e.Envelope.Outcome)
	assert.Len(t, h.actor.work(), 2, "the interrupted one is not started again")
	assert.Equal(t, "Review waiting.", h.actor.work()[1].Goal)
	stale := h.call(http.MethodGet, at("run"), nil)
	stale.boot = former
	assert.Equal(t, wire.CodeBootChanged, h.send(stale).problem(t).Code)
}

func TestWorkWaitsForTheAgentAndStartsWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("waiting", 1)).status)
		h.actor.set(wire.AgentDown)
		h.server.AgentChanged()
		h.actor.finish("run", "x")
		time.Sleep(time.Minute)
		assert.Equal(t, wire.StateAccepted, h.state("waiting", 1))
		h.actor.set(wire.AgentReady)
		h.server.AgentChanged()
		assert.Equal(t, "waiting", <-h.actor.began)
	})
}

// The agent went away between dispatch and start: the goal was not sent, so the attempt is tried again, and not in a hot loop.
func TestAnAttemptThatCouldNotStartIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		tries := 0
		h.actor.before = func(context.Context, Work) bool { tries++; return tries > 10 }
		began := time.Now()
		require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
		require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("next", 1)).status)
		assert.Equal(t, "run", <-h.actor.began, "it keeps its place")
		assert.Equal(t, 11, tries)
		assert.Greater(t, time.Since(began), 30*time.Second)
		h.actor.finish("run", "x")
		assert.Equal(t, "next", <-h.actor.began)
	})
}

// SPEC.md, Endpoints: started is on disk before the goal is sent; if it cannot be, nothing is sent.
func TestAStartThatCannotBeJournalledIsNoStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.actor.set(wire.AgentReady)
		var once sync.Once
		h.actor.before = func(context.Context, Work) bool { once.Do(func() { h.full.Store(true) }); return true }
		require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, h.actor.work())
		assert.Equal(t, wire.StateAccepted, h.state("run", 1))
		h.full.Store(false)
		assert.Equal(t, "run", <-h.actor.began)
	})
}

// Row 19: a result that cannot be stored is not reported; it is stored once that works.
func TestAResultThatCannotBeStoredIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		h.full.Store(true)
		h.actor.finish("run", "precious")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		a := h.get(at("run")).attempt(t)
		assert.Equal(t, wire.StateRunning, a.State)
		assert.Nil(t, a.Envelope)
		assert.Contains(t, h.log.String(), "cannot be stored")
		assert.Equal(t, 1, h.server.capacity().Running, "its place is taken until then")
		h.full.Store(false)
		time.Sleep(maxRetry)
		synctest.Wait()
		assert.Equal(t, "precious", h.get(at("run")).attempt(t).Envelope.Output.Value)
	})
}

// SPEC.md, Limits: a name on the wire has at most 253 bytes; what an agent calls its session may be anything.
func TestWhatAnAgentCallsItsSessionIsMadeFitForTheWire(t *testing.T) {
	h := build(t)
	h.server.cfg.Runner = runnerFunc(func(_ context.Context, w Work, start func(string) error) wire.Envelope {
		session := "bad \xff\x00 " + strings.Repeat("é", 200)
		e := succeeded("done")
		if start(session) == nil {
			e.Session = session
		}
		return e
	})
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
	h.untilState("run", wire.StateFinished)
	a := h.get(at("run")).attempt(t)
	want := "bad \uFFFD\uFFFD " + strings.Repeat("é", 121)
	assert.Equal(t, want, a.Session)
	assert.LessOrEqual(t, len(want), wire.MaxNameBytes)
	assert.Equal(t, want, a.Envelope.Session)
	assert.Equal(t, want, h.changes(0, "").Runs[0].Session)
}

// Row 34: whatever a runner returns is stored as a valid envelope that fits, and says what was cut.
func TestWhateverARunnerReturnsIsMadeToFit(t *testing.T) {
	h := build(t)
	h.server.cfg.Runner = runnerFunc(func(_ context.Context, _ Work, start func(string) error) wire.Envelope {
		_ = start("s")
		return wire.Envelope{Message: "\xff", Output: &wire.Output{Value: strings.Repeat("\x01", wire.MaxEnvelopeBytes)}}
	})
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
	h.untilState("run", wire.StateFinished)
	e := h.get(at("run")).attempt(t).Envelope
	assert.Equal(t, wire.OutcomeFailed, e.Outcome, "no outcome is no success")
	assert.Equal(t, "\uFFFD", e.Message)
	assert.Equal(t, int64(wire.MaxEnvelopeBytes), e.Truncation.OriginalBytes)
	assert.Greater(t, len(e.Output.Value), wire.MaxEnvelopeBytes/7)
}

// Row 42: a runner that panics ends its attempt; the process lives and goes on.
func TestARunnerThatPanicsEndsItsAttempt(t *testing.T) {
	h := build(t)
	var once sync.Once
	real := h.actor
	h.stop()
	h.boot()
	h.server.cfg.Runner = panicker{actor: real, once: &once}
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
	h.untilState("run", wire.StateFinished)
	e := h.get(at("run")).attempt(t).Envelope
	assert.Equal(t, wire.ReasonAgentError, e.Reason)
	assert.Contains(t, h.log.String(), "panic while running an attempt")
	h.running("next")
}

type panicker struct {
	*actor
	once *sync.Once
}

func (p panicker) Run(ctx context.Context, w Work, start func(string) error) wire.Envelope {
	p.once.Do(func() {
		if start("s") == nil {
			panic("Review: something impossible")
		}
	})
	if w.Run.UID == "run" {
		return wire.Envelope{}
	}
	return p.actor.Run(ctx, w, start)
}

func TestStartIsGoodOnce(t *testing.T) {
	h := build(t)
	second := make(chan error, 1)
	h.server.cfg.Runner = runnerFunc(func(_ context.Context, _ Work, start func(string) error) wire.Envelope {
		if err := start("s"); err != nil {
			return wire.Envelope{}
		}
		second <- start("s")
		return succeeded("x")
	})
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
	require.ErrorIs(t, <-second, journal.ErrState)
}

type runnerFunc func(context.Context, Work, func(string) error) wire.Envelope

func (f runnerFunc) Run(ctx context.Context, w Work, start func(string) error) wire.Envelope {
	return f(ctx, w, start)
}

func (f runnerFunc) Agent() wire.AgentInfo { return wire.AgentInfo{State: wire.AgentReady} }

func TestANonsensicalConfigurationIsRefused(t *testing.T) {
	h := build(t)
	for _, edit := range []func(*Config){
		func(c *Config) { c.Concurrency = 0 }, func(c *Config) { c.Queue = -1 }, func(c *Config) { c.Journal = nil }, func(c *Config) { c.Runner = nil },
	} {
		c := h.config
		edit(&c)
		_, err := New(c)
		assert.ErrorContains(t, err, "expected")
	}
}
