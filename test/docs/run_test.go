//go:build e2e

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/cluster"
)

// scriptLimit is the most that one script may take; the first builds what is not built.
const scriptLimit = 10 * time.Minute

// R56: all that the documentation marks as run, in the order in which a reader comes to it, on a real cluster, as it stands there.
func TestTheCommandsOfTheDocumentation(t *testing.T) {
	project, err := filepath.Abs(root)
	require.NoError(t, err)
	node, err := cluster.Ensure(t.Context(), project, os.Getenv, os.Stderr)
	require.NoError(t, err)
	env := environment(t, node, project)

	scripts := map[Script]string{}
	for _, s := range Scripts(read(t)) {
		scripts[Script{Page: s.Page, Name: s.Name}] = s.Bash()
	}
	for _, s := range Order {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
		bash := exec.CommandContext(ctx, "bash", "-x") //nolint:gosec // what our own pages say
		bash.Stdin, bash.Dir, bash.Env = strings.NewReader(scripts[s]), project, env
		out, err := bash.CombinedOutput()
		cancel()
		t.Logf("%s, %s: %s\n%s", s.Page, s.Name, time.Since(began).Round(time.Second), out)
		if err != nil {
			node.Explain(t.Context(), os.Stderr, cluster.SystemNamespace)
			t.Fatalf("%s, %s: %v", s.Page, s.Name, err)
		}
	}
}

// environment is a reader's: kubectl and hearth in the PATH, and the kubeconfig of make cluster-env, whose namespace the commands set
// until the test ends. Where it is somebody's own, the commands have a copy.
func environment(t *testing.T, node *cluster.Cluster, project string) []string {
	t.Helper()
	content, err := os.ReadFile(node.Kubeconfig)
	require.NoError(t, err)
	kubeconfig := node.Kubeconfig
	if os.Getenv("KUBECONFIG") == "" {
		t.Cleanup(func() { assert.NoError(t, os.WriteFile(kubeconfig, content, 0o600)) })
	} else {
		kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(kubeconfig, content, 0o600))
	}
	assets, err := exec.CommandContext(t.Context(), filepath.Join(project, "hack/cluster/cluster"), "assets").Output() //nolint:gosec // a script of ours
	require.NoError(t, err)
	path := strings.Join([]string{filepath.Join(project, "bin"), strings.TrimSpace(string(assets)), os.Getenv("PATH")}, ":")
	return append(os.Environ(), "KUBECONFIG="+kubeconfig, fmt.Sprintf("PATH=%s", path))
}
