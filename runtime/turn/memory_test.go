package turn

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
)

// remembering is a stage whose session has more than one turn.
func remembering(t *testing.T, known Account) *stage {
	t.Helper()
	s := newStage(t, 0)
	s.seat.Memory = NewMemory(Deny, nil, false, known)
	return s
}

// turn plays one whole turn.
func (s *stage) turn(g Goal, play func()) wire.Envelope {
	s.t.Helper()
	s.begin(s.t.Context(), g)
	play()
	return (<-s.done).envelope
}

func (s *stage) counted(in, out string) {
	s.write(`{"jsonrpc":"2.0","method":"` + gooseUpdate + `","params":{"sessionId":"s1","update":{"sessionUpdate":"usage_update","accumulatedInputTokens":` + in + `,"accumulatedOutputTokens":` + out + `}}}`)
}

func (s *stage) paid(used, cost string) {
	s.update(`"sessionUpdate":"usage_update","used":` + used + `,"cost":{"amount":` + cost + `,"currency":"USD"}`)
}

// R30; SPEC.md, Standing sessions: tokens and cost are counted by agents from the session's beginning, and some begin by saying again
// what they had; a run's are what came since.
func TestATurnUsesWhatCameSinceItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remembering(t, Account{})
		limits := Limits{Tokens: 100, Cost: dollars("0.30")}
		for n, total := range []string{"80", "160", "240"} {
			before := []string{"0", "80", "160"}[n]
			e := s.turn(Goal{Text: "g", Limits: limits}, func() {
				s.counted(before, "10")
				s.paid(before, []string{"0", "0.25", "0.5"}[n])
				s.say("x")
				s.counted(total, "10")
				s.paid(total, []string{"0.25", "0.50", "0.75"}[n])
				s.end("end_turn")
			})
			require.Equal(t, wire.ReasonCompleted, e.Reason, e.Message)
			assert.EqualValues(t, 80, *e.Usage.InputTokens)
			assert.Equal(t, "0.25", e.Usage.Cost.Amount)
			assert.Empty(t, e.Warnings)
			limits.Tokens = 250 // the context of a session grows, and each call of a model reads it
		}
		s.counted("1000", "1000") // a client's own prompt, in between
		s.paid("5", "9")
		synctest.Wait()
		_, known := s.seat.Memory.Told()
		assert.Equal(t, Account{Input: 1000, Output: 1000, Context: 5, Cost: "9", Currency: "USD"}, known)
	})
}

// An agent whose count falls has begun anew, and what it tells since is the run's.
func TestACountThatFellIsTheRunsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remembering(t, Account{Input: 500, Output: 500, Cost: "5", Currency: "USD"})
		e := s.turn(Goal{Text: "g"}, func() {
			s.counted("20", "10")
			s.paid("1", "0.5")
			s.counted("600", "600")
			s.paid("1", "6")
			s.end("end_turn")
		})
		assert.EqualValues(t, 1200, *e.Usage.TotalTokens)
		assert.Equal(t, "6", e.Usage.Cost.Amount)
	})
}

// What an agent repeats or still tells of the turn before is no sign of a model call, and no tool call of this one.
func TestWhatIsLeftOfTheLastTurnIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remembering(t, Account{})
		e := s.turn(Goal{Text: "g"}, func() {
			s.update(`"sessionUpdate":"tool_call","toolCallId":"a"`)
			s.paid("50", "0.25")
			s.end("end_turn")
		})
		require.Equal(t, wire.ReasonCompleted, e.Reason)
		e = s.turn(Goal{Text: "g", Limits: Limits{Tokens: 10}}, func() {
			s.update(`"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"`)
			s.paid("50", "0.25")
			s.end("end_turn")
		})
		assert.Equal(t, wire.ReasonNoEvidence, e.Reason, e.Message)
		assert.Nil(t, e.Usage)
		assert.Zero(t, e.Tools)
		e = s.turn(Goal{Text: "g"}, func() {
			s.update(`"sessionUpdate":"tool_call_update","toolCallId":"b","status":"failed"`)
			s.update(`"sessionUpdate":"tool_call","toolCallId":"a"`)
			s.update(`"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"`)
			s.end("end_turn")
		})
		assert.Equal(t, wire.Tools{Calls: 2, Failed: 2}, e.Tools, "a number that is used again, and one that is told late, are this turn's")
	})
}

// What comes between two turns belongs to neither, and a question then is answered by the policy or by people.
func TestBetweenTurnsNothingIsTheTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		asked := make(chan *router.Request, 1)
		s.seat.Memory = NewMemory(Allow, func(r *router.Request, otherwise func()) { asked <- r; otherwise() }, false, Account{})
		s.seat.Memory.Attach(s.seat.Session)
		s.say("before the first")
		s.write(permission("7", "reject_once", "allow_once"))
		s.requireAnswer(`{"outcome":"selected","optionId":"o1"}`)
		<-asked
		synctest.Wait()
		e := s.turn(Goal{Text: "g", Standing: "be kind"}, func() { s.say("one"); s.end("end_turn") })
		assert.Equal(t, "one", e.Output.Value)
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"auto"`)
		s.update(`"sessionUpdate":7`)
		s.say("in between")
		synctest.Wait()
		e = s.turn(Goal{Text: "g"}, func() { s.say("two"); s.end("end_turn") })
		assert.Equal(t, "two", e.Output.Value)
		assert.Equal(t, []string{`the agent's mode "auto" asks for no permission, so the policy Deny decided nothing`}, e.Warnings)
	})
}

// SPEC.md, Standing sessions: the standing instructions go before the first prompt that is sent, and no other.
func TestTheStandingInstructionsAreGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remembering(t, Account{})
		blocks := func() int {
			l := s.read()
			s.prompt = string(l.ID)
			var p struct{ Prompt []json.RawMessage }
			require.NoError(t, json.Unmarshal(l.Params, &p))
			return len(p.Prompt)
		}
		s.startFn = func() error { return assert.AnError }
		s.run(t.Context(), Goal{Text: "g", Standing: "be kind"})
		<-s.done
		s.startFn = func() error { return nil }
		for _, want := range []int{2, 1, 1} {
			s.run(t.Context(), Goal{Text: "g", Standing: "be kind"})
			assert.Equal(t, want, blocks())
			s.say("x")
			s.end("end_turn")
			<-s.done
		}
	})
}
