package crashpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What people install cannot be stopped at a crash point: the variable that would arm them is not in an ordinary binary, and is in one that
// is built for fault tests.
func TestAnOrdinaryBinaryHasNoCrashPoints(t *testing.T) {
	for tags, points := range map[string]bool{"": false, "faults": true} {
		program := filepath.Join(t.TempDir(), "harness")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-tags="+tags, "-o", program, "github.com/hearthdev/hearth/cmd/harness").CombinedOutput()
		require.NoError(t, err, string(out))
		binary, err := os.ReadFile(program) //nolint:gosec // just built
		require.NoError(t, err)
		assert.Equal(t, points, bytes.Contains(binary, []byte("CRASHPOINT_SOCKET")), "a build with tags %q", tags)
	}
}
