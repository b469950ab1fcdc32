package v1alpha1

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// SPEC.md, Envelope: what is cut, in which order, and that the cut is told.
func TestAnEnvelopeIsCutInOrder(t *testing.T) {
	whole := Envelope{
		APIVersion: ResultAPIVersion, Outcome: OutcomeFailed, Reason: ReasonRefused, Message: "m", StopReason: "refusal", Session: "s",
		Output: &Output{MediaType: "text/plain", Value: "süß"}, Warnings: []string{"first", "second"},
	}
	assert.Equal(t, whole, whole.Fit(MaxTerminationBytes), "what fits stays as it is")

	long := func(s string) string { return strings.Repeat(s, MaxTerminationBytes/len(s)) }
	e := whole
	e.Output = &Output{MediaType: "text/plain", Value: long("ß")}
	got := e.Fit(MaxTerminationBytes)
	assert.Equal(t, WholeText(e.Output.Value), got.Truncation)
	assert.True(t, strings.HasPrefix(e.Output.Value, got.Output.Value))
	assert.InDelta(t, MaxTerminationBytes, encodedBytes(got), 1, "no more is given up than a rune")
	assert.Equal(t, []string{"m", "first", "second"}, append([]string{got.Message}, got.Warnings...), "only the output was cut")

	e.Output = &Output{MediaType: "application/json", Value: `"` + long("ß") + `"`}
	assert.Equal(t, "text/plain", e.Fit(MaxTerminationBytes).Output.MediaType, "what is left of JSON is none")
	e.Output.Value = `"ß"`
	assert.Equal(t, e.Output, e.Fit(MaxTerminationBytes).Output)

	e.Output = &Output{MediaType: "text/plain", Value: long("ß")}
	e.Truncation = &Truncation{OriginalBytes: 1 << 30, SHA256: "seen-by-who-cut-first"}
	assert.Equal(t, e.Truncation, e.Fit(MaxTerminationBytes).Truncation, "an earlier cut saw the whole")

	e = whole
	e.Warnings = []string{"first", long("w")}
	got = e.Fit(MaxTerminationBytes)
	assert.Nil(t, got.Output)
	assert.Equal(t, WholeText("süß"), got.Truncation, "an output that went is told")
	assert.Equal(t, []string{"first"}, got.Warnings, "then the last warnings")
	assert.Equal(t, "m", got.Message)

	e = whole
	e.Message = long("\x01")
	got = e.Fit(MaxTerminationBytes)
	assert.Nil(t, got.Warnings)
	assert.NotEmpty(t, got.Message, "then the message, as much as must be")
	assert.True(t, strings.HasPrefix(e.Message, got.Message))
	assert.Greater(t, encodedBytes(got), MaxTerminationBytes-len(`\u0000`))
	assert.Equal(t, "refusal", got.StopReason)

	e = whole
	e.StopReason, e.Session, e.Outcome = strings.Repeat("\x01", maxWord), strings.Repeat("\x01", MaxNameBytes), Outcome(strings.Repeat("\x01", maxWord))
	got = e.Fit(MaxTerminationBytes)
	assert.Empty(t, got.StopReason+got.Session+got.Message)
	assert.Equal(t, e.Outcome, got.Outcome)
}

