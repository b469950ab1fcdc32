package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/turn"
)

// Each wrong input gets one clear message that names what is wrong and what was expected, and a code.
func TestBadInputGetsOneClearMessage(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(big, []byte(strings.Repeat("g", wire.MaxGoalBytes+1)), 0o600))
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for name, c := range map[string]struct {
		args []string // instead of serve -- agent
		env  []string
		code int
		says []string
	}{
		"no command":             {args: []string{}, code: 2, says: []string{"expected serve, run, check or version"}},
		"unknown command":        {args: []string{"server"}, code: 2, says: []string{`"server"`, "expected serve, run, check or version"}},
		"unknown flag":           {args: []string{"serve", "--quue=1"}, code: 2, says: []string{"unknown flag: --quue", "usage:"}},
		"no agent command":       {args: []string{"serve"}, code: 2, says: []string{"no agent command", "goose acp", "--endpoint"}},
		"endpoint elsewhere":     {env: []string{"HEARTH_ENDPOINT=ws://10.0.0.1:4001/acp"}, code: 1, says: []string{"--endpoint (HEARTH_ENDPOINT): host: ", "on a loopback address"}},
		"endpoint of a name":     {env: []string{"HEARTH_ENDPOINT=ws://agent.team.svc:4001/acp"}, code: 1, says: []string{"HEARTH_ENDPOINT", "host: "}},
		"endpoint with a user":   {env: []string{"HEARTH_ENDPOINT=ws://" + token + "@127.0.0.1:4001/acp"}, code: 1, says: []string{"HEARTH_ENDPOINT", "user: "}},
		"endpoint with a token":  {args: []string{"serve", "--endpoint=ws://127.0.0.1:4001/acp?token=" + token}, code: 1, says: []string{"HEARTH_ENDPOINT", "query: ", "given as GOOSE_SERVER__SECRET_KEY"}},
		"endpoint of another":    {args: []string{"serve", "--endpoint=ws://127.0.0.1:4001/acp", "--", "goose", "serve", "--port=4002"}, code: 1, says: []string{"HEARTH_ENDPOINT", "expected ws://127.0.0.1:4002/acp", "got ws://127.0.0.1:4001/acp"}},
		"server for everybody":   {args: []string{"serve", "--", "goose", "serve", "--host", "0.0.0.0"}, code: 1, says: []string{"--host and --port of goose serve: host: "}},
		"endpoint and several":   {args: []string{"serve", "--endpoint=ws://127.0.0.1:4001/acp", "--concurrency=2"}, code: 1, says: []string{"--concurrency (HEARTH_CONCURRENCY)", "expected 1", "got 2"}},
		"endpoint's key":         {args: []string{"serve", "--endpoint=ws://127.0.0.1:4001/acp"}, env: []string{"GOOSE_SERVER__SECRET_KEY=a key"}, code: 1, says: []string{"GOOSE_SERVER__SECRET_KEY", "visible ASCII"}},
		"agent not found":        {args: []string{"serve", "--", "no-such-agent"}, code: 1, says: []string{`"no-such-agent"`, "PATH"}},
		"agent is no program":    {args: []string{"serve", "--", big}, code: 1, says: []string{big, "not an executable file"}},
		"unknown variable":       {env: []string{"HEARTH_QUUE=1"}, code: 1, says: []string{"HEARTH_QUUE", "nearest is HEARTH_QUEUE"}},
		"misspelt secret":        {env: []string{"HEARTH_DELIVERY_TOKN=" + token}, code: 1, says: []string{"nearest is HEARTH_DELIVERY_TOKEN"}},
		"number that is none":    {env: []string{"HEARTH_CONCURRENCY=many"}, code: 1, says: []string{"HEARTH_CONCURRENCY", "expected a whole number"}},
		"number out of range":    {args: []string{"serve", "--concurrency=0", "--", "x"}, code: 1, says: []string{"--concurrency (HEARTH_CONCURRENCY)", "from 1 to 64"}},
		"duration that is none":  {env: []string{"HEARTH_DRAIN=soon"}, code: 1, says: []string{"HEARTH_DRAIN", "expected a duration such as 90s", "soon"}},
		"duration out of range":  {env: []string{"HEARTH_SILENCE=0s"}, code: 1, says: []string{"HEARTH_SILENCE", "positive duration"}},
		"permissions":            {env: []string{"HEARTH_PERMISSIONS=Perhaps"}, code: 1, says: []string{"--permissions", "Deny, Allow or Ask"}},
		"goal file missing":      {env: []string{"HEARTH_GOAL_FILE=/no/such/file"}, code: 1, says: []string{"--goal-file", "/no/such/file"}},
		"goal file too large":    {env: []string{"HEARTH_GOAL_FILE=" + big}, code: 1, says: []string{"--goal-file", "at most 262144 bytes, got more"}},
		"goal file is a pipe":    {env: []string{"HEARTH_GOAL_FILE=" + pipe}, code: 1, says: []string{"--goal-file", "expected a regular file"}},
		"pod name missing":       {env: []string{"POD_NAME="}, code: 1, says: []string{"POD_NAME", "downward API"}},
		"pod UID missing":        {env: []string{"POD_UID="}, code: 1, says: []string{"POD_UID", "downward API"}},
		"namespace missing":      {env: []string{"POD_NAMESPACE="}, code: 1, says: []string{"POD_NAMESPACE", "downward API"}},
		"hostname is another's":  {env: []string{"POD_NAME=another-pod"}, code: 1, says: []string{`expected "another-pod"`, "POD_NAME"}},
		"root secret too short":  {env: []string{envToken + "=short"}, code: 1, says: []string{envToken, "at least 32 bytes, got 5"}},
		"two contracts":          {env: []string{"KONTEXT_DELIVERY_TOKEN=" + token, "POD_UID="}, code: 1, says: []string{"are both set", "expected one"}},
		"root secret empty":      {env: []string{envToken + "="}, code: 1, says: []string{envToken, "at least 32 bytes, got 0"}},
		"address that is none":   {env: []string{"HEARTH_DELIVERY_LISTEN=nowhere:x"}, code: 1, says: []string{"delivery: listen on nowhere:x"}},
		"view key too short":     {env: []string{"HEARTH_ACP_VIEW_KEY=short"}, code: 1, says: []string{"HEARTH_ACP_VIEW_KEY", "at least 32 bytes, got 5"}},
		"older key too short":    {env: []string{"KONVEYOR_ACP_SECRET_KEY=short"}, code: 1, says: []string{"KONVEYOR_ACP_SECRET_KEY", "at least 16 bytes, got 5"}},
		"older key may watch":    {env: []string{"HEARTH_ACP_VIEW_KEY=" + token, "KONVEYOR_ACP_SECRET_KEY=" + token}, code: 1, says: []string{"HEARTH_ACP_VIEW_KEY", "another key than KONVEYOR_ACP_SECRET_KEY"}},
		"one key for both":       {env: []string{"HEARTH_ACP_VIEW_KEY=" + token, "HEARTH_ACP_STEER_KEY=" + token}, code: 1, says: []string{"HEARTH_ACP_VIEW_KEY", "another key than HEARTH_ACP_STEER_KEY"}},
		"scheme that is none":    {env: []string{"HEARTH_DELIVERY_SCHEME=https"}, code: 1, says: []string{"HEARTH_DELIVERY_SCHEME", "expected HTTPS or HTTP", `"https"`}},
		"steering that is none":  {env: []string{"HEARTH_STEERING=Both"}, code: 1, says: []string{"--steering (HEARTH_STEERING)", "expected WatchOnly or Steer", `"Both"`}},
		"output that is none":    {env: []string{"HEARTH_OUTPUT=text/html"}, code: 1, says: []string{"--output (HEARTH_OUTPUT)", "text/plain or application/json", `"text/html"`}},
		"asking for too long":    {env: []string{"HEARTH_ASK_TIMEOUT=25h"}, code: 1, says: []string{"--ask-timeout (HEARTH_ASK_TIMEOUT)", "from 1s to 24h0m0s, got 25h0m0s"}},
		"asking for no time":     {env: []string{"HEARTH_ASK_TIMEOUT=0s"}, code: 1, says: []string{"HEARTH_ASK_TIMEOUT", "from 1s"}},
		"session that is none":   {env: []string{"HEARTH_SESSION=Old"}, code: 1, says: []string{"--session (HEARTH_SESSION)", "expected Fresh or Standing", `"Old"`}},
		"two that remember":      {env: []string{"HEARTH_SESSION=Standing", "HEARTH_CONCURRENCY=2"}, code: 1, says: []string{"--session (HEARTH_SESSION)", "--concurrency of 1", "got 2"}},
		"data dir not creatable": {env: []string{"HEARTH_DATA_DIR=" + big + "/below"}, code: 1, says: []string{"journal directory", big}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			args := c.args
			if args == nil {
				args = append([]string{"serve", "--"}, p.command...)
			}
			cmd := exec.CommandContext(t.Context(), binary, args...)
			cmd.Env = withEnv(p.environ(), c.env)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "%s", out)
			assert.Equal(t, c.code, cmd.ProcessState.ExitCode())
			for _, says := range c.says {
				assert.Contains(t, string(out), says)
			}
			assert.Equal(t, 1, strings.Count(string(out), "harness: "), "one message: %s", out)
			assert.NotContains(t, string(out), token)
			assert.NotContains(t, string(out), "goroutine", "no stack")
		})
	}
}

