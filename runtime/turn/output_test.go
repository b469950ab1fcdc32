package turn

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Fault row 34: any bytes end as valid UTF-8 without NUL, cut on a rune, with the digest of the whole.
func TestTheOutputIsCleanedAndCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.say("a\xffb\\u0000c")
		whole := "a\uFFFDb\uFFFDc"
		part := strings.Repeat("é\\u0001", 100_000)
		for range 4 {
			s.say(part)
			whole += strings.Repeat("é\x01", 100_000)
		}
		s.end("end_turn")
		e := (<-s.done).envelope
		require.NotNil(t, e.Truncation)
		sum := sha256.Sum256([]byte(whole))
		assert.Equal(t, wire.Truncation{OriginalBytes: int64(len(whole)), SHA256: base64.RawURLEncoding.EncodeToString(sum[:])}, *e.Truncation)
		assert.True(t, strings.HasPrefix(whole, e.Output.Value))
		encoded, err := wire.Encode(e)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(encoded), wire.MaxEnvelopeBytes)
		assert.Greater(t, len(encoded), wire.MaxEnvelopeBytes/2)
	})
}

func TestAShortOutputIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.say("x")
		s.end("end_turn")
		assert.Nil(t, (<-s.done).envelope.Truncation)
	})
}