func TestAnEnvelopeIsTidied(t *testing.T) {
	e := Envelope{
		Outcome: OutcomeSucceeded, Message: strings.Repeat("ä", maxMessage), Session: strings.Repeat("ß", 300), StopReason: "\xff\x00",
		Output: &Output{MediaType: "\x00", Value: "a\xffb"}, Warnings: []string{"\x00"}, Truncation: &Truncation{5, "no digest"},
		Usage: &Usage{Cost: &Cost{"-1", "usd"}}, Timing: Timing{StartedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	before := e
	got := e.Tidy()
	assert.Equal(t, before, e, "the argument is not changed")
	assert.Equal(t, Envelope{
		APIVersion: ResultAPIVersion, Outcome: OutcomeFailed, Reason: ReasonAgentError, Message: strings.Repeat("ä", maxMessage/2),
		Session: strings.Repeat("ß", MaxNameBytes/2), StopReason: "\uFFFD\uFFFD", Output: &Output{MediaType: "\uFFFD", Value: "a\uFFFDb"},
		Warnings: []string{"\uFFFD"}, Truncation: &Truncation{5, ""}, Usage: &Usage{},
	}, got, "an outcome without a reason is no success")
}

// FuzzFit: any envelope fits after Fit, in valid text without NUL, is read as it was written, and fitting twice is fitting once
// (row 34).
func FuzzFit(f *testing.F) {
	f.Add("Succeeded", "Completed", "done", "text/plain", "say", "end_turn", "s", "", 1)
	f.Add("", "", "\xff\x00\"<", "\xff", "\x00", "\x01", strings.Repeat("ß", 300), "EUR", 1<<19)
	f.Add("Failed", "Refused", "x", strings.Repeat("m", 1000), "", strings.Repeat("\x02", 1000), "", strings.Repeat("€", 1000), 1100)
	f.Fuzz(func(t *testing.T, outcome, reason, output, media, message, word, session, currency string, times int) {
		many := func(s string) string { return strings.Repeat(s, 1+min(max(0, times), (5<<18)/(1+len(s)))) }
		whole := Envelope{
			Outcome: Outcome(outcome), Reason: Reason(reason), Output: &Output{MediaType: many(media), Value: many(output)},
			Message: many(message), StopReason: many(word), Session: many(session), Warnings: []string{many(word)},
			Usage: &Usage{Cost: &Cost{Amount: many(currency), Currency: many(currency)}},
		}
		for _, limit := range []int{MaxEnvelopeBytes, MaxTerminationBytes} {
			e := whole.Fit(limit)
			encoded, err := Encode(e)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(encoded), limit)
			assert.Equal(t, encoded, mustEncode(e.Fit(limit)))
			var back Envelope
			require.NoError(t, DecodeAnswer(encoded, &back))
			assert.Equal(t, e, back, "what is stored is what is told")
			for _, text := range []string{back.Message, back.StopReason, back.Session, string(back.Outcome), string(back.Reason)} {
				assert.True(t, utf8.ValidString(text) && !strings.Contains(text, "\x00"))
			}
			if back.Output != nil {
				assert.NotContains(t, back.Output.Value+back.Output.MediaType, "\x00")
			}
		}
	})
}

// FuzzCutEncoded: a text's length within JSON is what the encoder makes of it, and a cut gives up no more than a rune.
func FuzzCutEncoded(f *testing.F) {
	f.Add("süß \"<&>\"\u2028\u007f\x01\b\f\n\r\t\\/日本語\U0001F600", 7)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = CleanText(text)
		quoted, err := jsontext.AppendQuote(nil, text)
		require.NoError(t, err)
		require.Equal(t, len(quoted)-2, quotedBytes(text))
		cut := CutEncoded(text, limit)
		assert.True(t, strings.HasPrefix(text, cut) && utf8.ValidString(cut))
		assert.LessOrEqual(t, quotedBytes(cut), max(0, limit))
		if len(cut) < len(text) {
			next, _ := utf8.DecodeRuneInString(text[len(cut):])
			assert.Greater(t, quotedBytes(cut)+quotedRune(next), limit)
		}
	})
}

// envelopes draws any envelope, text of any bytes included.
func envelopes(t *rapid.T) Envelope {
	text := func(label string) string {
		part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x01", "\"", "ß", "\xff", "\x00", "日", "\U0001F600", "x"}),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, label)
		return strings.Repeat(part, rapid.SampledFrom([]int{1, 1, 1, 30, 700, 5000}).Draw(t, label+" times"))
	}
	number := func(label string) *int64 { return rapid.Ptr(rapid.Int64(), true).Draw(t, label) }
	at := func(label string) time.Time {
		zone := time.FixedZone("", rapid.IntRange(-90000, 90000).Draw(t, label+" zone"))
		return time.Unix(rapid.Int64Range(math.MinInt64/4, math.MaxInt64/4).Draw(t, label), 1).In(zone)
	}
	e := Envelope{
		Outcome: rapid.SampledFrom([]Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeCancelled, OutcomeInterrupted}).Draw(t, "outcome"),
		Reason:  Reason(rapid.StringMatching(`[A-Z][A-Za-z]{0,60}`).Draw(t, "reason")),
		Message: text("message"), StopReason: text("stop"), Session: text("session"),
		Timing: Timing{at("started"), at("finished"), rapid.Int64().Draw(t, "millis")},
		Tools:  Tools{rapid.Int().Draw(t, "calls"), rapid.Int().Draw(t, "failed")},
	}
	if rapid.Bool().Draw(t, "has output") {
		e.Output = &Output{text("media"), text("output")}
	}
	if rapid.Bool().Draw(t, "has usage") {
		e.Usage = &Usage{number("input"), number("output tokens"), number("total"), &Cost{rapid.SampledFrom([]string{"1.5", "x"}).Draw(t, "amount"), "USD"}}
	}
	if rapid.Bool().Draw(t, "was cut") {
		e.Truncation = &Truncation{rapid.Int64().Draw(t, "original"), text("digest")}
	}
	for range rapid.IntRange(0, 20).Draw(t, "warnings") {
		e.Warnings = append(e.Warnings, text("warning"))
	}
	return e
}

