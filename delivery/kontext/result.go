package kontext

import (
	"cmp"
	"math"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The two outcomes of the older contract. Failed carries an error, Succeeded must not.
const (
	Succeeded = "Succeeded"
	Failed    = "Failed"
)

// Result is kontext.dev/result/v1alpha1, as far as a harness of ours fills it.
type Result struct {
	APIVersion string               `json:"apiVersion"`
	Outcome    string               `json:"outcome"`
	Output     *Output              `json:"output,omitzero"`
	Usage      *Usage               `json:"usage,omitzero"`
	Timing     *Timing              `json:"timing,omitzero"`
	Execution  *Execution           `json:"execution,omitzero"`
	Error      *Error               `json:"error,omitzero"`
	Extensions map[string]Extension `json:"extensions,omitzero"`
	Truncation *Truncation          `json:"truncation,omitzero"`
}

// Output is any JSON value and how to read it; text is a JSON string.
type Output struct {
	MediaType string         `json:"mediaType"`
	Value     jsontext.Value `json:"value"`
}

// Usage is what was measured; an absent figure was not.
type Usage struct {
	InputTokens  *int64   `json:"inputTokens,omitzero"`
	OutputTokens *int64   `json:"outputTokens,omitzero"`
	TotalTokens  *int64   `json:"totalTokens,omitzero"`
	Dollars      *float64 `json:"dollars,omitzero"`
}

// Timing is the run's own time; completedAt never precedes startedAt.
type Timing struct {
	StartedAt      *time.Time `json:"startedAt,omitzero"`
	CompletedAt    *time.Time `json:"completedAt,omitzero"`
	DurationMillis *int64     `json:"durationMillis,omitzero"`
}

// Execution counts what the run did.
type Execution struct {
	ToolCalls *int32 `json:"toolCalls,omitzero"`
}

// Error says why a run failed: the reason of our envelope, and its message, which is never empty.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ExtensionKey is under what the rest of our envelope stands, where there is room.
const ExtensionKey = "hearth.dev/result"

// Extension is what the older contract has no place for.
type Extension struct {
	Outcome     wire.Outcome     `json:"outcome"`
	Reason      wire.Reason      `json:"reason"`
	Message     string           `json:"message,omitzero"`
	StopReason  string           `json:"stopReason,omitzero"`
	Session     string           `json:"session,omitzero"`
	ToolsFailed int              `json:"toolsFailed,omitzero"`
	Cost        *wire.Cost       `json:"cost,omitzero"`       // of another currency than dollars
	Truncation  *wire.Truncation `json:"truncation,omitzero"` // of the output, before this contract's own limit
	Warnings    []string         `json:"warnings,omitzero"`
}

// Truncation says that the result was cut, what of it, and how many bytes the whole would have had.
type Truncation struct {
	OriginalBytes       int64 `json:"originalBytes"`
	OutputTruncated     bool  `json:"outputTruncated,omitzero"`
	ExtensionsTruncated bool  `json:"extensionsTruncated,omitzero"`
}

// From translates our envelope. Cancelled and Interrupted are Failed there; the error's code tells them apart. What that
// contract would refuse (a negative count, a time that ends before it began) is left out.
func From(e wire.Envelope) Result {
	r := Result{APIVersion: ResultAPIVersion, Outcome: Succeeded, Output: output(e.Output), Usage: usage(e.Usage), Timing: timing(e.Timing)}
	x := Extension{
		Outcome: e.Outcome, Reason: e.Reason, StopReason: wire.CleanText(e.StopReason), Session: wire.CleanText(e.Session),
		ToolsFailed: e.Tools.Failed, Truncation: e.Truncation,
	}
	for _, w := range e.Warnings {
		x.Warnings = append(x.Warnings, wire.CleanText(w))
	}
	if e.Usage != nil && e.Usage.Cost != nil && (r.Usage == nil || r.Usage.Dollars == nil) {
		x.Cost = e.Usage.Cost
	}
	message := wire.CleanText(e.Message)
	if e.Outcome == wire.OutcomeSucceeded {
		x.Message = message
	} else {
		r.Outcome = Failed
		code := cmp.Or(string(e.Reason), string(e.Outcome), string(wire.ReasonAgentError))
		if strings.TrimSpace(message) == "" {
			message = "the run ended without a message: " + code
		}
		r.Error = &Error{Code: code, Message: message}
	}
	if e.Tools.Calls >= 0 {
		calls := int32(min(e.Tools.Calls, math.MaxInt32)) //nolint:gosec // bounded
		r.Execution = &Execution{ToolCalls: &calls}
	}
	r.Extensions = map[string]Extension{ExtensionKey: x}
	return r
}

const plainText = "text/plain"

// output makes JSON a value and everything else text.
func output(o *wire.Output) *Output {
	if o == nil {
		return nil
	}
	media, _, err := mime.ParseMediaType(o.MediaType)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")) {
		if value := jsontext.Value(o.Value); value.Compact() == nil {
			return &Output{MediaType: media, Value: value}
		}
	}
	if err != nil || !strings.HasPrefix(media, "text/") {
		media = plainText
	}
	return &Output{MediaType: media, Value: text(o.Value)}
}

// text is a JSON string.
func text(s string) jsontext.Value {
	v, err := jsontext.AppendQuote(nil, wire.CleanText(s))
	if err != nil {
		panic(err) // clean text always encodes
	}
	return v
}

func usage(u *wire.Usage) *Usage {
	if u == nil {
		return nil
	}
	out := &Usage{InputTokens: counted(u.InputTokens), OutputTokens: counted(u.OutputTokens), TotalTokens: counted(u.TotalTokens)}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.ValidAmount() {
		if dollars, err := strconv.ParseFloat(u.Cost.Amount, 64); err == nil {
			out.Dollars = &dollars
		}
	}
	return out
}

func counted(n *int64) *int64 {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

func timing(t wire.Timing) *Timing {
	out := &Timing{DurationMillis: counted(&t.DurationMillis)}
	if !t.StartedAt.IsZero() {
		out.StartedAt = &t.StartedAt
		if !t.FinishedAt.Before(t.StartedAt) {
			out.CompletedAt = &t.FinishedAt
		}
	}
	return out
}
