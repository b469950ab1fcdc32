package standing

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/dial"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// served makes stand reach its agent as a server that the harness starts, instead of by stdin and stdout. Tests of this package
// run one after the other.
var served bool

// reach makes a server of the configured agent.
func reach(t *testing.T, cfg *Config) {
	t.Helper()
	if !served {
		return
	}
	address := freeAddress(t)
	var err error
	cfg.Endpoint, err = dial.ParseEndpoint("ws://" + address + "/acp")
	require.NoError(t, err)
	if filepath.Base(cfg.Command[0]) == "goose" {
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		cfg.Command = []string{cfg.Command[0], "serve", "--port", port}
		return
	}
	cfg.Command = []string{cfg.Command[0], "serve", address}
}

// freeAddress is a loopback address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// SPEC.md, Agents by endpoint: the same behaviour through both. Those that take long are part of make slow.
func TestAnAgentByEndpointDoesTheSame(t *testing.T) {
	served = true
	t.Cleanup(func() { served = false })
	cases := map[string]func(*testing.T){
		"a goal":             TestAGoalIsCarriedOutInAFreshSessionAndDirectory,
		"outcomes":           TestOutcomesOfTheScriptedAgent,
		"no evidence":        TestEndTurnWithoutEvidenceIsNotSuccess,
		"permissions":        TestPermissionsFollowThePolicy,
		"a crash in a turn":  TestACrashEndsTheTurnAndTheAgentIsRestarted,
		"a crash in between": TestACrashBetweenGoalsCostsNothing,
		"silence":            TestAMuteAgentIsSilent,
		"huge output":        TestAHugeOutputIsCut,
		"a start in the end": TestAnAgentThatStartsInTheEndIsReady,
		"goose: a goal":      TestGooseCompletesAGoalWithUsage,
		"goose: permissions": TestGooseAsksForPermissionAndThePolicyDecides,
		"goose: model":       TestGooseCancelledWhileTheModelSpeaks,
		"goose: killed":      TestGooseKilledInMidTurnIsRestarted,
	}
	if os.Getenv("HEARTH_SLOW") == "1" {
		maps.Copy(cases, map[string]func(*testing.T){
			"a death unasked": TestAnIdleAgentThatDiesIsNoticedAndRestarted,
			"cancels":         TestACancelLeavesNoProcess,
			"own time":        TestTheActiveTimeIsLimited,
			"the end":         TestTheEndOfThePoolEndsTurnsAndAgents,
			"goose: shell":    TestGooseIsCancelledAtAnyMoment,
			"goose: limits":   TestGooseAtItsLimits,
			"goose: budget":   TestGooseIsStoppedAtItsBudget,
			"goose: provider": TestGooseWithoutItsProviderHasNotSucceeded,
		})
	}
	for name, f := range cases {
		t.Run(name, f)
	}
}

