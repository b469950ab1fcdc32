package kontext

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// SPEC.md, The older contract: one call, one run, one signed result; journalled before the agent has the goal, under its contract.
func TestARunIsDeliveredAndAnswered(t *testing.T) {
	h := build(t)
	answers, _ := h.call("run", "Review it.")
	h.begun("run")
	running := h.until("run", 1, wire.StateRunning)
	assert.Equal(t, APIVersion, running.Contract)
	assert.Equal(t, wire.RunRef{Name: "review-run", Namespace: "team", UID: "run"}, running.Run)
	h.actor.end <- said("looks good")
	a := <-answers
	assert.Equal(t, "looks good", a.text(t))
	assert.True(t, a.closed, "who waited leaves the gate with its answer")
	assert.Equal(t, []server.Work{{Run: running.Run, Attempt: 1, Goal: "Review it."}}, h.actor.ran)
}

// A seen UID is answered from the journal with the same bytes, and never run again; with another goal it is refused.
func TestASeenRunIsAnsweredFromTheJournal(t *testing.T) {
	h := build(t)
	answers, _ := h.call("run", "Review it.")
	h.begun("run")
	h.actor.end <- said("once")
	first := <-answers
	require.Equal(t, "once", first.text(t))
	assert.Equal(t, first.body, h.deliver(t.Context(), "run", "Review it.").body)
	other := h.deliver(t.Context(), "run", "Review another.")
	assert.Equal(t, wire.CodeDigestMismatch, other.code(t))
	assert.Equal(t, http.StatusConflict, other.status)

	h.stop()
	h.boot()
	assert.Equal(t, first.body, h.deliver(t.Context(), "run", "Review it.").body, "after an orderly restart")
	h.crash()
	assert.Equal(t, first.body, h.deliver(t.Context(), "run", "Review it.").body, "after a crash")
	h.actor.set(wire.AgentDown)
	assert.Equal(t, first.body, h.deliver(t.Context(), "run", "Review it.").body, "without an agent")
	h.server.Drain(t.Context(), 0)
	assert.Equal(t, first.body, h.deliver(t.Context(), "run", "Review it.").body, "while it drains")
	assert.Equal(t, 1, h.actor.starts())
}

// Fifty callers of one run are one start, and each gets the same result under its own challenge.
func TestConcurrentCallersAreJoined(t *testing.T) {
	const callers = 50
	h := build(t)
	arrived := func() { // the first accept waits until all are here
		for deadline := time.Now().Add(patience); len(h.server.held) < callers && time.Now().Before(deadline); {
			<-time.After(time.Millisecond)
		}
	}
	h.stall.Store(&arrived)
	answers := make(chan answer, callers)
	body, err := wire.Encode(requestOf("run", "Review it."))
	require.NoError(t, err)
	for i := range callers {
		go func() {
			own := "challenge-" + strings.Repeat("x", i)
			a := h.send(t.Context(), body, func(r *http.Request) { r.Header.Set(HeaderChallenge, own) })
			assert.Equal(t, Sign([]byte(token), own, "run", a.body), a.header.Get(HeaderSignature))
			answers <- a
		}()
	}
	h.begun("run")
	h.callers("run", 1, callers)
	h.stall.Store(nil)
	other := h.deliver(t.Context(), "run", "Review another.")
	assert.Equal(t, wire.CodeDigestMismatch, other.code(t), "nor does another goal join")
	h.actor.end <- said("for all")
	for range callers {
		assert.Equal(t, "for all", (<-answers).text(t))
	}
	assert.Equal(t, 1, h.actor.starts())
}

// callers waits until that many callers wait for an attempt.
func (h *house) callers(uid string, attempt int64, want int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		h.server.waiting.mu.Lock()
		defer h.server.waiting.mu.Unlock()
		t := h.server.waiting.turns[journal.Key{RunUID: uid, Attempt: attempt}]
		return want == 0 && t == nil || t != nil && len(t.callers) == want
	}, patience, time.Millisecond)
}

