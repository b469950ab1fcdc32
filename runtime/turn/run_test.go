package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACompletedTurnMakesAFullEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "goal", Standing: "be kind"})
		s.update(`"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"goal"}`)
		s.say("look")
		s.say("ing")
		s.update(`"sessionUpdate":"tool_call","toolCallId":"a","title":"shell"`)
		s.update(`"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"`)
		s.update(`"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"`)
		s.update(`"sessionUpdate":"tool_call","toolCallId":"b","status":"completed"`)
		s.update(`"sessionUpdate":"usage_update","used":12,"size":100,"cost":{"amount":0.25,"currency":"USD"}`)
		s.update(`"sessionUpdate":"from_the_future","x":1`)
		s.say("found")
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":0}}`)
		r := <-s.done
		ten, zero := int64(10), int64(0)
		e := r.envelope
		assert.False(t, r.ended)
		assert.Equal(t, wire.Envelope{
			APIVersion: wire.ResultAPIVersion, Outcome: "Succeeded", Reason: "Completed", StopReason: "end_turn", Session: "s1",
			Output: &wire.Output{MediaType: "text/plain", Value: "looking\nfound"},
			Usage:  &wire.Usage{InputTokens: &ten, OutputTokens: &zero, Cost: &wire.Cost{Amount: "0.25", Currency: "USD"}},
			Tools:  wire.Tools{Calls: 2, Failed: 1},
			Timing: wire.Timing{StartedAt: e.Timing.StartedAt, FinishedAt: e.Timing.FinishedAt, DurationMillis: 1500},
		}, e)
		assert.Equal(t, 1500*time.Millisecond, e.Timing.FinishedAt.Sub(e.Timing.StartedAt))
		assert.Equal(t, []string{"s1"}, s.starts)
		assert.Zero(t, s.ends)
	})
}

func TestUsageThatWasNotMeasuredIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.say("x")
		s.end("end_turn")
		assert.Nil(t, (<-s.done).envelope.Usage)
	})
}

// Nothing is sent before the caller has made the start durable (SPEC.md, Lifecycle).
func TestNothingIsSentWhenTheStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.startFn = func() error { return errors.New("disk full") }
		s.run(t.Context(), Goal{Text: "g"})
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonAgentError, e.Reason)
		assert.Contains(t, e.Message, "disk full")
		require.NoError(t, s.conn.Notify("next", 1))
		assert.Equal(t, "next", s.read().Method)
	})
}

// Fault row 33: a cancel before the start.
func TestACancelBeforeTheStartSendsNothing(t *testing.T) {
	for _, during := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, 0)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("deleted")
			if during {
				s.startFn = func() error { cancel(why); return nil }
			} else {
				cancel(why)
			}
			s.run(ctx, Goal{Text: "g"})
			e := (<-s.done).envelope
			assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
			assert.Equal(t, "cancelled before the start: deleted", e.Message)
			assert.Equal(t, during, len(s.starts) == 1)
			require.NoError(t, s.conn.Notify("next", 1))
			assert.Equal(t, "next", s.read().Method)
		})
	}
}

// Fault row 33: a cancel while the turn runs; the agent obeys.
func TestACancelIsAskedForAndTheRealStopReasonCounts(t *testing.T) {
	for _, c := range []struct {
		stop    string
		settled bool
		outcome wire.Outcome
	}{{"cancelled", true, "Cancelled"}, {"cancelled", false, "Cancelled"}, {"end_turn", true, "Succeeded"}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				s.settled = c.settled
				ctx, cancel := context.WithCancelCause(t.Context())
				s.begin(ctx, Goal{Text: "g"})
				s.say("x")
				synctest.Wait()
				cancel(errors.New("the run was deleted"))
				s.requireCancel()
				time.Sleep(DefaultCancelGrace - time.Millisecond)
				s.end(c.stop)
				r := <-s.done
				assert.Equal(t, 1, s.census, "what runs is looked at while its parents live")
				assert.Equal(t, c.outcome, r.envelope.Outcome)
				assert.Equal(t, c.stop, r.envelope.StopReason)
				assert.Equal(t, !c.settled, r.ended, "an agent that leaves processes of the turn behind is ended")
				if c.outcome == wire.OutcomeCancelled {
					assert.Equal(t, "the run was deleted", r.envelope.Message)
				}
			})
		})
	}
}

// Fault row 21: an agent that ignores the cancel is ended.
func TestAnAgentThatIgnoresTheCancelIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		s.begin(ctx, Goal{Text: "g"})
		cancel(errors.New("enough"))
		s.requireCancel()
		before := time.Now()
		r := <-s.done
		assert.Equal(t, DefaultCancelGrace, time.Since(before))
		assert.Equal(t, wire.OutcomeCancelled, r.envelope.Outcome)
		assert.True(t, r.ended)
		assert.Equal(t, 1, s.ends)
		assert.Contains(t, strings.Join(r.envelope.Warnings, " "), "by force")
	})
}

// A permission question that comes after the cancel is answered "cancelled" whatever the policy: goose hangs otherwise.
func TestPermissionQuestionsEndAsCancelledWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.runner.Policy = Allow
		ctx, cancel := context.WithCancelCause(t.Context())
		s.begin(ctx, Goal{Text: "g"})
		cancel(errors.New("enough"))
		s.requireCancel()
		s.write(permission(`"p"`, "allow_once", "reject_once"))
		assert.JSONEq(t, `{"outcome":{"outcome":"cancelled"}}`, string(s.read().Result))
		s.end("cancelled")
		<-s.done
	})
}

