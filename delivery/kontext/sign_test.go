package kontext

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, The older contract: known answers that another tool computed; the file says how.
func TestSignaturesAreTheKnownOnes(t *testing.T) {
	raw, err := os.ReadFile("testdata/signatures.json")
	require.NoError(t, err)
	var file struct {
		Cases []struct{ Name, Token, Challenge, RunUID, Body, Signature string }
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	require.Len(t, file.Cases, 4)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			assert.Equal(t, c.Signature, Sign([]byte(c.Token), c.Challenge, c.RunUID, []byte(c.Body)))
			others := []string{
				Sign([]byte(c.Token+"x"), c.Challenge, c.RunUID, []byte(c.Body)), Sign([]byte(c.Token), c.Challenge+"x", c.RunUID, []byte(c.Body)),
				Sign([]byte(c.Token), c.Challenge, c.RunUID+"x", []byte(c.Body)), Sign([]byte(c.Token), c.Challenge, c.RunUID, []byte(c.Body+" ")),
			}
			assert.NotContains(t, others, c.Signature, "token, challenge, run and body are all in it")
		})
	}
}