// A turn goes on while one caller is left, and is cancelled when the last is gone. It ran, so it is not run again.
func TestTheTurnIsCancelledWhenTheLastCallerIsGone(t *testing.T) {
	h := build(t)
	_, firstLeaves := h.call("run", "Review it.")
	h.begun("run")
	_, secondLeaves := h.call("run", "Review it.")
	h.callers("run", 1, 2)
	firstLeaves()
	h.callers("run", 1, 1)
	assert.False(t, h.until("run", 1, wire.StateRunning).CancelRequested)
	assert.Empty(t, h.actor.stop)
	secondLeaves()
	require.ErrorIs(t, <-h.actor.stop, server.ErrCancelled)
	e := h.until("run", 1, wire.StateFinished)
	assert.True(t, e.CancelRequested)
	r := h.deliver(t.Context(), "run", "Review it.").result(t)
	assert.Equal(t, Failed, r.Outcome)
	assert.Equal(t, "Cancelled", r.Error.Code)
	assert.Equal(t, 1, h.actor.starts())
}

// A run that has not started when its last caller leaves never starts for that caller, and starts for the next.
func TestAWaitingRunWhoseCallerLeftIsNotStarted(t *testing.T) {
	h := build(t)
	first, _ := h.call("first", "Review it.")
	h.begun("first")
	_, leaves := h.call("second", "Review that.")
	h.until("second", 1, wire.StateAccepted)
	h.callers("second", 1, 1)
	leaves()
	h.until("second", 1, wire.StateVoided)
	assert.Equal(t, wire.CodeDigestMismatch, h.deliver(t.Context(), "second", "Review another.").code(t))
	h.actor.end <- said("first")
	assert.Equal(t, "first", (<-first).text(t))
	assert.Equal(t, 1, h.actor.starts())

	again, _ := h.call("second", "Review that.")
	h.begun("second")
	h.until("second", 2, wire.StateRunning)
	h.actor.end <- said("second")
	assert.Equal(t, "second", (<-again).text(t))
	assert.Equal(t, "second", h.deliver(t.Context(), "second", "Review that.").text(t))
	assert.Equal(t, 2, h.actor.starts())
}

// The caller leaves between the dispatch and the start: the last question before the goal is sent is whether anybody wants it.
func TestAGoalIsNotStartedForACallerWhoLeftAMomentAgo(t *testing.T) {
	h := build(t)
	reached, gone := make(chan struct{}), make(chan struct{})
	h.actor.before = func(context.Context) {
		close(reached)
		<-gone
	}
	ctx, leave := context.WithCancel(t.Context())
	request := requestOf("run", "Review it.")
	_, _, err := h.server.find(ctx, request) // nobody waits for its end: only the question is left to stop it
	require.NoError(t, err)
	<-reached
	leave()
	close(gone)
	h.until("run", 1, wire.StateVoided)
	assert.Zero(t, h.actor.starts())
	_, _, err = h.server.find(ctx, request)
	require.ErrorIs(t, err, errAgain, "nor is anything journalled for who has left")
	h.until("run", 1, wire.StateVoided)
}

// Whatever is only so for now is no answer: that controller takes each status but 200 as the end, and a broken connection as a
// reason to come again.
func TestWhatIsRefusedForNowIsNoAnswer(t *testing.T) {
	for name, prepare := range map[string]func(*house){
		"the agent is down":     func(h *house) { h.actor.set(wire.AgentDown) },
		"the agent is starting": func(h *house) { h.actor.set(wire.AgentStarting) },
		"draining":              func(h *house) { h.server.Drain(h.t.Context(), 0) },
		"busy": func(h *house) {
			h.call("first", "Review it.")
			h.begun("first")
			h.call("second", "Review it.")
			h.until("second", 1, wire.StateAccepted)
		},
		"too many callers": func(h *house) {
			h.call("first", "Review it.")
			h.begun("first")
			for range MaxHeld - 1 {
				h.call("first", "Review it.")
			}
			h.callers("first", 1, MaxHeld)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t)
			prepare(h)
			before := h.actor.starts()
			a := h.deliver(t.Context(), "run", "Review this.")
			require.Error(t, a.again)
			assert.Equal(t, before, h.actor.starts())
			_, err := h.journal.Get(journal.Key{RunUID: "run", Attempt: 1})
			require.ErrorIs(t, err, journal.ErrUnknown, "nothing was journalled")
		})
	}
}

