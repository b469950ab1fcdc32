package kontext

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

var began = time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC)

func number(n int64) *int64 { return &n }

func whole() wire.Envelope {
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted, Message: "all of it",
		Output: &wire.Output{MediaType: "text/plain", Value: "süß <&> \"quoted\" 🔥"},
		Usage:  &wire.Usage{InputTokens: number(0), TotalTokens: number(12), Cost: &wire.Cost{Amount: "0.25", Currency: "USD"}},
		Timing: wire.Timing{StartedAt: began, FinishedAt: began.Add(time.Second), DurationMillis: 1000}, StopReason: "end_turn",
		Tools: wire.Tools{Calls: 3, Failed: 1}, Session: "s1", Warnings: []string{"heuristic"},
	}
}

func edited(edit func(*wire.Envelope)) wire.Envelope {
	e := whole()
	edit(&e)
	return e
}

// SPEC.md, The older contract: the exact bytes of results. UPDATE_GOLDEN=1 rewrites the files; a diff is a change of what that
// controller gets.
func TestResultGoldens(t *testing.T) {
	for name, e := range map[string]wire.Envelope{
		"text": whole(),
		"json": edited(func(e *wire.Envelope) {
			e.Output = &wire.Output{MediaType: "application/json; charset=utf-8", Value: " {\"answer\": \"warm\", \"n\": 1.50} "}
		}),
		"json_that_is_none": edited(func(e *wire.Envelope) { e.Output = &wire.Output{MediaType: "application/json", Value: `{"answer": `} }),
		"failed": edited(func(e *wire.Envelope) {
			e.Outcome, e.Reason, e.Message, e.Output, e.Usage = wire.OutcomeFailed, wire.ReasonAgentCrashed, "exit status 7", nil, nil
		}),
		"cancelled": edited(func(e *wire.Envelope) {
			e.Outcome, e.Reason, e.Message = wire.OutcomeCancelled, wire.ReasonCancelled, "the run was cancelled"
		}),
		"interrupted": {Outcome: wire.OutcomeInterrupted, Reason: wire.ReasonInterrupted, Message: "the harness ended while the attempt was running"},
		"no_message":  {Outcome: wire.OutcomeFailed, Reason: wire.ReasonNoEvidence, Message: "  "},
		"other_money": edited(func(e *wire.Envelope) { e.Usage.Cost.Currency = "EUR" }),
		"cut_before": edited(func(e *wire.Envelope) {
			e.Truncation = &wire.Truncation{OriginalBytes: 1 << 20, SHA256: "abc"}
		}),
		"what_it_refuses_is_left_out": edited(func(e *wire.Envelope) {
			e.Usage.InputTokens, e.Timing.DurationMillis, e.Timing.FinishedAt, e.Tools.Calls = number(-1), -1, began.Add(-time.Second), -1
			e.Output.MediaType = ""
		}),
		"cut_text": edited(func(e *wire.Envelope) { e.Output.Value = strings.Repeat("süß ", 2000) }),
		"cut_json": edited(func(e *wire.Envelope) {
			e.Output = &wire.Output{MediaType: "application/json", Value: `["` + strings.Repeat("a", 5000) + `"]`}
		}),
		"cut_error": edited(func(e *wire.Envelope) {
			e.Outcome, e.Reason, e.Message = wire.OutcomeFailed, wire.ReasonAgentError, strings.Repeat("ä\x01", 4000)
		}),
		"cut_extension": edited(func(e *wire.Envelope) { e.Warnings = []string{strings.Repeat("w", 5000)} }),
	} {
		t.Run(name, func(t *testing.T) {
			got := Encode(e)
			accepted(t, got)
			path := filepath.Join("testdata", "results", name+".json")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
				require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(path) //nolint:gosec // a file of this folder
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got)+"\n")
		})
	}
}