// withEnv replaces variables.
func withEnv(environ, more []string) []string {
	out := []string{}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		replaced := false
		for _, m := range more {
			replaced = replaced || strings.HasPrefix(m, name+"=")
		}
		if !replaced {
			out = append(out, pair)
		}
	}
	return append(out, more...)
}

func TestAPortInUseIsNamed(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	for name, flag := range map[string]string{"delivery": "--delivery-listen", "acp": "--acp-listen"} {
		t.Run(name, func(t *testing.T) {
			b := newPlace(t).start(flag + "=" + address)
			assert.Equal(t, 1, b.code())
			assert.Contains(t, b.log.String(), "harness: "+name+": "+address+" is in use by another process")
		})
	}
}

func TestALockedJournalNamesItsPath(t *testing.T) {
	p := newPlace(t)
	first := p.ready()
	other, started := *p, filepath.Join(t.TempDir(), "started")
	other.command = []string{"sh", "-c", `touch "$0"; exec sleep 60`, started}
	second := other.start()
	assert.Equal(t, 1, second.code())
	assert.Contains(t, second.log.String(), filepath.Join(p.Dir, "journal.lock")+" is held by another harness")
	assert.NoFileExists(t, started, "no agent of the second was ever in the directory")
	first.challenge() // undisturbed
	first.kill()
	p.ready() // and the next correct start works
}

