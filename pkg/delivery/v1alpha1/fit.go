package v1alpha1

import (
	"regexp"
	"slices"
	"sync"
	"time"
)

// What an envelope's texts but its output and its warnings may be long once it is tidy, in bytes.
const (
	maxMessage = 32 << 10
	maxWord    = 256 // outcome, reason, stop reason, media type
)

var digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// ValidSHA256: the digest looks like base64url, and is short; an empty one is none.
func (t Truncation) ValidSHA256() bool { return digestPattern().MatchString(t.SHA256) }

// Tidy makes any envelope a valid one (SPEC.md, Envelope): it has the version, an outcome and a reason (what has none is
// Failed/AgentError), every text is valid and without NUL, all but the output and the warnings are short, and times, costs and
// digests that are none are left out.
func (e Envelope) Tidy() Envelope {
	word := func(s string) string { return CutText(CleanText(s), maxWord) }
	e.APIVersion = ResultAPIVersion
	e.Outcome, e.Reason, e.StopReason = Outcome(word(string(e.Outcome))), Reason(word(string(e.Reason))), word(e.StopReason)
	if e.Outcome == "" || e.Reason == "" {
		e.Outcome, e.Reason = OutcomeFailed, ReasonAgentError
	}
	e.Message = CutText(CleanText(e.Message), maxMessage)
	e.Session = CutText(CleanText(e.Session), MaxNameBytes)
	e.Timing.StartedAt, e.Timing.FinishedAt = tidyTime(e.Timing.StartedAt), tidyTime(e.Timing.FinishedAt)
	if e.Output != nil {
		e.Output = &Output{MediaType: word(e.Output.MediaType), Value: CleanText(e.Output.Value)}
	}
	e.Warnings = slices.Clone(e.Warnings)
	for i, w := range e.Warnings {
		e.Warnings[i] = CleanText(w)
	}
	if e.Usage != nil && e.Usage.Cost != nil && (!e.Usage.Cost.ValidAmount() || !e.Usage.Cost.ValidCurrency()) {
		usage := *e.Usage
		usage.Cost = nil
		e.Usage = &usage
	}
	if t := e.Truncation; t != nil {
		e.Truncation = &Truncation{OriginalBytes: t.OriginalBytes}
		if t.ValidSHA256() {
			e.Truncation.SHA256 = t.SHA256
		}
	}
	return e
}

// tidyTime: what RFC 3339 cannot write is no time.
func tidyTime(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// Fit makes any envelope a tidy one of at most limit bytes, encoded; limit is at least MinTerminationBytes. What does not fit is
// cut in this order: the output, of which Truncation then tells the whole (what an earlier cut told stands, because it saw the
// whole); warnings, from the last; the message; stop reason and session. Texts are cut between two runes.
func (e Envelope) Fit(limit int) Envelope {
	e = e.Tidy()
	for _, cut := range []func(e *Envelope, over int){cutOutput, cutWarnings, cutMessage} {
		over := encodedBytes(e) - limit
		if over <= 0 {
			return e
		}
		cut(&e, over)
	}
	if encodedBytes(e) > limit {
		e.StopReason, e.Session = "", ""
	}
	return e
}

func cutOutput(e *Envelope, over int) {
	if e.Output == nil {
		return
	}
	if e.Truncation == nil {
		before := encodedBytes(*e)
		e.Truncation = WholeText(e.Output.Value)
		over += encodedBytes(*e) - before
	}
	short := CutEncoded(e.Output.Value, quotedBytes(e.Output.Value)-over)
	if e.Output = e.Output.Cut(short); short == "" {
		e.Output = nil
	}
}

func cutWarnings(e *Envelope, over int) {
	for n := len(e.Warnings); n > 0 && over > 0; n = len(e.Warnings) {
		over -= quotedBytes(e.Warnings[n-1]) + len(`"",`)
		e.Warnings = e.Warnings[:n-1]
	}
	if len(e.Warnings) == 0 {
		e.Warnings = nil
	}
}

func cutMessage(e *Envelope, over int) {
	e.Message = CutEncoded(e.Message, quotedBytes(e.Message)-over)
}

// encodedBytes is how long a tidy envelope is, encoded.
func encodedBytes(e Envelope) int { return len(mustEncode(e)) }

func mustEncode(e Envelope) []byte {
	b, err := Encode(e)
	if err != nil {
		panic(err) // a tidy envelope always encodes
	}
	return b
}
