package conformance

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md and the kit name the same requirements, each once and in the same order.
func TestEveryIDOfTheSpecificationHasACaseAndTheOtherWayRound(t *testing.T) {
	text, err := os.ReadFile("../../SPEC.md")
	require.NoError(t, err)
	var specified, cased []string
	for _, m := range regexp.MustCompile(`\[([A-Z]-[0-9]+)\]`).FindAllStringSubmatch(string(text), -1) {
		specified = append(specified, m[1])
	}
	require.NotEmpty(t, specified)
	specified = specified[1:] // the example in the sentence that says what IDs are
	for _, c := range Cases() {
		cased = append(cased, c.ID)
		assert.NotEmpty(t, c.Title, c.ID)
	}
	assert.Equal(t, specified, cased)
}
