package tell

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestThePlaceholdersOfATemplate(t *testing.T) {
	assert.Equal(t, []string{"change", "_b2"}, Placeholders("Review ${change} of ${_b2}, ${change}; $${literal} and ${not-one} and $x."))
	assert.Empty(t, Placeholders("Review it."))
}
