package peers

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// agent is one that the harness keeps, and what to say to it so that it does something.
type agent struct {
	name  string
	slow  bool // not part of every change
	start func(t *testing.T, model string) (command, env, args []string)

	tool, permit, endless string
}

const (
	envGoose    = "HEARTH_GOOSE"
	envPeers    = "HEARTH_PEERS"
	envOpencode = "HEARTH_OPENCODE"
)

var agents = []agent{
	{name: "goose acp", start: goose("acp"), tool: "shell: echo a-tool", permit: "shell: echo a-tool", endless: "say: begun ;; hang:"},
	{
		name: "goose serve", tool: "shell: echo a-tool", permit: "shell: echo a-tool", endless: "say: begun ;; hang:",
		start: func(t *testing.T, model string) (command, env, args []string) {
			return goose("serve", "--port", freePort(t))(t, model)
		},
	},
	{
		name: "scripted agent (test/agent)", tool: "tool: completed", permit: "permit: reject_once,allow_once", endless: "say: begun ;; slow: 100000",
		start: func(t *testing.T, _ string) (command, env, args []string) {
			return []string{agenttest.Build(t)}, nil, nil
		},
	},
	{name: "opencode acp", slow: true, start: opencode, tool: "shell: echo a-tool", permit: "shell: echo a-tool", endless: "say: begun ;; hang:"},
}

// goose is real goose with a scripted model.
func goose(arguments ...string) func(t *testing.T, model string) (command, env, args []string) {
	return func(t *testing.T, model string) ([]string, []string, []string) {
		t.Helper()
		link := filepath.Join(t.TempDir(), "goose")
		require.NoError(t, os.Symlink(required(t, envGoose, "it is the path of a goose binary, see hack/goose/install.sh"), link))
		return append([]string{link}, arguments...), []string{
			"GOOSE_PROVIDER=openai", "GOOSE_MODEL=test-model", "OPENAI_API_KEY=x", "OPENAI_HOST=" + model,
			"GOOSE_DISABLE_KEYRING=1", "GOOSE_TELEMETRY_OFF=1", "GOOSE_DISABLE_SESSION_NAMING=true",
		}, nil
	}
}

// freePort is one that nobody listens on; goose is told which to take.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// opencode is real opencode with a scripted model.
func opencode(t *testing.T, model string) (command, env, args []string) {
	t.Helper()
	dir := required(t, envOpencode, "it is what test/peers/install.sh opencode prints")
	config := `{"$schema":"x","model":"double/test-model","small_model":"double/test-model","autoupdate":false,"share":"disabled",
"permission":{"bash":"ask"},"provider":{"double":{"npm":"@ai-sdk/openai-compatible","name":"double",
"options":{"baseURL":"` + model + `/v1","apiKey":"x"},"models":{"test-model":{"name":"test-model"}}}}}`
	return []string{filepath.Join(dir, "node_modules", "opencode-linux-x64", "bin", "opencode"), "acp"},
		[]string{"OPENCODE_CONFIG_CONTENT=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
		[]string{"--start-timeout=60s"}
}
