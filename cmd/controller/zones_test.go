package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R34: an image has no time zones, so the binary brings them.
func TestTheBinaryBringsItsTimeZones(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Deps " "}}`, ".").Output()
	require.NoError(t, err)
	assert.Contains(t, strings.Fields(string(out)), "time/tzdata")
}
