package turn

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// SPEC.md, JSON output: what is taken of a message, byte for byte, and what is none.
func TestTheJSONOfAMessage(t *testing.T) {
	fence := func(text string) string { return "```json\n" + text + "\n```" }
	for name, c := range map[string]struct{ message, value, wrong string }{
		"whole":                   {"{\"b\":1,  \"a\":1.0}", `{"b":1,  "a":1.0}`, ""},
		"white space around":      {" \r\n\t[1, 2]\n\n", `[1, 2]`, ""},
		"any value":               {`"a\u0000\ud83d\ude00"`, `"a\u0000\ud83d\ude00"`, ""},
		"number":                  {"-1e400", "-1e400", ""},
		"one block":               {"Here it is:\n" + fence("{\n  \"a\": 1\n}") + "\nAnything else?", "{\n  \"a\": 1\n}", ""},
		"capitals":                {"```JSON\n1\n```", "1", ""},
		"tildes and more of them": {"~~~~ json\n[\"```\"]\n~~~~~", "[\"```\"]", ""},
		"indented":                {"   ```json\n   1\n   ```", "1", ""},
		"beside other blocks":     {"```sh\nls ```json\n```\n" + fence("2"), "2", ""},
		"within another block":    {"````md\n" + fence("1") + "\n````\n" + fence("2"), "2", ""},

		"nothing":                {" \n", "", "empty"},
		"prose":                  {"The answer is 4.", "", "invalid character 'T'"},
		"prose behind":           {"4 is the answer", "", "more behind the first value, which ends after 1 bytes"},
		"two values":             {"{}\n{}", "", "more behind the first value"},
		"cut":                    {`{"a":`, "", "unexpected EOF"},
		"two blocks":             {fence("1") + "\n" + fence("1"), "", "more than one fenced code block"},
		"no mark":                {"Here:\n```\n1\n```", "", "invalid character 'H'"},
		"another mark":           {"```jsonc\n1\n```", "", "invalid character '`'"},
		"a block that is open":   {"```json\n1\n", "", "invalid character '`'"},
		"indented as code":       {"    ```json\n1\n    ```", "", "invalid character '`'"},
		"a block of no JSON":     {fence("{a:1}"), "", "invalid character 'a'"},
		"an empty block":         {fence(""), "", "EOF"},
		"a name twice":           {`{"a":1,"b":{"x":1,"x":2}}`, "", `duplicate object member name "x"`},
		"a name twice, escaped":  {`{"a":1,"\u0061":2}`, "", "duplicate object member name"},
		"half a surrogate pair":  {`"\ud83d"`, "", "surrogate"},
		"a raw NUL":              {"\"a\x00b\"", "", "invalid character '\\x00'"},
		"a byte order mark":      {"\ufeff{}", "", "invalid character"},
		"a comment":              {"{} // done", "", "more behind"},
		"deeper than can be":     {strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), "", "depth"},
		"bytes that are no text": {"\"\xff\"", "", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := answerJSON(c.message)
			if c.wrong == "" {
				require.NoError(t, err)
				assert.Equal(t, c.value, value)
				return
			}
			require.Error(t, err)
			assert.Contains(t, describe(err), c.wrong)
		})
	}
}