// SPEC.md, Cancel ladder: a server of ours is ended with everything it started.
func TestAServerOfOursThatDoesNotObeyIsEnded(t *testing.T) {
	served = true
	t.Cleanup(func() { served = false })
	s := stand(t, nil, func(c *Config) { c.CancelGrace, c.EndGrace = 100*time.Millisecond, 100*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := s.background(ctx, "deaf: ;; child: ;; daemon: ;; hidden: ;; mute:")
	pid := s.requireEffects(1)[0].PID
	cancel()
	e := <-done
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
	found := regexp.MustCompile(`pid=(\d+)`).FindAllStringSubmatch(output(t, e), -1)
	assert.Len(t, found, 3)
	for _, m := range found {
		child, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		requireGone(t, child)
	}
	requireGone(t, pid)
}

// beside starts the scripted agent as a server that is not the harness's, and returns a stop.
func beside(t *testing.T, address, key, effects string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), agenttest.Build(t), "serve", address)
	cmd.Env = []string{"AGENT_EFFECTS_FILE=" + effects, dial.KeyVariable + "=" + key}
	require.NoError(t, cmd.Start())
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func standBeside(t *testing.T, address, key string, change ...func(*Config)) *standing {
	return stand(t, nil, append([]func(*Config){func(c *Config) {
		c.Command = nil
		c.EndpointKey = key
		c.StartTimeout = limit
		var err error
		c.Endpoint, err = dial.ParseEndpoint("ws://" + address)
		require.NoError(t, err)
	}}, change...)...)
}

// SPEC.md, Agents by endpoint: a server beside the harness is waited for, lost, and found again.
func TestAServerBesideTheHarnessMayComeAndGo(t *testing.T) {
	address := freeAddress(t)
	s := standBeside(t, address, "the key")
	assert.Equal(t, wire.AgentStarting, s.pool.State().State)
	stop := beside(t, address, "the key", s.effects)
	assert.Equal(t, wire.OutcomeSucceeded, s.turn(t.Context(), "say: x").Outcome)
	assert.Equal(t, "scripted", s.pool.State().Name)

	done := s.background(t.Context(), "say: partial ;; mute:")
	s.requireEffects(2)
	stop()
	e := <-done
	assert.Equal(t, wire.ReasonAgentCrashed, e.Reason)
	assert.Equal(t, "agent at ws://"+address+"/acp: the connection was lost: the server closed it", e.Message)
	require.Eventually(t, func() bool { return s.pool.State().State == wire.AgentDown }, limit, time.Millisecond)

	stop = beside(t, address, "the key", s.effects)
	defer stop()
	assert.Equal(t, wire.OutcomeSucceeded, s.turn(t.Context(), "say: y").Outcome)
	assert.Equal(t, []wire.AgentState{"ready", "down", "ready"}, s.states())
}

// SPEC.md, Harness: of an agent by endpoint nobody sees a process end. One whose connection ended before the rest of the harness was open
// was never announced, and is looked for again.
func TestAServerThatIsLostBeforeTheRestIsOpenIsNotAnnounced(t *testing.T) {
	address, opened := freeAddress(t), make(chan struct{})
	s := standBeside(t, address, "", func(c *Config) { c.Opened = opened })
	said := func(what string, times int) {
		require.Eventually(t, func() bool { return strings.Count(s.logged(), what) >= times }, limit, time.Millisecond, what)
	}
	stop := beside(t, address, "", s.effects)
	said("agent: ready", 1)
	stop()
	said("agent: ended", 1)
	assert.Empty(t, s.states())
	stop = beside(t, address, "", s.effects)
	defer stop()
	said("agent: ready", 2)
	close(opened)
	s.ready()
	assert.Equal(t, []wire.AgentState{"ready"}, s.states())
}

// SPEC.md, Cancel ladder: the last rung is the end of the connection, and the envelope says what that cannot do.
func TestAServerBesideTheHarnessIsLeftWhenItDoesNotObey(t *testing.T) {
	address := freeAddress(t)
	s := standBeside(t, address, "", func(c *Config) { c.CancelGrace = 100 * time.Millisecond })
	defer beside(t, address, "", s.effects)()
	marker := filepath.Join(t.TempDir(), "marker")
	ctx, cancel := context.WithCancel(t.Context())
	done := s.background(ctx, "on_cancel: ignore ;; say: x ;; wait: "+marker+"-go ;; touch: "+marker)
	pid := s.requireEffects(1)[0].PID
	cancel()
	e := <-done
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
	assert.Contains(t, e.Warnings, dial.ErrBeside.Error())
	assert.Equal(t, wire.OutcomeSucceeded, s.turn(t.Context(), "say: again").Outcome)
	assert.Equal(t, pid, s.requireEffects(2)[1].PID, "it lives on")
	require.NoError(t, os.WriteFile(marker+"-go", nil, 0o600))
	require.Eventually(t, func() bool { return exists(marker) }, limit, time.Millisecond, "the tool finishes, as the warning says")
}

func TestAServerThatRefusesTheKeyIsNamed(t *testing.T) {
	address := freeAddress(t)
	s := standBeside(t, address, "wrong", func(c *Config) { c.MaxFailedStarts = 2 })
	defer beside(t, address, "right", s.effects)()
	err := <-s.ended
	require.ErrorContains(t, err, "the server refused the key, 401 Unauthorized: expected the same GOOSE_SERVER__SECRET_KEY in both")
	assert.NotContains(t, err.Error()+s.logged(), "wrong")
}

// A server whose port is taken would be another one's client.
func TestAServerIsNotTakenForAnother(t *testing.T) {
	address := freeAddress(t)
	stop := beside(t, address, "", "")
	defer stop()
	require.Eventually(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, limit, time.Millisecond)
	s := standBeside(t, address, "", func(c *Config) {
		c.Command, c.MaxFailedStarts = []string{agenttest.Build(t), "serve", address}, 1
	})
	require.ErrorContains(t, <-s.ended, "endpoint ws://"+address+"/acp: the port is in use by another process")
}

// A server of ours that exits, or never listens, is a failed start with its own words.
func TestAServerThatDoesNotComeUp(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
		within       time.Duration
	}{
		"exits":         {"echo no config >&2; exit 4", "agent process exited with status 4; stderr ends: no config", limit},
		"never listens": {"exec sleep 1000", "no answer within 300ms", 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := standBeside(t, freeAddress(t), "", func(cfg *Config) {
				cfg.Command, cfg.MaxFailedStarts, cfg.StartTimeout = []string{"sh", "-c", c.script}, 1, c.within
			})
			require.ErrorContains(t, <-s.ended, c.want)
		})
	}
}

