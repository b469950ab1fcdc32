package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hearthdev/hearth/runtime/check"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// checked runs harness check -o json and returns its points by name and its exit code.
func checked(t *testing.T, p *place, env []string, args ...string) (map[string]check.Point, int) {
	t.Helper()
	if len(args) == 0 {
		args = append([]string{"--"}, p.command...)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"check", "-o", "json"}, args...)...)
	cmd.Env = withEnv(p.environ(), env)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // the code says it
	assert.NotContains(t, string(out)+stderr.String(), "secret-", "no secret is shown")
	assert.NotContains(t, string(out)+stderr.String(), "goroutine", "no stack")
	var report struct {
		OK     bool
		Points []check.Point
	}
	if code := cmd.ProcessState.ExitCode(); code == exitUsage {
		assert.Empty(t, out)
		return map[string]check.Point{"usage": {Found: stderr.String()}}, code
	}
	require.NoError(t, json.Unmarshal(out, &report), "%s%s", out, stderr.String())
	points := map[string]check.Point{}
	for _, point := range report.Points {
		points[point.Name] = point
	}
	assert.Len(t, points, len(report.Points), "each name once")
	assert.Equal(t, report.OK, cmd.ProcessState.ExitCode() == exitOK)
	return points, cmd.ProcessState.ExitCode()
}

// SPEC.md, harness check: a good set-up is ok, by stdin and stdout, by a server of ours, and by one beside it.
func TestCheckFindsNothingWrongWithAGoodSetup(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	p := newPlace(t)
	goalFile := filepath.Join(t.TempDir(), "goal")
	require.NoError(t, os.WriteFile(goalFile, []byte("x"), 0o600))
	env := []string{
		"HEARTH_ACP_VIEW_KEY=secret-view-0123456789-0123456789-0123456789", "HEARTH_GOAL_FILE=" + goalFile, "HEARTH_TERMINATION_BYTES=2048",
		"OPENAI_API_KEY=secret-provider", "HEARTH_DRAIN=3s",
	}
	agent := agenttest.Build(t)
	for name, args := range map[string][]string{
		"stdin and stdout": {"--", agent},
		"a server of ours": {"--endpoint=ws://" + address, "--", agent, "serve", address},
	} {
		points, code := checked(t, p, env, args...)
		assert.Equal(t, 0, code, name)
		for _, point := range points {
			assert.NotEqual(t, check.Failed, point.State, "%s: %+v", name, point)
		}
		assert.Contains(t, points["identity"].Found, "Pod team/"+p.Identity.PodName)
		assert.Contains(t, points["secrets"].Found, "OPENAI_API_KEY")
		assert.Contains(t, points["initialize"].Found, "scripted 1.0.0")
		assert.Contains(t, points["session"].Found, "and closed")
		assert.Equal(t, check.OK, points["SIGTERM"].State, "%s: %+v", name, points["SIGTERM"])
	}

	beside := exec.CommandContext(t.Context(), agent, "serve", address)
	beside.Env = []string{"GOOSE_SERVER__SECRET_KEY=secret-goose"}
	require.NoError(t, beside.Start())
	points, code := checked(t, p, append(env, "GOOSE_SERVER__SECRET_KEY=secret-goose"), "--endpoint=ws://"+address)
	assert.Equal(t, 0, code)
	assert.Equal(t, check.OK, points["session"].State)
	assert.Equal(t, check.Skipped, points["SIGTERM"].State)
	points, code = checked(t, p, append(env, "GOOSE_SERVER__SECRET_KEY=secret-other"), "--endpoint=ws://"+address)
	assert.Equal(t, 1, code)
	assert.Contains(t, points["agent starts"].Found, "refused the key")
	require.NoError(t, beside.Process.Kill())
	_ = beside.Wait()

	left, err := filepath.Glob(filepath.Join(p.Dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, left, "the data directory is as it was")
}

// Each kind of broken set-up fails at its own point, and the others are told all the same.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o700)) //nolint:gosec // it is to look executable
	agent := agenttest.Build(t)
	sh := func(script string) []string { return []string{"--", "/bin/sh", "-c", script} }
	for name, c := range map[string]struct {
		env   []string
		args  []string
		point string
		state check.State // failed unless set
		says  string
	}{
		"unknown variable":      {env: []string{"HEARTH_QUUE=1", "HEARTH_DRIAN=1s"}, point: "variables", says: "HEARTH_DRIAN: "},
		"a value that is none":  {env: []string{"HEARTH_DRAIN=soon"}, point: "variables", says: "HEARTH_DRAIN: expected a duration"},
		"a setting":             {env: []string{"HEARTH_QUEUE=-1"}, point: "settings", says: "--queue (HEARTH_QUEUE)"},
		"a policy":              {env: []string{"HEARTH_PERMISSIONS=Perhaps"}, point: "settings", says: "--permissions"},
		"an endpoint":           {args: []string{"--endpoint=ws://secret-user@127.0.0.1:1"}, point: "settings", says: "HEARTH_ENDPOINT"},
		"no Pod name":           {env: []string{"POD_NAME="}, point: "identity", says: "POD_NAME"},
		"another hostname":      {env: []string{"POD_NAME=another"}, point: "identity", says: "hostname: expected"},
		"a short root secret":   {env: []string{envToken + "=short"}, point: "identity", says: "at least 32 bytes"},
		"a short key":           {env: []string{"HEARTH_ACP_STEER_KEY=short"}, point: "keys of people", says: "HEARTH_ACP_STEER_KEY"},
		"a copied secret":       {env: []string{"COPY=x" + token}, point: "secrets", says: "COPY has the value of HEARTH_DELIVERY_TOKEN"},
		"a secret as argument":  {args: []string{"--", agent, token}, point: "secrets", says: "command line"},
		"a data directory":      {env: []string{"HEARTH_DATA_DIR=" + file}, point: "data directory", says: file},
		"a temporary directory": {env: []string{"TMPDIR=/proc/none"}, point: "temporary files", says: "/proc/none"},
		"a port in use":         {env: []string{"HEARTH_ACP_LISTEN=" + taken.Addr().String()}, point: "port of people", says: "in use"},
		"delivery's in use":     {env: []string{"HEARTH_DELIVERY_LISTEN=" + taken.Addr().String()}, point: "port of delivery", says: "in use"},
		"no such command":       {args: []string{"--", "no-such-agent"}, point: "agent command", says: "not in PATH"},
		"no program":            {args: []string{"--", file}, point: "agent command", says: "exec format error"},
		"libraries":             {args: sh("echo 'error while loading shared libraries: libx.so.1' >&2; exit 127"), point: "initialize", says: "ldd"},
		"no protocol":           {args: append([]string{"--start-timeout=2s"}, sh("echo hello; exec cat >/dev/null")...), point: "agent's output", state: check.Warning, says: "1 lines"},
		"mute":                  {args: []string{"--start-timeout=300ms", "--", "/bin/sleep", "1000"}, point: "initialize", says: "no answer within 300ms"},
		"another version":       {env: []string{"AGENT_PROTOCOL=2"}, point: "initialize", says: "protocolVersion 2; expected 1"},
		"no session":            {env: []string{"AGENT_SESSIONS=fail"}, point: "session", says: "authentication required"},
		"a deaf child":          {args: sh("trap '' TERM; sleep 1000 & exec " + agent), point: "SIGTERM", state: check.Warning, says: "left something"},
		"a server that is none": {args: []string{"--start-timeout=300ms", "--endpoint=ws://127.0.0.1:1"}, point: "agent starts", says: "connection refused"},
		"root":                  {point: "user", state: check.Warning, says: "runAsNonRoot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "root" && os.Geteuid() != 0 {
				t.Skip("not root")
			}
			points, code := checked(t, newPlace(t), c.env, c.args...)
			state := c.state
			if state == "" {
				state = check.Failed
				assert.Equal(t, 1, code)
			}
			assert.Equal(t, state, points[c.point].State, "%+v", points)
			assert.Contains(t, points[c.point].Found+points[c.point].Do, c.says)
			for point, p := range points { // and nothing else failed, but what comes of it
				follows := point == c.point || point == "initialize" || point == "SIGTERM" || strings.HasPrefix(name, "a temporary")
				assert.True(t, p.State != check.Failed || follows, "%s: %+v", point, p)
			}
			assert.Len(t, points, 20, "all points are told")
		})
	}
}