// Whatever a message is, what is taken of it stands in it, and is JSON that every reader takes for the same.
func FuzzAnswerJSON(f *testing.F) {
	for _, seed := range []string{"{}", "a\n```json\n{\"a\":[1,\"\\ud83d\\ude00\"]}\n```\nb", "~~~json\n1\n~~~", "```json\n", "\x00\xff", `{"a":1,"a":2}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		value, err := answerJSON(message)
		if err != nil {
			assert.LessOrEqual(t, len(describe(err)), maxDescription)
			assert.True(t, utf8.ValidString(repair(err)))
			return
		}
		assert.Contains(t, message, value)
		assert.True(t, jsontext.Value(value).IsValid())
		assert.True(t, json.Valid([]byte(value)))
		assert.Equal(t, strings.TrimSpace(value), value)
		assert.Equal(t, value, wire.CleanText(value), "an envelope takes it as it is")
	})
}

// wantsJSON begins a turn whose output is to be JSON.
func wantsJSON(ctx context.Context, t *testing.T, limits Limits) *stage {
	t.Helper()
	s := newStage(t, 0)
	s.runner.Output = JSON
	s.begin(ctx, Goal{Text: "the secret goal", Standing: "be kind", Limits: limits})
	return s
}

// message says a text as one message of that id, cut in two.
func (s *stage) message(id, text string) {
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		quoted, err := json.Marshal(part)
		require.NoError(s.t, err)
		s.update(`"sessionUpdate":"agent_message_chunk","messageId":"` + id + `","content":{"type":"text","text":` + string(quoted) + `}`)
	}
}

// requireRepair takes the one prompt that asks again.
func (s *stage) requireRepair(wrong string) {
	s.t.Helper()
	l := s.read()
	require.Equal(s.t, "session/prompt", l.Method)
	var p struct {
		SessionID string `json:"sessionId"`
		Prompt    []struct{ Text string }
	}
	require.NoError(s.t, json.Unmarshal(l.Params, &p))
	require.Equal(s.t, "s1", p.SessionID)
	require.Len(s.t, p.Prompt, 1)
	assert.Contains(s.t, p.Prompt[0].Text, wrong)
	assert.NotContains(s.t, p.Prompt[0].Text, "secret goal")
	s.prompt = string(l.ID)
}

// SPEC.md, JSON output: the last message counts, and nothing else that was said.
func TestTheLastMessageIsTheJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wantsJSON(t.Context(), t, Limits{})
		s.message("m1", "I shall look.")
		s.update(`"sessionUpdate":"tool_call","toolCallId":"a"`)
		s.message("m2", " {\"é\": 1.50 }\n")
		s.end("end_turn")
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonCompleted, e.Reason)
		assert.Equal(t, &wire.Output{MediaType: "application/json", Value: `{"é": 1.50 }`}, e.Output)
		assert.Nil(t, e.Truncation)
		assert.Empty(t, e.Warnings)
	})
}

// SPEC.md, JSON output: one more prompt, in the same session, that says what was wrong; it is part of the turn.
func TestAnAnswerThatIsNoJSONIsAskedForOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wantsJSON(t.Context(), t, Limits{})
		s.update(`"sessionUpdate":"tool_call","toolCallId":"a"`)
		s.message("m1", `{"a":1,"a":2}`)
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":5}}`)
		s.requireRepair(`duplicate object member name "a"`)
		s.update(`"sessionUpdate":"tool_call","toolCallId":"b"`)
		s.message("m1", `{"a":2}`) // an agent that gives no new id has still begun a new message
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"inputTokens":20,"outputTokens":7}}`)
		e := (<-s.done).envelope
		in, out := int64(30), int64(12)
		assert.Equal(t, wire.ReasonCompleted, e.Reason, e.Message)
		assert.Equal(t, &wire.Output{MediaType: "application/json", Value: `{"a":2}`}, e.Output)
		assert.Equal(t, &wire.Usage{InputTokens: &in, OutputTokens: &out}, e.Usage)
		assert.Equal(t, wire.Tools{Calls: 2}, e.Tools)
		assert.Len(t, e.Warnings, 1)
		assert.Contains(t, e.Warnings[0], "asked for once more")
		assert.Len(t, s.starts, 1)
	})
}

func TestAnAnswerThatIsNoJSONTwiceIsInvalidOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wantsJSON(t.Context(), t, Limits{})
		s.say("four")
		s.end("end_turn")
		s.requireRepair("invalid character 'o'")
		s.say("I mean: 4")
		s.end("end_turn")
		e := (<-s.done).envelope
		assert.Equal(t, wire.OutcomeFailed, e.Outcome)
		assert.Equal(t, wire.ReasonInvalidOutput, e.Reason)
		assert.Contains(t, e.Message, "invalid character 'I'")
		assert.Equal(t, &wire.Output{MediaType: "text/plain", Value: "four\nI mean: 4"}, e.Output)
		require.NoError(t, s.conn.Notify("next", 1))
		assert.Equal(t, "next", s.read().Method, "exactly one more prompt")
	})
}

// What an agent cannot say in UTF-8 is not taken for what it meant, although as text it would be.
func TestJSONWithBytesThatAreNoTextIsAskedForAgain(t *testing.T) {
	for name, text := range map[string]string{"not UTF-8": "{\\\"a\\\":\\\"\xff\\\"}", "half a surrogate pair": `{\"a\":\"\ud83d\"}`, "a raw NUL": `{\"a\":\"\u0000\"}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := wantsJSON(t.Context(), t, Limits{})
				s.say(text)
				s.end("end_turn")
				s.requireRepair("")
				s.end("end_turn")
				e := (<-s.done).envelope
				assert.Equal(t, wire.ReasonInvalidOutput, e.Reason)
				assert.Contains(t, e.Message, "empty")
				assert.Equal(t, "{\"a\":\"\uFFFD\"}", e.Output.Value)
			})
		})
	}
}

