package delivery

import (
	"regexp"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Bounds of what a record holds, so that its write always fits (SPEC.md, Envelope).
const (
	MaxOutputBytes    = 256 << 10
	MaxMessageBytes   = 4096
	MaxSessionBytes   = 256
	MaxMediaTypeBytes = 128
	maxReasonBytes    = 64
	// shrunkOutputBytes and shrunkMessageBytes are what is left of a record that was refused as too large.
	shrunkOutputBytes  = 16 << 10
	shrunkMessageBytes = 512
)

const cutNote = " (the record was cut to fit)"

var reasonPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`) })

// MaxClockAhead is how far a Pod's clock may be ahead of the controller's and still be believed.
const MaxClockAhead = time.Hour

// Plausible is a time as a Pod told it, or now where that is far in the future: such a record would last for centuries.
func Plausible(now, told time.Time) time.Time {
	if told.After(now.Add(MaxClockAhead)) {
		return now
	}
	return told
}

// NewEnding projects an envelope (R27), recorded now. It comes from an agent's Pod: whatever it holds, the record is valid and bounded.
func NewEnding(now time.Time, e wire.Envelope) Ending {
	out := Ending{Outcome: e.Outcome, Reason: Reason(e.Reason), Message: cut(e.Message, MaxMessageBytes), Usage: usage(e.Usage),
		CompletionTime: e.Timing.FinishedAt, RecordedAt: now}
	switch e.Outcome {
	case wire.OutcomeSucceeded, wire.OutcomeFailed, wire.OutcomeCancelled, wire.OutcomeInterrupted:
	default:
		out.Outcome = wire.OutcomeFailed
	}
	switch {
	case out.Outcome == wire.OutcomeSucceeded:
		out.Reason = Reason(wire.ReasonCompleted)
	case len(out.Reason) > maxReasonBytes, !reasonPattern().MatchString(string(out.Reason)), out.Reason == Reason(wire.ReasonCompleted), ours(out.Reason):
		out.Reason = Reason(wire.ReasonAgentError)
	}
	if out.CompletionTime.IsZero() {
		out.CompletionTime = now
	}
	out.CompletionTime = Plausible(now, out.CompletionTime)
	seconds := max(0, e.Timing.DurationMillis/1000)
	out.DurationSeconds = &seconds
	if t := e.Truncation; t != nil {
		out.Truncation = &wire.Truncation{OriginalBytes: max(0, t.OriginalBytes), SHA256: t.SHA256}
		if !t.ValidSHA256() {
			out.Truncation.SHA256 = ""
		}
	}
	if e.Output != nil {
		out.Output = &wire.Output{MediaType: cut(e.Output.MediaType, MaxMediaTypeBytes), Value: wire.CleanText(e.Output.Value)}
		out.cutOutput(MaxOutputBytes)
	}
	return out
}

// Shrink cuts an ending further after the API server refused it as too large or invalid (fault row 56): first short, then
// nothing but the reason. false: there is nothing left to cut.
func (e Ending) Shrink() (Ending, bool) {
	big := e.Output != nil && len(e.Output.Value) > shrunkOutputBytes || len(e.Message) > shrunkMessageBytes || len(e.Data) > shrunkMessageBytes
	if big {
		e.cutOutput(shrunkOutputBytes)
		e.Data = cut(e.Data, shrunkMessageBytes)
		e.Message = cut(e.Message, shrunkMessageBytes-len(cutNote)) + cutNote
		return e, true
	}
	if e.Output == nil && e.Usage == nil && e.Data == "" && e.Message == cutNote[1:] {
		return e, false
	}
	e.cutOutput(0)
	e.Output, e.Usage, e.Data, e.Message = nil, nil, "", cutNote[1:]
	return e, true
}

// cutOutput says what the whole was; what the harness said of an earlier cut stands, because it saw the whole.
func (e *Ending) cutOutput(limit int) {
	if e.Output == nil || len(e.Output.Value) <= limit {
		return
	}
	whole := e.Output.Value
	if e.Truncation == nil {
		e.Truncation = wire.WholeText(whole)
	}
	e.Output = e.Output.Cut(wire.CutText(whole, limit))
}

// usage drops figures that no meter can have shown; an absent one was not measured.
func usage(u *wire.Usage) *wire.Usage {
	if u == nil {
		return nil
	}
	out := *u
	for _, n := range []**int64{&out.InputTokens, &out.OutputTokens, &out.TotalTokens} {
		if *n != nil && **n < 0 {
			*n = nil
		}
	}
	if c := out.Cost; c != nil && (!c.ValidAmount() || !c.ValidCurrency()) {
		out.Cost = nil
	}
	return &out
}

func cut(s string, limit int) string { return wire.CutText(wire.CleanText(s), limit) }
