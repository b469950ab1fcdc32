package conformance

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
	"github.com/hearthdev/hearth/test/harness"
)

const podUID = "pod-uid-1"

// place is where a runtime's processes run one after the other on one port and one directory: a Pod.
type place struct {
	dir, pod, address string
}

func newPlace(t *testing.T) place {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = free.Close() }()
	return place{dir: t.TempDir(), pod: name, address: free.Addr().String()}
}

func (p place) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600))
}

// options start a runtime, given its command line and more of its environment, and tell how to restart, drain and start it. The
// commands are those that a stranger would give.
func (p place) options(t *testing.T, command, environ string) Options {
	t.Helper()
	ours := fmt.Sprintf("export HEARTH_ACP_LISTEN=127.0.0.1:0 %s\n", environ)
	p.write(t, "run.sh", fmt.Sprintf("unset $(env | sed -n 's/^\\(HEARTH_[A-Z_]*\\)=.*/\\1/p')\nexport POD_NAMESPACE=team POD_NAME=%s POD_UID=%s HEARTH_DELIVERY_TOKEN=%s HEARTH_DELIVERY_LISTEN=%s HEARTH_DATA_DIR=%s\n%s exec %s\n",
		p.pod, podUID, harness.Root, p.address, p.dir, ours, command))
	p.write(t, "up.sh", fmt.Sprintf("cd %s\nsh run.sh >>log 2>&1 </dev/null &\necho $! >pid\n", p.dir))
	p.write(t, "another.sh", fmt.Sprintf("export HEARTH_DELIVERY_LISTEN=127.0.0.1:0 HEARTH_DATA_DIR=$(mktemp -d %s/data-XXXXXX)\n%s exec %s >>%s/log 2>&1\n", p.dir, ours, command, p.dir))
	// A killed process holds its port and its journal for a moment yet.
	p.write(t, "kill.sh", fmt.Sprintf("pid=$(cat %s/pid)\nkill -9 $pid 2>/dev/null\nwhile grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.02; done\n", p.dir))
	up, kill := "sh "+p.dir+"/up.sh", "sh "+p.dir+"/kill.sh; "
	require.NoError(t, Command(up)(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, Command(kill+"true")(context.Background())) //nolint:usetesting // the test's own context is over
		if log, _ := os.ReadFile(filepath.Join(p.dir, "log")); t.Failed() {
			t.Logf("%s", log)
		}
	})
	target, err := url.Parse("http://" + p.address)
	require.NoError(t, err)
	o := Options{
		Target: target, Identity: wire.Identity{Namespace: "team", PodName: p.pod, PodUID: podUID}, Root: harness.Root,
		Restart: Command(kill + up), Drain: Command("kill -TERM $(cat " + p.dir + "/pid)"), Start: Starter("sh " + p.dir + "/another.sh"),
	}
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", p.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, DefaultPatience, pollEvery, "it listens")
	return o
}

// neverSays looks for secrets in what a runtime wrote.
func (p place) neverSays(t *testing.T, secrets ...string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	require.NoError(t, err)
	for _, s := range secrets {
		assert.NotContains(t, string(log), s, "I8")
	}
}

// R57: the real harness with an agent passes, over TLS and without.
func TestOurHarnessPasses(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "harness")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/hearthdev/hearth/cmd/harness").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(agenttest.Remove)
	agent := agenttest.Build(t)
	for scheme, notApplicable := range map[wire.Scheme]string{wire.SchemeHTTP: "https targets only", wire.SchemeHTTPS: ""} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			o := p.options(t, binary+" serve -- "+agent, "HEARTH_DELIVERY_SCHEME="+string(scheme))
			o.Target.Scheme = strings.ToLower(string(scheme))
			o.GoalQuick, o.GoalSlow = "say: ok ;; usage: 1 1", "slow: 8 ;; usage: 1 1"
			passes(t, run(t, o), notApplicable)
			p.neverSays(t, harness.Root, "say: ok", "slow: 8")
		})
	}
}

// maxExample is what examples/runtime-python may have, in lines.
const maxExample = 400

// R57: a foreign runtime passes, which is what a stranger's would look like.
func TestTheExampleInPythonPasses(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/runtime-python")
	require.NoError(t, err)
	lines := 0
	files, err := filepath.Glob(example + "/*.py")
	require.NoError(t, err)
	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		lines += strings.Count(string(content), "\n")
	}
	assert.Less(t, lines, maxExample)
	p := newPlace(t)
	o := p.options(t, "python3 "+example+"/runtime.py serve -- python3 "+example+"/agent.py", "PYTHONDONTWRITEBYTECODE=1 HEARTH_DELIVERY_SCHEME=HTTP")
	o.GoalSlow = "sleep 8"
	passes(t, run(t, o), "https targets only")
	p.neverSays(t, harness.Root, "sleep 8")
}