// SPEC.md, JSON output: the second prompt has what the turn has left of its time, and is stopped as the first one is.
func TestTheSecondPromptIsStoppedAsTheFirstOneIs(t *testing.T) {
	for name, c := range map[string]struct {
		limits  Limits
		stop    func(*stage, context.CancelCauseFunc)
		outcome wire.Outcome
		reason  wire.Reason
		after   time.Duration
	}{
		"cancelled": {Limits{}, func(_ *stage, cancel context.CancelCauseFunc) { cancel(errors.New("deleted")) }, "Cancelled", "Cancelled", 0},
		"late":      {Limits{ActiveSeconds: 90}, func(*stage, context.CancelCauseFunc) {}, "Failed", "DeadlineExceeded", 30 * time.Second},
		"silent":    {Limits{}, func(*stage, context.CancelCauseFunc) {}, "Failed", "AgentSilent", DefaultSilence},
		"over budget": {Limits{Tokens: 100}, func(s *stage, _ context.CancelCauseFunc) {
			s.update(`"sessionUpdate":"usage_update","used":101`)
		}, "Failed", "BudgetExceeded", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				s := wantsJSON(ctx, t, c.limits)
				time.Sleep(time.Minute)
				s.say("x")
				s.end("end_turn")
				s.requireRepair("invalid character 'x'")
				again := time.Now()
				c.stop(s, cancel)
				s.requireCancel()
				assert.Equal(t, c.after, time.Since(again))
				s.end("cancelled")
				e := (<-s.done).envelope
				assert.Equal(t, c.outcome, e.Outcome)
				assert.Equal(t, c.reason, e.Reason)
				assert.Equal(t, "x", e.Output.Value)
				assert.Equal(t, "text/plain", e.Output.MediaType)
			})
		})
	}
}

// What an agent says in its first answer counts against the budget, and a turn that is over it gets no second prompt.
func TestThereIsNoSecondPromptOverTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wantsJSON(t.Context(), t, Limits{Tokens: 14})
		s.say("x")
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"totalTokens":15}}`)
		assert.Equal(t, wire.ReasonBudgetExceeded, (<-s.done).envelope.Reason)
	})
	synctest.Test(t, func(t *testing.T) {
		s := wantsJSON(t.Context(), t, Limits{Tokens: 25})
		s.say("x")
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"totalTokens":15}}`)
		s.requireRepair("")
		s.say("{}")
		s.answer(json.RawMessage(s.prompt), `{"stopReason":"end_turn","usage":{"totalTokens":15}}`)
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonBudgetExceeded, e.Reason)
		assert.EqualValues(t, 30, *e.Usage.TotalTokens, "both prompts are the turn's")
	})
}