// Points that could not be looked at send the reader to the one that says what is wrong.
func TestCheckSaysWhyAnAgentWasNotTried(t *testing.T) {
	for why, args := range map[string][]string{
		"not tried: the settings are wrong":              {"--permissions=Perhaps", "--", agenttest.Build(t)},
		"not tried: the agent command cannot be started": {"--", "no-such-agent"},
	} {
		points, _ := checked(t, newPlace(t), nil, args...)
		assert.Equal(t, check.Point{Name: "session", State: check.Skipped, Found: why}, points["session"])
	}
}

func TestCheckRefusesWrongFlags(t *testing.T) {
	for says, args := range map[string][]string{
		"no agent command": {"--queue=1"}, "unknown flag": {"--quue", "--", "x"}, "expected table or json": {"-o", "yaml", "--", "x"},
	} {
		points, code := checked(t, newPlace(t), nil, args...)
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, points["usage"].Found, says)
	}
}

// As the first process of a container, a table for people.
func TestCheckAsTheFirstProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a process namespace of its own needs root")
	}
	p := newPlace(t)
	run := func(how string) string {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && `+how+` "$@"`, "sh", binary, "check", "--", p.command[0])
		cmd.Env = p.environ()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Skipf("process namespaces are not allowed here: %s", err)
		}
		assert.Equal(t, 0, cmd.ProcessState.ExitCode(), "%s", out)
		return string(out)
	}
	out := run("exec")
	assert.Regexp(t, `PID 1 +ok +is the harness; orphans are reaped`, out)
	assert.Regexp(t, `root file system +warning +can be written to`, out)
	assert.Regexp(t, `\n\d+ ok, \d+ warnings, 0 failed, \d+ skipped\n$`, out)
	assert.Regexp(t, `PID 1 +warning +is a shell`, run(""))
}

// With real goose, both ways.
func TestCheckWithRealGoose(t *testing.T) {
	p := newPlace(t)
	realGoose(t, p)
	points, code := checked(t, p, nil)
	assert.Equal(t, 0, code, "%+v", points)
	assert.Contains(t, points["initialize"].Found, "protocolVersion 1; goose 1.")
	assert.Contains(t, points["initialize"].Found, "session/load")
	for _, name := range []string{"CA certificates", "/bin/sh", "agent starts", "session", "agent's output", "SIGTERM"} {
		assert.Equal(t, check.OK, points[name].State, "%+v", points[name])
	}
	points, code = checked(t, p, nil, "--", p.command[0], "serve", "--port=3285")
	assert.Equal(t, 0, code, "%+v", points)
	assert.Equal(t, check.OK, points["agent's output"].State)
	points, code = checked(t, p, nil, "--start-timeout=10s", "--", p.command[0])
	assert.Equal(t, 1, code)
	assert.Contains(t, points["initialize"].Do, "goose acp, not goose")
}