func TestVersionAndHelp(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}, {"help"}, {"serve", "--help"}, {"run", "--help"}} {
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.NotEmpty(t, out)
	}
}

func TestFlagsWinOverTheEnvironmentAndServiceLinksAreIgnored(t *testing.T) {
	c, err := parseServe([]string{"--queue=3", "--", "agent", "--flag-of-its-own"}, []string{
		"HEARTH_QUEUE=7", "HEARTH_DRAIN=5s", "HEARTH_PERMISSIONS=allow", "HEARTH_SLOT=0-X", "UNRELATED=x",
		"HEARTH_SERVICE_HOST=10.0.0.1", "HEARTH_SERVICE_PORT=4000", "HEARTH_SERVICE_PORT_ACP=4000", "HEARTH_PORT=tcp://10.0.0.1:4000",
		"HEARTH_REVIEWER_1_PORT_4000_TCP=tcp://10.0.0.1:4000", "HEARTH_REVIEWER_1_PORT_4000_TCP_PROTO=tcp", "HEARTH_REVIEWER_1_PORT_4000_TCP_ADDR=10.0.0.1",
	})
	require.NoError(t, err)
	assert.Equal(t, 3, c.queue)
	assert.Equal(t, 5*time.Second, c.drain)
	assert.Equal(t, turn.Allow, c.permissions)
	assert.Equal(t, []string{"agent", "--flag-of-its-own"}, c.command)
	assert.Equal(t, manners{askTimeout: 5 * time.Minute, steering: "WatchOnly", output: "text/plain"}, c.manners, "the defaults")
	assert.Equal(t, "Fresh", c.session)
	_, err = parseServe([]string{"--help"}, nil)
	require.ErrorIs(t, err, pflag.ErrHelp)
}

