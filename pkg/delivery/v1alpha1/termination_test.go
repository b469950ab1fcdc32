package v1alpha1

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R11: what a foreign image left is no envelope of ours, and what a newer harness of this version left is.
func TestOnlyAnEnvelopeOfThisVersionIsReadAsTerminationMessage(t *testing.T) {
	const good = `{"apiVersion":"hearth.dev/result/v1alpha1","outcome":"Succeeded","reason":"Completed"}`
	e, err := DecodeTermination([]byte(" " + good + "\n"))
	require.NoError(t, err)
	assert.Equal(t, OutcomeSucceeded, e.Outcome)
	e, err = DecodeTermination([]byte(strings.Replace(good, `{`, `{"novel":{"x":[1]},"output":{"mediaType":"a","value":"\u0000"},"usage":{"cost":{"amount":"much","currency":"USD"}},`, 1)))
	require.NoError(t, err)
	assert.Equal(t, "\uFFFD", e.Output.Value, "what was read is tidy")
	assert.Nil(t, e.Usage.Cost)

	for name, message := range map[string]string{
		"nothing":         "",
		"text":            "OOM while planting",
		"null":            "null",
		"a list":          "[" + good + "]",
		"no version":      `{"outcome":"Succeeded","reason":"Completed"}`,
		"another version": strings.Replace(good, "v1alpha1", "v2", 1),
		"the older one":   strings.Replace(good, "hearth", "kontext", 1),
		"no outcome":      strings.Replace(good, `"outcome":"Succeeded",`, "", 1),
		"unknown outcome": strings.Replace(good, `Succeeded`, "planting", 1),
		"no reason":       strings.Replace(good, `,"reason":"Completed"`, "", 1),
		"two":             good + good,
		"the first half":  good[:len(good)/2],
		"a field twice":   strings.Replace(good, `{`, `{"outcome":"Failed",`, 1),
		"bad UTF-8":       strings.Replace(good, `Completed`, "Completed\xff", 1),
		"another type":    strings.Replace(good, `{`, `{"message":["planting"],`, 1),
		"too long":        strings.Replace(good, `{`, `{"message":"`+strings.Repeat("m", MaxTerminationBytes)+`",`, 1),
	} {
		_, err := DecodeTermination([]byte(message))
		require.ErrorContains(t, err, "termination message: ", name)
		assert.NotContains(t, err.Error(), "planting", name)
	}
}

// FuzzDecodeTermination: whatever a container left, reading it does not panic, and what is read as an envelope is tidy, says how
// the run ended, and can be left again.
func FuzzDecodeTermination(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"hearth.dev/result/v1alpha1","outcome":"Failed","reason":"x","timing":{"startedAt":"0000-01-01T00:00:00+23:59"},"warnings":["\u0000",""],"novel":1}`))
	f.Add(EncodeTermination(Envelope{Outcome: OutcomeCancelled, Reason: ReasonCancelled, Message: strings.Repeat("\x01", MaxTerminationBytes)}))
	f.Add([]byte("exit status 1"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e, err := DecodeTermination(message)
		if err != nil {
			assert.Zero(t, e)
			return
		}
		assert.NotEmpty(t, e.Outcome)
		assert.NotEmpty(t, e.Reason)
		again, err := DecodeTermination(EncodeTermination(e))
		require.NoError(t, err)
		assert.Equal(t, e.Outcome, again.Outcome)
		assert.Equal(t, e.Reason, again.Reason)
	})
}
