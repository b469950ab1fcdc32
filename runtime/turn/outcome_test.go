package turn

import (
	"strings"
	"testing"

	"github.com/coder/acp-go-sdk"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	gooseNetwork = "Network error: Could not connect to 127.0.0.1:9 — check your network connection and try again.\n\nPlease resend your message to try again."
	gooseServer  = "Ran into this error: Server error: Server error (500 Internal Server Error) at http://127.0.0.1:1/v1/chat/completions: boom.\n\nPlease retry if you think this is a transient or recoverable error."
	gooseTurns   = "I've reached the maximum number of actions I can do without user input. Would you like me to continue?"
)

// SPEC.md, Harness: the outcome table, every row.
func TestJudge(t *testing.T) {
	end := acp.StopReasonEndTurn
	said := func(text string) facts {
		return facts{ending: answered, stop: end, text: true, last: text, activity: true}
	}
	measured := func(f facts) facts { f.measured = true; return f }
	of := func(agent string, f facts) facts { f.agent = agent; return f }
	stopped := func(stop acp.StopReason) facts {
		return facts{ending: answered, stop: stop, text: true, last: "x", activity: true, measured: true}
	}
	demanded := func(d demand, f facts) facts { f.demand, f.detail = d, "because"; return f }
	for _, c := range []struct {
		name     string
		facts    facts
		outcome  wire.Outcome
		reason   wire.Reason
		message  string
		warnings string
	}{
		{"end_turn with text and usage", measured(said("hello")), "Succeeded", "Completed", "", ""},
		{"end_turn with text, usage not measured", said("hello"), "Succeeded", "Completed", "", ""},
		{"end_turn with usage and no text", facts{ending: answered, stop: end, measured: true}, "Succeeded", "Completed", "", "said nothing"},
		{"end_turn with a tool call and no text", facts{ending: answered, stop: end, activity: true, tools: 1}, "Succeeded", "Completed", "", "said nothing"},
		{"end_turn with nothing at all", facts{ending: answered, stop: end}, "Failed", "NoEvidence", "without any sign of a model call", ""},
		{"end_turn after a thought only", facts{ending: answered, stop: end, activity: true}, "Failed", "NoEvidence", "said and did nothing", ""},

		{"goose, provider unreachable", of("goose", said(gooseNetwork)), "Failed", "AgentError", "model provider", "heuristic"},
		{"goose, provider fails in mid-turn", of("goose", measured(said(gooseServer))), "Failed", "AgentError", "model provider", "heuristic"},
		{"goose, empty response", of("goose", said("The model returned an empty response. Please resend your message to continue.")), "Failed", "AgentError", "model provider", "heuristic"},
		{"goose, no credits", of("goose", measured(said("Please add credits to your account, then resend your message to continue."))), "Failed", "AgentError", "model provider", "heuristic"},
		{"goose, compaction failed", of("goose", measured(said("Ran into this error trying to compact: x"))), "Failed", "AgentError", "model provider", "heuristic"},
		{"goose, provider refuses", of("goose", said("The provider refused this request.\n\nx resending this conversation is likely to be refused again.")), "Failed", "Refused", "refused", "heuristic"},
		{"goose, own turn limit", of("goose", measured(said(gooseTurns))), "Failed", "LimitReached", "own limit", "heuristic"},
		{"goose, own turn limit, typographic apostrophe", of("goose", measured(said(strings.Replace(gooseTurns, "'", "’", 1)))), "Failed", "LimitReached", "own limit", "heuristic"},
		{"unknown agent, provider unreachable", of("x", said("  Network error: refused")), "Failed", "AgentError", "model provider", "heuristic"},
		{"unknown agent, turn limit", of("x", said(gooseTurns)), "Failed", "LimitReached", "own limit", "heuristic"},
		{"unknown agent, a text only goose uses", of("x", said("The model returned an empty response.")), "Succeeded", "Completed", "", ""},
		{"a measured answer that begins like an error", of("goose", measured(said("Network errors are common."))), "Succeeded", "Completed", "", ""},
		{"an answer that quotes an error", of("goose", said("The log says: Network error: x")), "Succeeded", "Completed", "", ""},

		{"max_tokens", stopped(acp.StopReasonMaxTokens), "Failed", "LimitReached", "output limit", ""},
		{"max_turn_requests", stopped(acp.StopReasonMaxTurnRequests), "Failed", "LimitReached", "model requests", ""},
		{"refusal", stopped(acp.StopReasonRefusal), "Failed", "Refused", "refused", ""},
		{"cancelled and nobody asked", stopped(acp.StopReasonCancelled), "Failed", "AgentError", "nobody had asked", ""},
		{"unknown stop reason", stopped("paused"), "Failed", "AgentError", `"paused"`, ""},
		{"no stop reason", stopped(""), "Failed", "AgentError", "unknown stop reason", ""},
		{"JSON-RPC error", facts{ending: errored, detail: "boom (code 1)"}, "Failed", "AgentError", "boom", ""},
		{"the process went away", facts{ending: crashed, detail: "exited with status 3"}, "Failed", "AgentCrashed", "status 3", ""},
		{"answer over the line limit", facts{ending: unreadable, detail: "64 MiB"}, "Failed", "ResultTooLarge", "64 MiB", ""},
		{"an update over the line limit", demanded(lostPart, stopped(end)), "Failed", "ResultTooLarge", "because", ""},

		{"cancelled as asked", demanded(cancelled, stopped(acp.StopReasonCancelled)), "Cancelled", "Cancelled", "because", ""},
		{"cancel answered with an error", demanded(cancelled, facts{ending: errored}), "Cancelled", "Cancelled", "because", ""},
		{"cancel by force", demanded(cancelled, facts{ending: forced}), "Cancelled", "Cancelled", "because", "by force"},
		{"crash while being cancelled", demanded(cancelled, facts{ending: crashed}), "Cancelled", "Cancelled", "because", "went away"},
		{"end_turn beats the cancel", demanded(cancelled, measured(said("done"))), "Succeeded", "Completed", "", "before it was stopped: cancelled"},
		{"refusal beats the cancel", demanded(cancelled, stopped(acp.StopReasonRefusal)), "Failed", "Refused", "refused", "before it was stopped"},
		{"end_turn without evidence after the cancel", demanded(cancelled, facts{ending: answered, stop: end}), "Failed", "NoEvidence", "without any sign", "before it was stopped"},
		{"deadline", demanded(deadline, stopped(acp.StopReasonCancelled)), "Failed", "DeadlineExceeded", "because", ""},
		{"deadline by force", demanded(deadline, facts{ending: forced}), "Failed", "DeadlineExceeded", "because", "by force"},
		{"silence", demanded(silence, facts{ending: forced}), "Failed", "AgentSilent", "because", "by force"},
		{"silence, stopped", demanded(silence, stopped(acp.StopReasonCancelled)), "Failed", "AgentSilent", "because", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := judge(c.facts)
			assert.Equal(t, c.outcome, v.outcome)
			assert.Equal(t, c.reason, v.reason)
			if c.message == "" {
				assert.Empty(t, v.message)
			}
			assert.Contains(t, v.message, c.message)
			if c.warnings == "" {
				assert.Empty(t, v.warnings)
			}
			assert.Contains(t, strings.Join(v.warnings, "\n"), c.warnings)
		})
	}
}

func TestParsePolicy(t *testing.T) {
	for in, want := range map[string]Policy{"Deny": Deny, "allow": Allow, "ALLOW": Allow, "Ask": Ask, "ask": Ask} {
		got, err := ParsePolicy(in)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for in, want := range map[string]string{"": `policy "": expected Deny, Allow or Ask`, "yes": `policy "yes": expected Deny, Allow or Ask`} {
		_, err := ParsePolicy(in)
		assert.ErrorContains(t, err, want)
	}
}

// goose asks only in some modes, and its default is not one of them.
func TestEnvironmentMakesGooseAsk(t *testing.T) {
	assert.Equal(t, []string{"GOOSE_MODE=approve"}, Environment("/usr/bin/goose", []string{"A=b"}))
	assert.Empty(t, Environment("goose", []string{"GOOSE_MODE=auto"}))
	assert.Empty(t, Environment("opencode", nil))
}
