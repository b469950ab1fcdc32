package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/llm"
)

// realGoose makes a place's agent real goose with a scripted model. HEARTH_GOOSE is the path of goose's binary.
func realGoose(t *testing.T, p *place) {
	t.Helper()
	path := os.Getenv("HEARTH_GOOSE")
	if path == "" {
		require.NotEqual(t, "1", os.Getenv("HEARTH_REQUIRE_REAL"), "HEARTH_GOOSE is not set: it is the path of a goose binary, see hack/goose/install.sh")
		t.Skip("HEARTH_GOOSE is not set")
	}
	model := httptest.NewServer(llm.New(llm.Options{Second: 20 * time.Millisecond}))
	t.Cleanup(func() { model.CloseClientConnections(); model.Close() })
	link := filepath.Join(t.TempDir(), "goose")
	require.NoError(t, os.Symlink(path, link))
	p.command = []string{link, "acp"}
	p.env = []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=test-model", "OPENAI_API_KEY=x", "OPENAI_HOST=" + model.URL,
		"GOOSE_DISABLE_KEYRING=1", "GOOSE_TELEMETRY_OFF=1", "GOOSE_DISABLE_SESSION_NAMING=true",
	}
}

// R11, R30: one goal, one exit code, with real goose; SIGTERM during its shell leaves no process.
func TestAOneShotHarnessWithRealGoose(t *testing.T) {
	run := func(goal string, args ...string) (*task, *booted) {
		k := newTask(t, goal)
		realGoose(t, k.place)
		return k, k.start(append(args, "--permissions=Allow")...)
	}
	k, b := run("shell: echo from a shell\nsay: done\nusage: 1000 50")
	require.Equal(t, 0, b.code(), b.log.String())
	assert.Contains(t, k.envelope().Output.Value, "done")
	assert.Greater(t, *k.envelope().Usage.TotalTokens, int64(1050), "of both model calls")
	assert.Contains(t, b.out.String(), "done\n")

	k, b = run("shell: true\nslow: 1000", "--budget-tokens=10")
	assert.Equal(t, 2, b.code())
	assert.Equal(t, wire.ReasonBudgetExceeded, k.envelope().Reason)

	k, b = run("fail: 400")
	assert.Equal(t, 1, b.code())
	assert.Equal(t, wire.ReasonAgentError, k.envelope().Reason)

	pids := filepath.Join(t.TempDir(), "pids")
	k, b = run("shell: setsid sleep 1000 & echo $! >" + pids + "; sleep 1001")
	pid := 0
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(pids) //nolint:gosec // a test's own file
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, patience, tick)
	b.signal(syscall.SIGTERM)
	assert.Equal(t, 1, b.code())
	assert.Equal(t, wire.OutcomeCancelled, k.envelope().Outcome)
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// The whole harness with real goose and a scripted model, without a cluster.
func TestAHarnessCarriesOutGoalsWithRealGoose(t *testing.T) {
	p := newPlace(t)
	realGoose(t, p)
	b := p.ready("--permissions=Allow", "--concurrency=2", "--queue=4")
	assert.Equal(t, "goose", b.boot.Agent.Name)
	marker := filepath.Join(t.TempDir(), "marker")
	b.accepted("says", "say: hello from goose", wire.StateFinished)
	b.accepted("shell", "shell: echo done > "+marker, wire.StateFinished)
	b.accepted("fails", "fail: 400", wire.StateFinished)
	assert.Equal(t, "hello from goose", b.attempt("says").Envelope.Output.Value)
	assert.Equal(t, wire.OutcomeSucceeded, b.attempt("shell").Envelope.Outcome, b.attempt("shell").Envelope.Message)
	assert.FileExists(t, marker)
	assert.Equal(t, wire.OutcomeFailed, b.attempt("fails").Envelope.Outcome, "a provider's failure that arrives as end_turn is none of success")

	b.accepted("hangs", "slow: 1000", wire.StateRunning)
	b.kill()
	b = p.ready("--permissions=Allow")
	assert.Equal(t, wire.OutcomeInterrupted, b.attempt("hangs").Envelope.Outcome, "row 16")
	assert.Equal(t, "hello from goose", b.attempt("says").Envelope.Output.Value, "row 17")
}