// A server of ours that lives on without its connection is of no use, and is ended and started again.
func TestAServerOfOursThatDropsItsConnectionIsEnded(t *testing.T) {
	served = true
	t.Cleanup(func() { served = false })
	s := stand(t, nil)
	s.ready()
	cfg := servedElsewhere(t, s)
	line, err := dial.Open(t.Context(), dial.Spec{Command: cfg.Command, Env: cfg.Env, Marker: "drops", Endpoint: cfg.Endpoint, Grace: cfg.EndGrace})
	require.NoError(t, err)
	_, err = io.WriteString(line.Out, "no message\n") // which the scripted agent hangs up on
	require.NoError(t, err)
	_, err = io.ReadAll(line.In)
	require.Error(t, err)
	require.ErrorContains(t, line.Cause(), "the connection was lost: the server closed it; its process was ended")
	assert.Equal(t, "the connection was lost: the server closed it", line.How())
	requireGone(t, line.Process().PID())
	assert.NoError(t, line.Out.Close())
}

// servedElsewhere is the pool's configuration with an endpoint of its own.
func servedElsewhere(t *testing.T, s *standing) *Config {
	cfg := s.pool.cfg
	reach(t, &cfg)
	return &cfg
}

func TestAnEndpointIsOneAgent(t *testing.T) {
	e, err := dial.ParseEndpoint("ws://127.0.0.1:1")
	require.NoError(t, err)
	_, err = New(Config{Endpoint: e, Concurrency: 2, DataDir: "/tmp"})
	require.ErrorContains(t, err, "concurrency 2: expected 1 with an endpoint")
}

// SPEC.md, Agents by endpoint: a session of a goose that died loads again from its store, both ways.
func TestGooseSessionsLoadAgainAfterItDied(t *testing.T) {
	t.Cleanup(func() { served = false })
	for _, served = range []bool{false, true} {
		g := standGoose(t)
		cfg, home := servedElsewhere(t, g.standing), newWorkshop(t.TempDir())
		first, err := raise(t.Context(), cfg, home, 0)
		require.NoError(t, err)
		call, err := first.session.Prompt("say: kept")
		require.NoError(t, err)
		<-call.Done()
		require.NoError(t, syscall.Kill(first.pid(), syscall.SIGKILL))
		<-first.conn.Done()
		require.ErrorContains(t, first.conn.Err(), "agent process was killed by SIGKILL")
		second, err := raise(t.Context(), cfg, home, 0)
		require.NoError(t, err)
		assert.True(t, second.info.Loads)
		_, err = second.conn.Call(t.Context(), "session/load", map[string]any{"sessionId": first.session.ID, "cwd": first.dir, "mcpServers": []any{}})
		assert.NoError(t, err, "served %t", served)
		require.NoError(t, second.end(t.Context()))
	}
}

// The keys of no contract reach what goose starts: not in its environment, and not in that of its parents (R26).
func TestGooseToolsFindNoKey(t *testing.T) {
	for _, served = range []bool{false, true} {
		t.Run(fmt.Sprintf("served %t", served), func(t *testing.T) {
			g := standGoose(t, allow)
			out := filepath.Join(t.TempDir(), "out")
			// Every process of this user whose environment the tool may read, as far up as goose.
			e := g.turn(t.Context(), `shell: (env; tr '\0' '\n' </proc/`+strconv.Itoa(goosePID(t, g))+`/environ; tr '\0' '\n' </proc/$PPID/environ) >`+out+`; true`+"\nsay: done")
			require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
			b, err := os.ReadFile(out) //nolint:gosec // a test's own file
			require.NoError(t, err)
			require.Contains(t, string(b), "OPENAI_API_KEY=x", "it can read what is there")
			for _, m := range regexp.MustCompile(dial.KeyVariable+`=(.*)`).FindAllStringSubmatch(string(b), -1) {
				assert.Empty(t, strings.Trim(m[1], "x"), "nothing but x's")
			}
			assert.Equal(t, served, strings.Contains(string(b), dial.KeyVariable))
			assert.NotContains(t, g.logged(), "can read the key")
			assert.Equal(t, wire.OutcomeSucceeded, g.turn(t.Context(), "say: again").Outcome)
		})
	}
	served = false
}