// accepted checks a result by the rules of that contract's reader, with the standard library's decoder as that controller does.
func accepted(t require.TestingT, body []byte) Result {
	require.LessOrEqual(t, len(body), MaxResultBytes)
	require.True(t, utf8.Valid(body) && json.Valid(body) && !bytes.ContainsRune(body, 0), "%q", body)
	var r struct {
		APIVersion, Outcome string
		Output              *struct {
			MediaType string
			Value     json.RawMessage
		}
		Usage      map[string]float64
		Timing     *struct{ StartedAt, CompletedAt *time.Time }
		Execution  *struct{ ToolCalls *int32 }
		Error      *struct{ Code, Message string }
		Extensions map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(body, &r))
	assert.Equal(t, "kontext.dev/result/v1alpha1", r.APIVersion)
	assert.Contains(t, []string{"Succeeded", "Failed"}, r.Outcome)
	assert.Equal(t, r.Outcome == "Failed", r.Error != nil)
	if r.Error != nil {
		assert.NotEmpty(t, strings.TrimSpace(r.Error.Message))
	}
	if r.Output != nil {
		assert.NotEmpty(t, strings.TrimSpace(r.Output.MediaType))
		assert.NotEmpty(t, r.Output.Value)
	}
	for name, n := range r.Usage {
		assert.GreaterOrEqual(t, n, 0.0, name)
	}
	if r.Timing != nil && r.Timing.CompletedAt != nil {
		assert.False(t, r.Timing.CompletedAt.Before(*r.Timing.StartedAt))
	}
	if r.Execution != nil && r.Execution.ToolCalls != nil {
		assert.GreaterOrEqual(t, *r.Execution.ToolCalls, int32(0))
	}
	for name := range r.Extensions {
		assert.Contains(t, name, "/")
	}
	var ours Result
	require.NoError(t, wire.DecodeAnswer(body, &ours))
	return ours
}

// Whatever an agent emits, the result is one that contract's reader takes, within its limit, and a cut is said.
func TestEveryEnvelopeBecomesAnAcceptedResult(t *testing.T) {
	anyText := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
		unit := rapid.SampledFrom([]string{"a", "ß", "🔥", "\x00", "\x01", "\n", `"`, `\`, "\xff", "<", "\u2028"}).Draw(t, "unit")
		return strings.Repeat(unit, rapid.IntRange(0, 6000).Draw(t, "times"))
	}))
	rapid.Check(t, func(t *rapid.T) {
		e := wire.Envelope{
			Outcome: rapid.SampledFrom([]wire.Outcome{wire.OutcomeSucceeded, wire.OutcomeFailed, wire.OutcomeCancelled, wire.OutcomeInterrupted, ""}).Draw(t, "outcome"),
			Reason:  wire.Reason(rapid.StringN(0, 200, 200).Draw(t, "reason")), Message: anyText.Draw(t, "message"),
			StopReason: anyText.Draw(t, "stop"), Session: anyText.Draw(t, "session"), Warnings: rapid.SliceOfN(anyText, 0, 2).Draw(t, "warnings"),
		}
		media := rapid.SampledFrom([]string{"text/plain", "application/json", "text/markdown; charset=utf-8", "image/png", "", strings.Repeat("x", 300) + "/y", "text/" + strings.Repeat("x", 300)})
		if rapid.Bool().Draw(t, "output") {
			e.Output = &wire.Output{MediaType: media.Draw(t, "media"), Value: anyText.Draw(t, "value")}
		}
		body := Encode(e)
		r := accepted(t, body)
		assert.Equal(t, body, Encode(e), "the same envelope is the same bytes")
		if r.Truncation == nil {
			assert.Contains(t, r.Extensions, ExtensionKey)
			return
		}
		assert.Greater(t, r.Truncation.OriginalBytes, int64(MaxResultBytes))
		if r.Truncation.OutputTruncated && strings.HasPrefix(r.Output.MediaType, "text/") {
			var kept string
			require.NoError(t, wire.DecodeAnswer(r.Output.Value, &kept))
			assert.True(t, strings.HasPrefix(wire.CleanText(e.Output.Value), kept))
			assert.Greater(t, len(body), MaxResultBytes-16, "as much as fits is kept")
		}
	})
}

func FuzzEncode(f *testing.F) {
	f.Add("Failed", "AgentError", "message", "text/plain", "value")
	f.Add("Succeeded", "Completed", "", "application/json", `{"a":1}`)
	f.Fuzz(func(t *testing.T, outcome, reason, message, media, value string) {
		accepted(t, Encode(wire.Envelope{
			Outcome: wire.Outcome(outcome), Reason: wire.Reason(reason), Message: message, Output: &wire.Output{MediaType: media, Value: value},
		}))
	})
}