// R11: in a Pod of many containers kubelet keeps less of each one's message. All that a harness says but its texts fits into the least.
func TestAnEnvelopeFitsIntoTheShareOfOneContainerOfMany(t *testing.T) {
	most, long := int64(math.MaxInt64), strings.Repeat("ß", MaxTerminationBytes)
	e := Envelope{
		Outcome: OutcomeInterrupted, Reason: ReasonDeadlineExceeded, Output: &Output{MediaType: "text/plain", Value: long}, Message: long,
		Usage:      &Usage{InputTokens: &most, OutputTokens: &most, TotalTokens: &most, Cost: &Cost{Amount: "999999999999999.999999999", Currency: "USD"}},
		Timing:     Timing{StartedAt: time.Unix(0, 1), FinishedAt: time.Unix(0, 1), DurationMillis: most},
		StopReason: long, Session: long, Warnings: []string{long}, Tools: Tools{Calls: math.MaxInt32, Failed: math.MaxInt32},
	}
	for limit, want := range map[int]int{1: MinTerminationBytes, MinTerminationBytes: MinTerminationBytes, 2457: 2457, MaxTerminationBytes: MaxTerminationBytes, MaxEnvelopeBytes: MaxTerminationBytes} {
		b := EncodeTerminationWithin(e, limit)
		assert.LessOrEqual(t, len(b), want)
		got, err := DecodeTermination(b)
		require.NoError(t, err, "%s", b)
		assert.Equal(t, e.Usage, got.Usage)
		assert.Equal(t, WholeText(long), got.Truncation)
	}
}

// R11: any envelope is left as valid JSON of at most 4,096 bytes, that says how the run ended and what was cut.
func TestAnyEnvelopeIsATerminationMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := envelopes(t)
		b := EncodeTermination(e)
		require.LessOrEqual(t, len(b), MaxTerminationBytes)
		require.True(t, jsontext.Value(b).IsValid(), "%q", b)
		require.False(t, bytes.Contains(b, []byte("�")) && allClean(e), "a rune was split: %q", b)
		got, err := DecodeTermination(b)
		require.NoError(t, err, "%s", b)
		require.Equal(t, e.Outcome, got.Outcome)
		require.Equal(t, e.Reason, got.Reason)
		require.Equal(t, string(b), string(mustEncode(got)), "what is read is what was left")
		if e.Output == nil || e.Output.Value == "" {
			return
		}
		whole := CleanText(e.Output.Value)
		kept := ""
		if got.Output != nil {
			kept = got.Output.Value
		}
		require.True(t, strings.HasPrefix(whole, kept))
		switch {
		case e.Truncation != nil:
			require.Equal(t, e.Truncation.OriginalBytes, got.Truncation.OriginalBytes)
		case len(kept) < len(whole):
			require.Equal(t, WholeText(whole), got.Truncation)
		default:
			require.Nil(t, got.Truncation)
		}
	})
}

// allClean tells whether no text of an envelope has a replacement character, or bytes that become one.
func allClean(e Envelope) bool {
	all := e.Message + e.StopReason + e.Session + strings.Join(e.Warnings, "")
	if e.Output != nil {
		all += e.Output.MediaType + e.Output.Value
	}
	return !strings.Contains(CleanText(all), "�")
}

// SPEC.md, JSON output: what is left of JSON is text, in whatever case its media type was written.
func TestHalfOfAJSONIsText(t *testing.T) {
	for _, media := range []string{"application/json", "Application/JSON"} {
		whole := Output{MediaType: media, Value: `{"a":1}`}
		assert.Equal(t, &whole, whole.Cut(whole.Value))
		assert.Equal(t, &Output{MediaType: "text/plain", Value: `{"a"`}, whole.Cut(`{"a"`))
	}
}
