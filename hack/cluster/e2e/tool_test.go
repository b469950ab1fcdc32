package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/hack/cluster/node"
)

// patience covers a start on a loaded machine; the binaries are built before.
const patience = 4 * time.Minute

// tool runs hack/cluster/cluster with a directory of the test's own.
type tool struct{ path, dir string }

// newTool skips, loudly, unless the machine may be used.
func newTool(t *testing.T) tool {
	t.Helper()
	if os.Getenv("HEARTH_CLUSTER_TEST") != "1" || os.Geteuid() != 0 {
		fmt.Fprintf(os.Stderr, "\n*** SKIPPED %s: it starts and kills real clusters; run it as root with HEARTH_CLUSTER_TEST=1\n\n", t.Name())
		t.Skip("needs root and HEARTH_CLUSTER_TEST=1")
	}
	_, err := os.Stat("/sys/class/net/" + node.Bridge)
	require.ErrorIs(t, err, os.ErrNotExist, "a cluster exists on this machine: make cluster-down first")
	path, err := filepath.Abs("../cluster")
	require.NoError(t, err)
	root, err := os.MkdirTemp("", "hearth-") //nolint:usetesting // paths of Unix sockets must stay short
	require.NoError(t, err)
	c := tool{path: path, dir: filepath.Join(root, "c")}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out, err := c.command(ctx, "down").CombinedOutput()
		if err != nil {
			t.Errorf("down after the test: %v\n%s", err, out)
		}
		_ = os.RemoveAll(root)
	})
	return c
}

func (c tool) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Env = append(os.Environ(), "HEARTH_CLUSTER_DIR="+c.dir)
	return cmd
}

// run returns what the tool printed and whether it succeeded.
func (c tool) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := c.command(t.Context(), args...).CombinedOutput()
	return string(out), err
}

func (c tool) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.run(t, args...)
	require.NoError(t, err, out)
	return out
}

// killWhen sends SIGKILL to `up` as soon as it says said.
func (c tool) killWhen(t *testing.T, said string) {
	t.Helper()
	cmd := c.command(t.Context(), "up")
	heard := &listener{said: said, heard: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = heard, heard
	require.NoError(t, cmd.Start())
	select {
	case <-heard.heard:
	case <-time.After(patience):
		t.Errorf("up never said %q", said)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL)) // the script has become the tool: one process
	_ = cmd.Wait()
}

// listener closes heard once a text was written to it.
type listener struct {
	mu    sync.Mutex
	said  string
	all   bytes.Buffer
	once  sync.Once
	heard chan struct{}
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	if strings.Contains(l.all.String(), l.said) {
		l.once.Do(func() { close(l.heard) })
	}
	return len(p), nil
}

// kubectl talks to the cluster under test.
func (c tool) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	assets, err := c.command(t.Context(), "assets").Output()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(assets)), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
