package cluster

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as the administrator and returns its output, and its warnings and errors. It is the one of hack/cluster unless there is another in
// the PATH. root is the project's directory; input goes to its standard input.
func (c *Cluster) Kubectl(ctx context.Context, root, input string, args ...string) (out, problems string, err error) {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		assets, err := command(ctx, io.Discard, filepath.Join(root, "hack", "cluster", "cluster"), "assets")
		if err != nil {
			return "", "", err
		}
		program = filepath.Join(strings.TrimSpace(assets), "kubectl")
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...) // #nosec G204 -- a test's own arguments
	cmd.Stdin = strings.NewReader(input)
	var said strings.Builder
	cmd.Stderr = &said
	printed, err := cmd.Output()
	return string(printed), said.String(), err
}
