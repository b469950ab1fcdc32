package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const acpxName = "acpx exec, through hearth connect"

// acpx runs one prompt with acpx and returns what it printed.
func (h *harness) acpx(t *testing.T, goal string, flags ...string) string {
	t.Helper()
	modules := required(t, envPeers, "it is what test/peers/install.sh prints")
	home := t.TempDir()
	keyFile := filepath.Join(home, "key")
	require.NoError(t, os.WriteFile(keyFile, []byte(steerKey+"\n"), 0o600))
	args := []string{filepath.Join(modules, "node_modules", "acpx", "dist", "cli.js"), "--agent", strings.Join(append(connectArgs(h), "--key-file", keyFile), " "), "--cwd", home}
	cmd := exec.CommandContext(t.Context(), "node", append(append(args, flags...), "exec", goal)...)
	cmd.Env = environ(home)
	said := &lines{}
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Run()
	t.Logf("%v: %v: %s", flags, err, said)
	return said.String()
}

// tryAcpx is what a command for one prompt can show.
func tryAcpx(t *testing.T, h *harness, a agent, seen *results) {
	assert.Contains(t, h.acpx(t, "say: hello from the agent", "--format", "text"), "hello from the agent", h.log)
	tool := h.acpx(t, a.tool, "--approve-all", "--format", "json")
	assert.Contains(t, tool, `completed`, h.log)
	refused := h.acpx(t, a.permit, "--deny-all", "--format", "json")
	assert.Contains(t, refused, `reject`, h.log)
	seen.add(row{acpxName, a.name}, "", []string{"yes", "yes", "yes", "yes", "yes", untried, untried, untried})
}
