package v1alpha1

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// SPEC.md, Resources: a later run of the same name has another Secret.
func TestRunSecretNameTellsTwoRunsOfOneNameApart(t *testing.T) {
	assert.Equal(t, "reviewer-1-01234567-harness", RunSecretName("reviewer-1", "01234567-89ab"))
	assert.NotEqual(t, RunSecretName("reviewer-1", "01234567-89ab"), RunSecretName("reviewer-1", "76543210-89ab"))
	assert.Equal(t, "r-u-harness", RunSecretName("r", "u"))
}