// What waits when the harness drains was not started: its caller comes again, to another.
func TestADrainSendsWaitingCallersAwayAndAnswersTheOthers(t *testing.T) {
	h := build(t)
	running, _ := h.call("running", "Review it.")
	h.begun("running")
	waiting, _ := h.call("waiting", "Review that.")
	h.until("waiting", 1, wire.StateAccepted)
	h.callers("waiting", 1, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		h.server.Drain(t.Context(), time.Hour)
	}()
	require.Error(t, (<-waiting).again)
	h.actor.end <- said("in time")
	assert.Equal(t, "in time", (<-running).text(t))
	<-drained
	assert.Equal(t, 1, h.actor.starts())
}

// Both what ran and who waited are told when the harness closes.
func TestACloseAnswersItsCallers(t *testing.T) {
	h := build(t)
	running, _ := h.call("running", "Review it.")
	h.begun("running")
	waiting, _ := h.call("waiting", "Review that.")
	h.until("waiting", 1, wire.StateAccepted)
	h.callers("waiting", 1, 1)
	h.server.Close()
	r := (<-running).result(t)
	assert.Equal(t, "Cancelled", r.Error.Code)
	require.Error(t, (<-waiting).again)
	_, _, err := h.server.find(t.Context(), requestOf("running", "Review it."))
	require.ErrorIs(t, err, errAgain)
}

// A crash: what ran is answered as interrupted and not run again; what only waited is run for who asks again, and for nobody else.
func TestACrashIsAnsweredFromTheJournal(t *testing.T) {
	h := build(t)
	running, _ := h.call("running", "Review it.")
	h.begun("running")
	waiting, _ := h.call("waiting", "Review that.")
	h.until("waiting", 1, wire.StateAccepted)
	h.actor.set(wire.AgentDown)
	h.crash()
	<-running
	<-waiting
	e, err := h.journal.Get(journal.Key{RunUID: "waiting", Attempt: 1})
	require.NoError(t, err)
	assert.Equal(t, wire.StateVoided, e.State, "at the boot, not when it would start: it takes no room")
	<-h.actor.stop // the last boot's
	h.actor.set(wire.AgentReady)

	r := h.deliver(t.Context(), "running", "Review it.").result(t)
	assert.Equal(t, Failed, r.Outcome)
	assert.Equal(t, "Interrupted", r.Error.Code)
	assert.Equal(t, 1, h.actor.starts())
	again, _ := h.call("waiting", "Review that.")
	h.begun("waiting")
	h.actor.end <- said("after all")
	assert.Equal(t, "after all", (<-again).text(t))
}

// Nobody says that a result was recorded, so an ended run counts as such at once: what is kept stays bounded, and a drain does not
// wait for a call that never comes.
func TestEndedRunsCountAsRecorded(t *testing.T) {
	h := build(t, func(h *house) { h.keep = 1 })
	for _, uid := range []string{"first", "second"} {
		answers, _ := h.call(uid, "Review it.")
		h.begun(uid)
		h.actor.end <- said(uid)
		assert.Equal(t, uid, (<-answers).text(t))
	}
	require.Eventually(t, func() bool { return h.journal.Unrecorded() == 0 }, patience, time.Millisecond)
	answers, leaves := h.call("third", "Review it.")
	h.begun("third") // what is dropped goes with the next write
	assert.Equal(t, wire.CodeForgotten, h.deliver(t.Context(), "first", "Review it.").code(t))
	assert.Equal(t, "second", h.deliver(t.Context(), "second", "Review it.").text(t))
	assert.Equal(t, 3, h.actor.starts(), "forgotten is not unseen")
	leaves()
	<-answers
	<-h.actor.stop
	require.Eventually(t, func() bool { return h.journal.Unrecorded() == 0 }, patience, time.Millisecond, "also one that nobody waited for")
	_, leaves = h.call("fourth", "Review it.")
	defer leaves()
	h.begun("fourth")
	h.crash()
	assert.Zero(t, h.journal.Unrecorded(), "also one that ended with the last boot")
	<-h.actor.stop
}

// A full disk is said, before anything starts.
func TestAFullJournalIsAnAnswer(t *testing.T) {
	h := build(t)
	h.full.Store(true)
	a := h.deliver(t.Context(), "run", "Review it.")
	assert.Equal(t, wire.CodeJournalFull, a.code(t))
	assert.Equal(t, http.StatusInsufficientStorage, a.status)
	h.full.Store(false)
	assert.Zero(t, h.actor.starts())
}