// R30: the run's own time.
func TestTheDeadlineEndsTheTurnByTheLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		before := time.Now()
		s.begin(t.Context(), Goal{Text: "g", Limits: Limits{ActiveSeconds: 90}})
		s.requireCancel()
		assert.Equal(t, 90*time.Second, time.Since(before))
		s.end("cancelled")
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonDeadlineExceeded, e.Reason)
		assert.Equal(t, wire.OutcomeFailed, e.Outcome)
		assert.Contains(t, e.Message, "90 s")
	})
}

// R30: the own time of a one-shot run is its harness's, so what its agent took to start is part of it.
func TestTheTimeBeforeTheGoalIsPartOfTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		before := time.Now()
		s.begin(t.Context(), Goal{Text: "g", Limits: Limits{ActiveSeconds: 90, Since: before.Add(-70 * time.Second)}})
		s.requireCancel()
		assert.Equal(t, 20*time.Second, time.Since(before))
		s.end("cancelled")
		assert.Equal(t, wire.ReasonDeadlineExceeded, (<-s.done).envelope.Reason)
	})
	for name, since := range map[string]time.Duration{"just over": 90 * time.Second, "long over": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				e, ended := s.runner.Run(t.Context(), s.seat, Goal{Text: "g", Limits: Limits{ActiveSeconds: 90, Since: time.Now().Add(-since)}},
					func(string) error { t.Error("the goal was begun"); return nil })
				assert.False(t, ended)
				assert.Equal(t, wire.OutcomeFailed, e.Outcome)
				assert.Equal(t, wire.ReasonDeadlineExceeded, e.Reason)
				assert.Contains(t, e.Message, "own time of 90 s was over before the agent could take the goal; nothing was sent")
			})
		})
	}
}

// Fault row 21: silence is the absence of any output, not only of updates.
func TestOnlyAnAgentWithoutAnyOutputIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		for range 5 {
			time.Sleep(DefaultSilence - time.Second)
			s.write(`{"jsonrpc":"2.0","method":"_ping"}`)
		}
		heard := time.Now()
		s.requireCancel()
		assert.Equal(t, DefaultSilence, time.Since(heard))
		r := <-s.done
		assert.Equal(t, wire.ReasonAgentSilent, r.envelope.Reason)
		assert.True(t, r.ended)
	})
}

// Fault row 20: a crash carries the exit status and the end of stderr.
func TestACrashIsNotCancelledOrSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.say("partial")
		require.NoError(t, s.out.Close())
		r := <-s.done
		assert.Equal(t, wire.ReasonAgentCrashed, r.envelope.Reason)
		assert.Equal(t, "agent process exited with status 3; stderr ends: out of memory", r.envelope.Message)
		assert.Equal(t, "partial", r.envelope.Output.Value)
		assert.True(t, r.ended)
	})
}

// Fault row 34: a message over the line limit fails the turn, and the agent lives.
func TestALostMessageIsResultTooLarge(t *testing.T) {
	const limit = 4 << 10
	big := strings.Repeat("x", limit)
	t.Run("update", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, limit)
			s.begin(t.Context(), Goal{Text: "g"})
			s.say(big)
			s.requireCancel()
			s.end("end_turn")
			r := <-s.done
			assert.Equal(t, wire.ReasonResultTooLarge, r.envelope.Reason)
			assert.False(t, r.ended)
		})
	})
	t.Run("update, and the answer right behind it", func(t *testing.T) {
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, limit)
				s.begin(t.Context(), Goal{Text: "g"})
				s.say(big)
				s.end("end_turn")
				assert.Equal(t, wire.ReasonResultTooLarge, (<-s.done).envelope.Reason)
			})
		}
	})
	t.Run("answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, limit)
			s.begin(t.Context(), Goal{Text: "g"})
			s.answer(json.RawMessage(s.prompt), `{"_meta":"`+big+`","stopReason":"end_turn"}`)
			r := <-s.done
			assert.Equal(t, wire.ReasonResultTooLarge, r.envelope.Reason)
			assert.False(t, r.ended)
		})
	})
}

func TestAnErrorOfTheAgentIsAgentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.write(`{"jsonrpc":"2.0","id":` + s.prompt + `,"error":{"code":-32603,"message":"Provider not set"}}`)
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonAgentError, e.Reason)
		assert.Contains(t, e.Message, "Provider not set")
	})
}

// SPEC.md, Harness: a prompt over the agent's own limit is refused beforehand.
func TestAPromptOverTheAgentsLimitIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.run(t.Context(), Goal{Text: strings.Repeat("x", goosePromptBytes)})
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonLimitReached, e.Reason)
		assert.Contains(t, e.Message, "16777216 bytes; nothing was sent")
		assert.Empty(t, s.starts)
	})
}

// What is recognised is the last message, also of a long output in pieces.
func TestTheLastMessageDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.say(strings.Repeat("x", 5000))
		s.update(`"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":"Network error: Could"}`)
		s.update(`"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":" not connect` + strings.Repeat("y", 4000) + `"}`)
		s.update(`"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":" Please resend your message to try again."}`)
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"totalTokens":5}}`)
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonAgentError, e.Reason)
		assert.Contains(t, strings.Join(e.Warnings, ""), "heuristic")
	})
}

func TestAnAnswerThatIsNotTheProtocolsIsAgentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.answer(json.RawMessage(s.prompt), `{"stopReason":7}`)
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonAgentError, e.Reason)
		assert.Contains(t, e.Message, "not the protocol's")
	})
}
