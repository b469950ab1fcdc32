package turn

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func dollars(amount string) *wire.Cost { return &wire.Cost{Amount: amount, Currency: "USD"} }

// R30: what the agent tells in mid-turn stops it by the ladder.
func TestABudgetThatIsExceededStopsTheTurn(t *testing.T) {
	for name, c := range map[string]struct {
		limits  Limits
		update  string
		message string
	}{
		"cost":    {Limits{Cost: dollars("0.25")}, `"sessionUpdate":"usage_update","used":1,"cost":{"amount":0.250000001,"currency":"USD"}`, "the budget of 0.25 USD is exceeded: the agent tells of 0.250000001"},
		"context": {Limits{Tokens: 100}, `"sessionUpdate":"usage_update","used":101`, "the budget of 100 tokens is exceeded: the agent's context alone has 101"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				s.begin(t.Context(), Goal{Text: "g", Limits: c.limits})
				s.say("so far")
				s.update(c.update)
				s.requireCancel()
				s.end("cancelled")
				r := <-s.done
				assert.Equal(t, wire.OutcomeFailed, r.envelope.Outcome)
				assert.Equal(t, wire.ReasonBudgetExceeded, r.envelope.Reason)
				assert.Equal(t, c.message, r.envelope.Message)
				assert.Equal(t, "so far", r.envelope.Output.Value)
				assert.False(t, r.ended, "an agent that obeys stays")
			})
		})
	}
}

// R30: goose tells all tokens of a session in a notification of its own; its answer has the last model call's only.
func TestGoosesOwnCountIsTheUsage(t *testing.T) {
	told := func(s *stage, in, out string) {
		s.write(`{"jsonrpc":"2.0","method":"_goose/unstable/session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"usage_update","used":9,"accumulatedInputTokens":` + in + `,"accumulatedOutputTokens":` + out + `}}}`)
		s.write(`{"jsonrpc":"2.0","method":"_goose/unstable/session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"message_usage","accumulatedInputTokens":999}}}`)
	}
	for _, limit := range []int64{26, 25} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, 0)
			s.begin(t.Context(), Goal{Text: "g", Limits: Limits{Tokens: limit}})
			told(s, "0", "0")
			s.say("x")
			told(s, "10", "1")
			told(s, "20", "6")
			if limit < 26 {
				s.requireCancel()
			}
			s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15}}`)
			e := (<-s.done).envelope
			in, out, all := int64(20), int64(6), int64(26)
			assert.Equal(t, &wire.Usage{InputTokens: &in, OutputTokens: &out, TotalTokens: &all}, e.Usage)
			if limit < 26 {
				assert.Equal(t, wire.ReasonBudgetExceeded, e.Reason)
				assert.Equal(t, []string{`the agent ended by itself ("end_turn") before it was stopped`}, e.Warnings)
			} else {
				assert.Equal(t, wire.ReasonCompleted, e.Reason, "a budget that is used up is not exceeded")
				assert.Empty(t, e.Warnings)
			}
		})
	}
}

// R30: what only the answer tells is still over the budget, however the agent says that it ended.
func TestTheAnswersUsageIsHeldAgainstTheBudget(t *testing.T) {
	for _, stop := range []string{"end_turn", "refusal", "max_tokens"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, 0)
			s.begin(t.Context(), Goal{Text: "g", Limits: Limits{Tokens: 14}})
			s.say("all of it")
			s.answer(json.RawMessage(s.prompt), `{"stopReason":"`+stop+`","usage":{"inputTokens":10,"outputTokens":5}}`)
			e := (<-s.done).envelope
			assert.Equal(t, wire.ReasonBudgetExceeded, e.Reason)
			assert.Contains(t, e.Message, "14 tokens is exceeded: the agent tells of 15")
			assert.Equal(t, "all of it", e.Output.Value)
			assert.Equal(t, stop, e.StopReason)
			assert.Contains(t, strings.Join(e.Warnings, ""), "ended by itself")
		})
	}
}

// R30: what could not be watched is said, and a cost in another currency is none of the budget's.
func TestABudgetThatCannotBeWatchedIsSaid(t *testing.T) {
	both := Limits{Tokens: 100, Cost: dollars("5.00")}
	noTokens, noCost := "the agent told of no tokens, so the budget of 100 tokens could not be watched", "the agent told of no cost, so the budget of 5 USD could not be watched"
	for name, c := range map[string]struct {
		update   string
		usage    string
		warnings []string
	}{
		"nothing": {"", "null", []string{noTokens, noCost}},
		"another currency": {`"sessionUpdate":"usage_update","cost":{"amount":9e9,"currency":"EUR"}`, `{"totalTokens":1}`, []string{
			`the agent told of its cost in "EUR" only, so the budget of 5 USD could not be watched`}},
		"the context only": {`"sessionUpdate":"usage_update","used":99,"cost":{"amount":5.0,"currency":"USD"}`, "null", []string{
			"the agent told how full its context was and counted no tokens: more than the budget of 100 tokens may have been used"}},
		"a cost that is none": {`"sessionUpdate":"usage_update","cost":{"amount":-1,"currency":"USD"}`, `{"inputTokens":1}`, []string{
			noCost, "the agent told of a cost that is no amount of money; it was not counted"}},
		"all of it": {`"sessionUpdate":"usage_update","cost":{"amount":5,"currency":"USD"}`, `{"totalTokens":100}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				s.begin(t.Context(), Goal{Text: "g", Limits: both})
				s.say("x")
				if c.update != "" {
					s.update(c.update)
				}
				s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":`+c.usage+`}`)
				e := (<-s.done).envelope
				assert.Equal(t, wire.ReasonCompleted, e.Reason, e.Message)
				assert.Equal(t, c.warnings, e.Warnings)
			})
		})
	}
}

