// Package agenttest gives tests the scripted agent and reads the side effects it left.
package agenttest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hearth-agent-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "agent")
	out, err := exec.Command("go", "build", "-o", path, "github.com/hearthdev/hearth/test/agent").CombinedOutput() //nolint:noctx,gosec // a build of our own
	if err != nil {
		_, _ = os.Stderr.Write(out)
	}
	return path, err
})

// Build returns the path of the scripted agent; it is built once in a test binary's life, into a temporary directory that
// Remove deletes.
func Build(t testing.TB) string {
	t.Helper()
	path, err := build()
	require.NoError(t, err, "build the scripted agent")
	return path
}

// Remove deletes what Build made; for the end of a TestMain.
func Remove() {
	if path, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// Effect is one started prompt.
type Effect struct {
	PID     int    `json:"pid"`
	Session string `json:"session"`
	Cwd     string `json:"cwd"`
	Blocks  int    `json:"blocks"`
	Goal    string `json:"goal"`
}

// Effects reads the file that AGENT_EFFECTS_FILE named; no file means no effects.
func Effects(t testing.TB, file string) []Effect {
	t.Helper()
	b, err := os.ReadFile(file) //nolint:gosec // a test's own file
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var effects []Effect
	for line := range strings.Lines(string(b)) {
		var e Effect
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		effects = append(effects, e)
	}
	return effects
}
