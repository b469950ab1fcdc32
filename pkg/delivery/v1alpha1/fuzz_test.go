package v1alpha1

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wellFormed is what every refusal is: a known code with its status, in valid text.
func wellFormed(t *testing.T, p *Problem) {
	t.Helper()
	assert.Positive(t, p.Code.Status())
	assert.Equal(t, p.Code.Status(), p.Status)
	assert.NotEmpty(t, p.Detail)
	assert.True(t, utf8.ValidString(p.Detail) && utf8.ValidString(p.Field))
	assert.LessOrEqual(t, len(p.Field), maxPointer+len("…"))
}

// FuzzDecodeChallenge: what is accepted names a target within the limits and survives a round trip; what is not is well refused.
func FuzzDecodeChallenge(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"hearth.dev/delivery/v1alpha1","target":{"name":"a","uid":"b"}}`))
	f.Add([]byte(`{"apiVersion":"hearth.dev/delivery/v2","target":[]}`))
	f.Add([]byte(`{"apiVersion":"hearth.dev/delivery/v1alpha1","target":{"name":"a","uid":"b"}} x`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, p := DecodeChallenge(body)
		if p != nil {
			wellFormed(t, p)
			return
		}
		assert.True(t, r.Target.Name != "" && len(r.Target.Name) <= MaxNameBytes && r.Target.UID != "" && len(r.Target.UID) <= MaxUIDBytes)
		again, err := Encode(r)
		require.NoError(t, err)
		back, p := DecodeChallenge(again)
		require.Nil(t, p)
		assert.Equal(t, r, back)
	})
}

// FuzzDecodeAnswer: whatever a harness answers, reading it does not panic, an error repeats nothing of it, and what was read is
// written in the same bytes from then on.
func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"boot":"b","novel":{"x":1},"capacity":{"concurrency":2},"versions":["v"]}`))
	f.Add([]byte(`{"run":{"uid":"u"},"attempt":1,"state":"finished","acceptedAt":"2026-11-29T12:00:00Z","envelope":{"outcome":"Failed","usage":{"cost":{}}}}`))
	f.Add([]byte(`{"revision":7,"runs":[{"attempt":1},null],"more":true}`))
	f.Add([]byte(`{"status":429,"code":"busy","capacity":{"queued":-1}}`))
	f.Add([]byte(`{"attempt":"planted-text-in-a-wrong-place"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []func() any{
			func() any { return new(ChallengeAnswer) }, func() any { return new(Attempt) }, func() any { return new(Changes) },
			func() any { return new(Problem) }, func() any { return new(Envelope) },
		} {
			first, second := into(), into()
			if err := DecodeAnswer(body, first); err != nil {
				assert.NotContains(t, err.Error(), "planted")
				assert.True(t, utf8.ValidString(err.Error()))
				continue
			}
			once, err := Encode(first)
			if err != nil {
				continue // a time before year 0 or after 9999 can be read and not written (RFC 3339)
			}
			require.NoError(t, DecodeAnswer(once, second), "%s", once)
			twice, err := Encode(second)
			require.NoError(t, err)
			assert.Equal(t, string(once), string(twice))
		}
	})
}

// FuzzEnvelope: an envelope of any text is encoded as valid UTF-8 without NUL once cleaned, and read back as it was written.
func FuzzEnvelope(f *testing.F) {
	f.Add("done", "say", "end_turn", "s1", int64(5))
	f.Add("\xff\x00\xc3", strings.Repeat("ß\"<&>\u2028", 50), "\xed\xa0\x80", "", int64(-1))
	f.Fuzz(func(t *testing.T, output, message, stop, session string, n int64) {
		e := Envelope{
			APIVersion: ResultAPIVersion, Outcome: OutcomeFailed, Reason: ReasonRefused, Message: CleanText(message), StopReason: CleanText(stop),
			Session: CleanText(session), Output: &Output{MediaType: "text/plain", Value: CleanText(output)}, Usage: &Usage{TotalTokens: &n},
			Truncation: WholeText(output), Warnings: []string{CleanText(stop)},
		}
		encoded, err := Encode(e)
		require.NoError(t, err)
		assert.True(t, utf8.Valid(encoded))
		assert.False(t, bytes.Contains(encoded, []byte{0}) || bytes.Contains(encoded, []byte(`\u0000`)) && !strings.Contains(output+message+stop+session, `\u0000`))
		var back Envelope
		require.NoError(t, DecodeAnswer(encoded, &back))
		assert.Equal(t, e, back)
	})
}

// FuzzText: cutting keeps a prefix of whole runes, and cleaning twice is cleaning once.
func FuzzText(f *testing.F) {
	f.Add("süß", 2)
	f.Add("\xff\x00a", 0)
	f.Add("日本語", -4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		clean := CleanText(text)
		assert.True(t, utf8.ValidString(clean) && !strings.Contains(clean, "\x00"))
		assert.Equal(t, clean, CleanText(clean))
		cut := CutText(clean, limit)
		assert.True(t, strings.HasPrefix(clean, cut) && utf8.ValidString(cut))
		assert.LessOrEqual(t, len(cut), max(0, limit))
		if len(cut) < len(clean) {
			assert.Greater(t, len(cut)+utf8.UTFMax, limit, "no more than a rune is given up")
		}
	})
}

// FuzzHostname compares with the rule told another way (R25): the longest prefix of at most 63 characters that ends in neither.
func FuzzHostname(f *testing.F) {
	for _, name := range []string{"", "-", "reviewer-1", strings.Repeat("a", 64), strings.Repeat("a", 62) + "-b", strings.Repeat(".-", 40), strings.Repeat("ä", 40)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := Hostname(name)
		want := ""
		for end := 1; end <= len(name) && end <= 63; end++ {
			if last := name[end-1]; last != '-' && last != '.' {
				want = name[:end]
			}
		}
		assert.Equal(t, want, got)
		assert.Equal(t, got, Hostname(got))
	})
}