// A turn that was to be stopped and ended by itself is not prolonged for an answer that is no JSON.
func TestATurnThatWasToBeStoppedIsNotProlonged(t *testing.T) {
	for name, c := range map[string]struct {
		cancel bool
		said   string
		reason wire.Reason
	}{
		"cancelled":           {true, "x", "Cancelled"},
		"cancelled, but done": {true, "{}", "Completed"},
		"silent":              {false, "x", "AgentSilent"},
		"silent, but done":    {false, "{}", "Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				s := wantsJSON(ctx, t, Limits{})
				s.say(c.said)
				synctest.Wait()
				if c.cancel {
					cancel(errors.New("deleted"))
				}
				s.requireCancel()
				s.end("end_turn")
				e := (<-s.done).envelope
				assert.Equal(t, c.reason, e.Reason)
				assert.NotEmpty(t, e.Warnings)
				require.NoError(t, s.conn.Notify("next", 1))
				assert.Equal(t, "next", s.read().Method)
			})
		})
	}
}

// An agent that fails, refuses or dies when it is asked again ends as it would have the first time.
func TestTheSecondAnswerIsJudgedAsTheFirstOneIs(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*stage)
		reason wire.Reason
	}{
		"refusal": {func(s *stage) { s.end("refusal") }, "Refused"},
		"limit":   {func(s *stage) { s.end("max_tokens") }, "LimitReached"},
		"error": {func(s *stage) {
			s.write(`{"jsonrpc":"2.0","id":` + s.prompt + `,"error":{"code":-32603,"message":"boom"}}`)
		}, "AgentError"},
		"provider": {func(s *stage) { s.say("Network error: no route"); s.end("end_turn") }, "AgentError"},
		"crash":    {func(s *stage) { _ = s.out.Close() }, "AgentCrashed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := wantsJSON(t.Context(), t, Limits{})
				s.say("x")
				s.end("end_turn")
				s.requireRepair("")
				c.answer(s)
				r := <-s.done
				assert.Equal(t, c.reason, r.envelope.Reason)
				assert.Equal(t, name == "crash", r.ended)
			})
		})
	}
}

// A turn that did not succeed is none of JSON's business.
func TestATurnThatFailedIsNotAskedForJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wantsJSON(t.Context(), t, Limits{})
		s.say("x")
		s.end("max_tokens")
		e := (<-s.done).envelope
		assert.Equal(t, wire.ReasonLimitReached, e.Reason)
		assert.Equal(t, "text/plain", e.Output.MediaType)
	})
}

// SPEC.md, JSON output: JSON is never cut. What fits by its own length may still not, because an envelope escapes it.
func TestJSONThatAnEnvelopeCannotCarryIsResultTooLarge(t *testing.T) {
	for name, c := range map[string]struct {
		part   string
		parts  int
		reason wire.Reason
	}{
		"fits":             {strings.Repeat("a", 100_000), 9, "Completed"},
		"too long":         {strings.Repeat("a", 100_000), 10, "ResultTooLarge"},
		"more than kept":   {strings.Repeat("a", 100_000), 20, "ResultTooLarge"},
		"long once quoted": {strings.Repeat(`\\\"`, 25_000), 10, "ResultTooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := wantsJSON(t.Context(), t, Limits{})
				s.say(`\"`)
				for range c.parts {
					s.say(c.part)
				}
				s.say(`\"`)
				s.end("end_turn")
				e := (<-s.done).envelope
				require.Equal(t, c.reason, e.Reason, e.Message)
				b, err := wire.Encode(e)
				require.NoError(t, err)
				assert.LessOrEqual(t, len(b), wire.MaxEnvelopeBytes)
				if c.reason == "Completed" {
					assert.True(t, json.Valid([]byte(e.Output.Value)))
					assert.Nil(t, e.Truncation)
					return
				}
				assert.Equal(t, "text/plain", e.Output.MediaType)
				assert.NotNil(t, e.Truncation)
			})
		})
	}
}

func TestParseMediaType(t *testing.T) {
	for in, want := range map[string]MediaType{"": Text, "text/plain": Text, "Application/JSON": JSON} {
		got, err := ParseMediaType(in)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseMediaType("text/html")
	assert.ErrorContains(t, err, `output media type "text/html": expected text/plain or application/json`)
}