// A cancel that came first stays one, and a turn without a budget has none.
func TestABudgetDecidesOnlyWhatNothingElseHas(t *testing.T) {
	assert.Equal(t, wire.ReasonCancelled, judge(facts{demand: cancelled, ending: forced}).reason)
	m := newMeter(Limits{})
	m.full(math.MaxInt64)
	require.True(t, m.paid(jsontext.Value("1e15"), "USD"))
	m.accumulated(1<<62, 1)
	assert.Empty(t, m.over())
	assert.Empty(t, m.blind())
}

// Money is counted in decimals and never in floating point, to as many as the wire has.
func TestMoneyIsCountedExactly(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "5": "5", "5.00": "5", "0.1": "0.1", "100": "100", "1e2": "100", "25E-1": "2.5", "0.002865": "0.002865",
		"0.30000000000000004": "0.3", "123456789012345.123456789": "123456789012345.123456789", "0.0000000005": "0.000000001", "1e-99": "0",
	} {
		a := amount(text)
		require.NotNil(t, a, text)
		assert.Equal(t, want, plain(a), text)
	}
	for _, text := range []string{"", "-1", "1e999999999", "NaN", `"1"`, "null", "0x1", "1/3", strings.Repeat("9", 33), "."} {
		assert.Nil(t, amount(text), text)
	}
	over := func(budget string, costs ...string) bool {
		m := newMeter(Limits{Cost: dollars(budget)})
		for _, c := range costs {
			require.True(t, m.paid(jsontext.Value(c), "USD"))
		}
		return m.over() != ""
	}
	assert.False(t, over("0.3", "0.30000000000000004"), "the dust of the agent's own arithmetic")
	assert.True(t, over("0.3", "0.300000001"))
	assert.False(t, over("9007199254740992", "9007199254740992"))
	assert.True(t, over("9007199254740992", "9007199254740993"), "which a float cannot tell apart")
	assert.True(t, over("1", "2", "0.5"), "what was spent stays spent")
}

// FuzzAmount: no amount takes long or panics, and what is read as one is written and read again as the same.
func FuzzAmount(f *testing.F) {
	f.Add("12.5e-3")
	f.Add("1e99")
	f.Fuzz(func(t *testing.T, text string) {
		if a := amount(text); a != nil {
			again := amount(plain(a))
			if len(plain(a)) <= 32 {
				require.NotNil(t, again, plain(a))
				assert.Zero(t, a.Cmp(again))
			}
		}
	})
}