func TestWordsOfFlagsAreReadInAnyCase(t *testing.T) {
	c, err := parseServe([]string{"--steering=steer", "--session=STANDING", "--output=Application/JSON", "--", "agent"}, []string{"HEARTH_ASK_TIMEOUT=90s"})
	require.NoError(t, err)
	assert.Equal(t, manners{askTimeout: 90 * time.Second, steering: steer, output: jsonOutput}, c.manners)
	assert.Equal(t, oneSession, c.session)
}

// The run of a one-shot harness is its Pod's, where the controller tells its UID.
func TestAOneShotHarnessKnowsWhoseGoalItHas(t *testing.T) {
	goal := filepath.Join(t.TempDir(), "goal")
	require.NoError(t, os.WriteFile(goal, []byte("do it"), 0o600))
	args := []string{"--goal-file=" + goal, "--", "agent"}
	pod := []string{"POD_NAMESPACE=ns", "POD_NAME=nightly-1"}
	c, err := parseRun(args, append(pod, "HEARTH_RUN_UID=u-1"))
	require.NoError(t, err)
	assert.Equal(t, turn.Run{Namespace: "ns", Name: "nightly-1", UID: "u-1", Attempt: 1}, c.run)
	c, err = parseRun(args, pod)
	require.NoError(t, err)
	assert.Zero(t, c.run)
	_, err = parseRun(args, []string{"POD_NAME=x", "HEARTH_RUN_UID=u-1"})
	assert.ErrorContains(t, err, "POD_NAMESPACE: expected this Pod's")
	_, err = parseRun(args, append(pod, "HEARTH_RUN_UID="+strings.Repeat("u", wire.MaxUIDBytes+1)))
	assert.ErrorContains(t, err, "--run-uid (HEARTH_RUN_UID): expected at most 128 bytes, got 129")
	_, err = parseRun(args, append(pod, "HEARTH_SESSION=Standing"))
	assert.ErrorContains(t, err, "harness run has no such variable", "its one session is a fresh one")
}

func TestTheAgentGetsNoSecretsAndNoneOfOurSettings(t *testing.T) {
	got, err := scrub([]string{
		"PATH=/bin", envToken + "=x", "HEARTH_ACP_VIEW_KEY=x", "HEARTH_ACP_STEER_KEY=x", "KONTEXT_DELIVERY_TOKEN=x", "KONVEYOR_ACP_SECRET_KEY=x", "GOOSE_SERVER__SECRET_KEY=x",
		"HEARTH_QUEUE=1", "POD_NAME=p", "HEARTH_SERVICE_HOST=10.0.0.1",
		"OTEL_EXPORTER_OTLP_HEADERS=x", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=x", "OTEL_EXPORTER_OTLP_ENDPOINT=http://me:x@collector", "OTEL_EXPORTER_OTLP_CLIENT_KEY=/key", "OTEL_SERVICE_NAME=mine",
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"PATH=/bin", "POD_NAME=p", "HEARTH_SERVICE_HOST=10.0.0.1", "OTEL_SERVICE_NAME=mine"}, got)
}

func TestTheNearestNameIsTheNearest(t *testing.T) {
	assert.Equal(t, 0, distance("abc", "abc"))
	assert.Equal(t, 1, distance("abc", "ac"))
	assert.Equal(t, 3, distance("", "abc"))
	assert.Equal(t, 3, distance("kitten", "sitting"))
}
