package standing

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/process"
	"github.com/hearthdev/hearth/runtime/turn"
	"github.com/hearthdev/hearth/test/llm"
)

// These tests run against real goose: HEARTH_GOOSE is the path of its binary. Without it they are skipped, unless
// HEARTH_REQUIRE_REAL=1, which `make test` sets.

// goose is a pool of real goose with a scripted model.
type goose struct {
	*standing
	model *llm.Server
	host  string
}

func standGoose(t *testing.T, change ...func(*Config)) *goose {
	t.Helper()
	path := os.Getenv("HEARTH_GOOSE")
	if path == "" {
		const why = "HEARTH_GOOSE is not set: it is the path of a goose binary, see hack/goose/install.sh"
		if os.Getenv("HEARTH_REQUIRE_REAL") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	model := llm.New(llm.Options{Second: 20 * time.Millisecond})
	server := httptest.NewServer(model)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	link := filepath.Join(t.TempDir(), "goose") // by this name it is known as goose before it was greeted
	require.NoError(t, os.Symlink(path, link))
	env := []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=test-model", "OPENAI_API_KEY=x", "OPENAI_HOST=" + server.URL,
		"GOOSE_DISABLE_KEYRING=1", "GOOSE_TELEMETRY_OFF=1", "GOOSE_DISABLE_SESSION_NAMING=true",
	}
	s := stand(t, env, append([]func(*Config){func(c *Config) {
		c.Command = []string{link, "acp"}
		c.CancelGrace, c.EndGrace = turn.DefaultCancelGrace, DefaultEndGrace
	}}, change...)...)
	s.ready()
	return &goose{standing: s, model: model, host: server.URL}
}

func withEnv(variable string) func(*Config) {
	return func(c *Config) {
		name, _, _ := strings.Cut(variable, "=")
		c.Env = append(slices.DeleteFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), variable)
	}
}

func allow(c *Config) { c.Permissions = turn.Allow }

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func TestGooseCompletesAGoalWithUsage(t *testing.T) {
	t.Parallel()
	g := standGoose(t)
	assert.Equal(t, wire.AgentInfo{Name: "goose", Version: g.pool.State().Version, State: wire.AgentReady}, g.pool.State())
	assert.NotEmpty(t, g.pool.State().Version)
	for range 3 {
		e := g.turn(t.Context(), "say: hello there ;; usage: 30 4")
		require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
		assert.Equal(t, "hello there", output(t, e))
		assert.EqualValues(t, 30, *used(t, e).InputTokens)
		assert.EqualValues(t, 4, *used(t, e).OutputTokens)
		assert.Equal(t, "end_turn", e.StopReason)
		assert.Empty(t, e.Warnings)
	}
	assert.Equal(t, 3, g.model.Turns())
}

// R30: goose tells all tokens and the cost of a session after each model call, in the ways that the budget watches.
func TestGooseIsStoppedAtItsBudget(t *testing.T) {
	t.Parallel()
	g := standGoose(t, allow, withEnv("GOOSE_MODEL=gpt-4o")) // a model that goose knows the price of
	goal := "shell: true\nsay: between\nshell: true\nslow: 1000\nusage: 1000 50"
	for name, limits := range map[string]turn.Limits{"tokens": {Tokens: 100}, "cost": {Cost: &wire.Cost{Amount: "0.0001", Currency: "USD"}}} {
		e := g.pool.Turn(t.Context(), turn.Goal{Text: goal, Limits: limits}, func(string) error { return nil })
		assert.Equal(t, wire.ReasonBudgetExceeded, e.Reason, "%s: %+v", name, e)
		require.NotNil(t, e.Usage, name)
		assert.Greater(t, *used(t, e).TotalTokens, int64(100), name)
		assert.Equal(t, "USD", e.Usage.Cost.Currency, name)
		assert.Empty(t, e.Warnings, name)
	}
	e := g.turn(t.Context(), "shell: true\nsay: x\nusage: 1000 50")
	require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.Greater(t, *used(t, e).TotalTokens, int64(1050), "of both model calls")
}

// A provider that cannot be reached, or fails, arrives as end_turn; it is not success.
func TestGooseWithoutItsProviderHasNotSucceeded(t *testing.T) {
	t.Parallel()
	t.Run("unreachable", func(t *testing.T) {
		g := standGoose(t, withEnv("OPENAI_HOST=http://127.0.0.1:9"))
		e := g.turn(t.Context(), "say: hello")
		assert.Equal(t, wire.ReasonAgentError, e.Reason)
		assert.Contains(t, strings.Join(e.Warnings, ""), "heuristic")
		assert.Nil(t, e.Usage)
	})
	t.Run("failing", func(t *testing.T) {
		g := standGoose(t)
		for _, goal := range []string{"fail: 400", "say: half an answer\nfail: 500", "fail: 401"} {
			e := g.turn(t.Context(), goal)
			assert.Equal(t, wire.ReasonAgentError, e.Reason, "%s: %+v", goal, e)
		}
	})
}

func TestGooseAtItsLimits(t *testing.T) {
	t.Parallel()
	g := standGoose(t, allow, withEnv("GOOSE_MAX_TURNS=1"))
	assert.Equal(t, wire.ReasonLimitReached, g.turn(t.Context(), "shell: true\nsay: x").Reason)
	assert.Equal(t, wire.ReasonLimitReached, g.turn(t.Context(), "say: x ;; finish: length").Reason)
}

// R52: Allow lets the tool run; Deny, the default, leaves no trace of it.
func TestGooseAsksForPermissionAndThePolicyDecides(t *testing.T) {
	t.Parallel()
	for policy, ran := range map[turn.Policy]bool{turn.Allow: true, turn.Deny: false} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			g := standGoose(t, func(c *Config) { c.Permissions = policy })
			marker := filepath.Join(t.TempDir(), "marker")
			e := g.turn(t.Context(), "shell: touch "+marker+"\nsay: done")
			assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
			assert.Equal(t, ran, exists(marker))
			assert.Equal(t, 1, e.Tools.Calls)
			assert.Equal(t, ran, e.Tools.Failed == 0)
		})
	}
}

func TestGooseInAModeThatNeverAsksIsWarnedOf(t *testing.T) {
	t.Parallel()
	g := standGoose(t, withEnv("GOOSE_MODE=auto"))
	e := g.turn(t.Context(), "say: x")
	assert.Contains(t, strings.Join(e.Warnings, ""), `mode "auto" asks for no permission`)
}

// Fault row 20.
func TestGooseKilledInMidTurnIsRestarted(t *testing.T) {
	t.Parallel()
	g := standGoose(t)
	done := g.background(t.Context(), "say: x\ngate: never")
	require.Eventually(t, func() bool { return g.model.Turns() == 1 }, limit, time.Millisecond)
	require.NoError(t, syscall.Kill(goosePID(t, g), syscall.SIGKILL))
	e := <-done
	assert.Equal(t, wire.ReasonAgentCrashed, e.Reason)
	assert.Contains(t, e.Message, "was killed by SIGKILL")
	assert.Equal(t, wire.OutcomeSucceeded, g.turn(t.Context(), "say: again").Outcome)
	assert.Equal(t, []wire.AgentState{"ready", "down", "ready"}, g.states())
}

// goosePID finds the goose of this pool by its HOME.
func goosePID(t *testing.T, g *goose) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && strings.Contains(string(env), "HOME="+g.dir+"/slots/0/home\x00") && strings.Contains(string(env), process.MarkerName) {
			return pid
		}
	}
	t.Fatal("no goose")
	return 0
}
