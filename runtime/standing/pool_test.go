package standing

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/turn"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil { // they wait more than they work
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		agenttest.Remove()
		os.Exit(code)
	}))
}

// limit is how long anything may take before a test gives up.
const limit = time.Minute

// standing is a pool with the scripted agent, and what it said.
type standing struct {
	t       *testing.T
	pool    *Pool
	dir     string
	effects string
	ended   chan error

	mu      sync.Mutex
	changes []wire.AgentInfo
	log     bytes.Buffer
}

func (s *standing) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *standing) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *standing) states() []wire.AgentState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []wire.AgentState
	for _, c := range s.changes {
		states = append(states, c.State)
	}
	return states
}

// stand starts a pool of the scripted agent; env is added to its environment and change may change the configuration.
func stand(t *testing.T, env []string, change ...func(*Config)) *standing {
	t.Helper()
	s := &standing{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	s.effects = filepath.Join(t.TempDir(), "effects")
	cfg := Config{
		Command: []string{agenttest.Build(t)}, Env: append([]string{"PATH=" + os.Getenv("PATH"), "AGENT_EFFECTS_FILE=" + s.effects}, env...),
		DataDir: s.dir, Concurrency: 1, Permissions: turn.Deny, Log: slog.New(slog.NewTextHandler(s, nil)), Now: time.Now, Version: "test",
		FirstBackoff: 10 * time.Millisecond, MaxBackoff: 20 * time.Millisecond, CancelGrace: limit, EndGrace: limit,
		OnChange: func(i wire.AgentInfo) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changes = append(s.changes, i)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	reach(t, &cfg)
	pool, err := New(cfg)
	require.NoError(t, err)
	s.pool = pool
	go func() { s.ended <- pool.Run(context.Background()) }() //nolint:usetesting // must outlive the test's context
	t.Cleanup(func() {
		assert.NoError(t, pool.End(context.Background())) //nolint:usetesting // t.Context is over in a cleanup
	})
	return s
}

func (s *standing) answers() bool { return s.pool.State().State == wire.AgentReady }

func (s *standing) ready() {
	s.t.Helper()
	require.Eventually(s.t, s.answers, limit, time.Millisecond, "the agent is not ready; log:\n%s", s)
}

func (s *standing) String() string { return s.logged() }

func (s *standing) turn(ctx context.Context, text string) wire.Envelope {
	return s.pool.Turn(ctx, turn.Goal{Text: text}, func(string) error { return nil })
}

// background runs a goal and returns where its envelope will be.
func (s *standing) background(ctx context.Context, text string) <-chan wire.Envelope {
	done := make(chan wire.Envelope, 1)
	go func() { done <- s.turn(ctx, text) }()
	return done
}

func (s *standing) requireEffects(n int) []agenttest.Effect {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(agenttest.Effects(s.t, s.effects)) >= n }, limit, time.Millisecond)
	effects := agenttest.Effects(s.t, s.effects)
	require.Len(s.t, effects, n)
	return effects
}

// output is what the agent said in a turn.
func output(t *testing.T, e wire.Envelope) string {
	t.Helper()
	require.NotNil(t, e.Output, "%+v", e)
	return e.Output.Value
}

// used is what a turn is said to have used.
func used(t *testing.T, e wire.Envelope) *wire.Usage {
	t.Helper()
	require.NotNil(t, e.Usage, "%+v", e)
	return e.Usage
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, limit, 5*time.Millisecond, "process %d lives", pid)
}

func TestAGoalIsCarriedOutInAFreshSessionAndDirectory(t *testing.T) {
	s := stand(t, nil)
	var sessions []string
	for range 2 {
		e := s.pool.Turn(t.Context(), turn.Goal{Text: "cwd: ;; usage: 3 4", Standing: "be kind"}, func(session string) error {
			assert.Len(t, agenttest.Effects(t, s.effects), len(sessions), "nothing is sent before start returns")
			sessions = append(sessions, session)
			return nil
		})
		assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
		assert.EqualValues(t, 7, *used(t, e).TotalTokens)
		assert.Equal(t, sessions[len(sessions)-1], e.Session)
		assert.Equal(t, filepath.Join(s.dir, "work"), filepath.Dir(output(t, e)))
	}
	effects := s.requireEffects(2)
	assert.NotEqual(t, effects[0].Session, effects[1].Session)
	assert.NotEqual(t, effects[0].Cwd, effects[1].Cwd)
	assert.Equal(t, effects[0].PID, effects[1].PID, "the agent stands")
	assert.Equal(t, 2, effects[0].Blocks, "the standing instructions go first")
	assert.Equal(t, wire.AgentInfo{Name: "scripted", Version: "1.0.0", State: wire.AgentReady}, s.pool.State())
}

// SPEC.md, Harness: the agent sees the given environment, with a HOME of its slot.
func TestEachSlotHasAHomeOfItsOwn(t *testing.T) {
	s := stand(t, []string{"HOME=/nowhere", "A=b"}, func(c *Config) { c.Concurrency = 2 })
	gate := filepath.Join(t.TempDir(), "gate")
	one := s.background(t.Context(), "env: HOME ;; wait: "+gate)
	two := s.background(t.Context(), "env: HOME ;; wait: "+gate)
	s.requireEffects(2)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	homes := []string{output(t, <-one), output(t, <-two)}
	assert.ElementsMatch(t, []string{"HOME=" + s.dir + "/slots/0/home", "HOME=" + s.dir + "/slots/1/home"}, homes)
	assert.Equal(t, "A=b", output(t, s.turn(t.Context(), "env: A")))
}

func TestGoalsWaitForAFreeSlot(t *testing.T) {
	s := stand(t, nil)
	gate := filepath.Join(t.TempDir(), "gate")
	first := s.background(t.Context(), "say: one ;; wait: "+gate)
	s.requireEffects(1)
	second := s.background(t.Context(), "say: two")
	ctx, cancel := context.WithCancelCause(t.Context())
	third := s.background(ctx, "say: three")
	cancel(errors.New("no longer wanted"))
	e := <-third
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
	assert.Equal(t, "cancelled before the start: no longer wanted", e.Message)
	assert.Len(t, agenttest.Effects(t, s.effects), 1)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, "one", output(t, <-first))
	assert.Equal(t, "two", output(t, <-second))
	s.requireEffects(2)
}

func TestOutcomesOfTheScriptedAgent(t *testing.T) {
	s := stand(t, []string{"AGENT_EARLY=3"})
	for _, c := range []struct {
		goal, output string
		reason       wire.Reason
	}{
		{"say: hello", "early1 early2 early3 hello", "Completed"},
		{"stop: end_turn ;; say: Network error: no route", "", "Completed"}, // the early text makes it one message of the model's
		{"think: hm ;; say: I've reached the maximum number of actions I can do without user input.", "", "LimitReached"},
		{"stop: max_tokens", "", "LimitReached"},
		{"stop: refusal", "", "Refused"},
		{"stop: cancelled", "", "AgentError"},
		{"error: -32603 no provider", "", "AgentError"},
		{"bytes: 61ff62", "early1 early2 early3 a\uFFFDb", "Completed"},
		{"bytes: 6100 ;; say: x", "early1 early2 early3 x", "Completed"}, // no message at all
		{"raw: ff00fe ;; raw: 5b5d ;; say: x", "early1 early2 early3 x", "Completed"},
		{"unknown: terminal/create ;; ids: string ;; unknown: fs/read_text_file", "", "Completed"},
	} {
		t.Run(c.goal, func(t *testing.T) {
			e := s.turn(t.Context(), c.goal)
			assert.Equal(t, c.reason, e.Reason, e.Message)
			if c.output != "" {
				assert.Equal(t, c.output, output(t, e))
			}
			if strings.HasPrefix(c.goal, "unknown") {
				assert.Contains(t, output(t, e), `"id":1,"error":{"code":-32601`)
				assert.Contains(t, output(t, e), `"id":"ask-é-2","error":{"code":-32601`)
			}
		})
	}
}

func TestEndTurnWithoutEvidenceIsNotSuccess(t *testing.T) {
	s := stand(t, nil)
	for goal, reason := range map[string]wire.Reason{
		"stop: end_turn":             "NoEvidence",
		"echo:":                      "NoEvidence",
		"say: Network error: x":      "AgentError",
		"think: hm":                  "NoEvidence",
		"usage: 0 0":                 "NoEvidence",
		"tool: failed ;; usage: 1 1": "Completed",
	} {
		assert.Equal(t, reason, s.turn(t.Context(), goal).Reason, goal)
	}
}

// R52.
func TestPermissionsFollowThePolicy(t *testing.T) {
	goal := "permit: allow_always,allow_once,reject_always,reject_once ;; ids: string ;; permit: reject_once,allow_once ;; permit: allow_always,reject_always"
	for policy, want := range map[turn.Policy]string{turn.Deny: "reject_once reject_once cancelled ", turn.Allow: "allow_once allow_once cancelled "} {
		s := stand(t, nil, func(c *Config) { c.Permissions = policy })
		assert.Equal(t, want, output(t, s.turn(t.Context(), goal)))
	}
}

// Fault row 20: the agent dies in the middle of a turn; it is restarted, and was not ready in between.
func TestACrashEndsTheTurnAndTheAgentIsRestarted(t *testing.T) {
	s := stand(t, nil)
	e := s.turn(t.Context(), "say: partial ;; crash: 3 out of memory")
	assert.Equal(t, wire.ReasonAgentCrashed, e.Reason)
	assert.Equal(t, "agent process exited with status 3; stderr ends: out of memory", e.Message)
	assert.Equal(t, "partial", output(t, e))
	assert.NotEqual(t, wire.AgentReady, s.states()[1], "it was down before the envelope was there")
	e = s.turn(t.Context(), "die:")
	assert.Contains(t, e.Message, "was killed by SIGKILL")
	assert.Equal(t, wire.OutcomeSucceeded, s.turn(t.Context(), "say: again").Outcome)
	assert.Equal(t, []wire.AgentState{"ready", "down", "ready", "down", "ready"}, s.states())
	assert.NotContains(t, s.logged(), "out of memory", "what an agent says in a turn is not logged")
}

// Fault row 20: nobody has to ask for anything to find out.
func TestAnIdleAgentThatDiesIsNoticedAndRestarted(t *testing.T) {
	s := stand(t, nil)
	assert.Equal(t, wire.OutcomeSucceeded, s.turn(t.Context(), "say: x").Outcome)
	require.NoError(t, syscall.Kill(s.requireEffects(1)[0].PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(s.states()) == 3 }, limit, time.Millisecond)
	assert.Equal(t, []wire.AgentState{"ready", "down", "ready"}, s.states())
}

// An agent that dies while nobody uses it costs no goal.
func TestACrashBetweenGoalsCostsNothing(t *testing.T) {
	s := stand(t, nil)
	for range 5 {
		e := s.turn(t.Context(), "say: x")
		require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
		effects := agenttest.Effects(t, s.effects)
		require.NoError(t, syscall.Kill(effects[len(effects)-1].PID, syscall.SIGKILL))
		requireGone(t, effects[len(effects)-1].PID)
	}
}

// A goal that meets an agent which has just died waits for the next one.
func TestAGoalIsNotGivenToAnAgentThatIsGone(t *testing.T) {
	pool, err := New(Config{Command: []string{agenttest.Build(t)}, DataDir: t.TempDir(), Concurrency: 1, Permissions: turn.Deny, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	require.NoError(t, err)
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan wire.Envelope, 1)
		go func() {
			done <- pool.Turn(ctx, turn.Goal{Text: "say: x"}, func(string) error {
				t.Error("started")
				return nil
			})
		}()
		a, err := raise(t.Context(), &pool.cfg, pool.home, 0)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(a.pid(), syscall.SIGKILL))
		<-a.line.Exited()
		newSlot(pool, 0).stand(t.Context(), a)
		cancel()
		assert.Equal(t, wire.OutcomeCancelled, (<-done).Outcome)
	}
}

// Fault rows 21 and 33, SPEC.md, Harness: no process of a cancelled turn is left, whatever it did to hide.
func TestACancelLeavesNoProcess(t *testing.T) {
	for _, c := range []struct {
		name, goal string
		restarted  bool
	}{
		{"obedient", "say: x ;; mute:", false},
		{"obedient, leaves a child", "child: ;; mute:", true},
		{"obedient, leaves a child in its own session", "daemon: ;; mute:", true},
		{"obedient, hides a child", "hidden: ;; mute:", true},
		{"ignores the cancel", "on_cancel: ignore ;; child: ;; daemon: ;; hidden: ;; mute:", true},
		{"ignores cancel and SIGTERM", "deaf: ;; child: ;; daemon: ;; hidden: ;; mute:", true},
		{"answers with an error", "on_cancel: error ;; say: x ;; mute:", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stand(t, nil, func(cfg *Config) {
				if strings.HasPrefix(c.name, "ignores") {
					cfg.CancelGrace, cfg.EndGrace = 500*time.Millisecond, 300*time.Millisecond
				}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			done := s.background(ctx, c.goal)
			pid := s.requireEffects(1)[0].PID
			cancel(errors.New("the run was deleted"))
			e := <-done
			assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
			assert.Equal(t, "the run was deleted", e.Message)
			if e.Output != nil {
				for _, m := range regexp.MustCompile(`pid=(\d+)`).FindAllStringSubmatch(e.Output.Value, -1) {
					child, err := strconv.Atoi(m[1])
					require.NoError(t, err)
					requireGone(t, child)
				}
			}
			again := s.turn(t.Context(), "say: again")
			assert.Equal(t, wire.OutcomeSucceeded, again.Outcome, again.Message)
			effects := s.requireEffects(2)
			assert.Equal(t, c.restarted, effects[1].PID != pid)
			if c.restarted {
				requireGone(t, pid)
			}
		})
	}
}

// SPEC.md, Cancel ladder: what ran beside the agent before its first goal is not of the turn, and neither is the agent ended for it.
func TestACancelLeavesWhatRanBeforeTheTurn(t *testing.T) {
	s := stand(t, nil, func(c *Config) {
		c.Command = append([]string{"sh", "-c", `sleep 1000 >/dev/null 2>&1 & exec "$@"`, "sh"}, c.Command...)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := s.background(ctx, "mute:")
	pid := s.requireEffects(1)[0].PID
	cancel()
	assert.Equal(t, wire.OutcomeCancelled, (<-done).Outcome)
	assert.Equal(t, wire.OutcomeSucceeded, s.turn(t.Context(), "say: again").Outcome)
	assert.Equal(t, pid, s.requireEffects(2)[1].PID)
}

// Fault row 52: a turn ended by force does not touch another one in the same harness.
func TestEndingOneTurnByForceLeavesTheOtherAlone(t *testing.T) {
	s := stand(t, nil, func(c *Config) {
		c.Concurrency, c.CancelGrace, c.EndGrace = 2, 100*time.Millisecond, 100*time.Millisecond
	})
	gate := filepath.Join(t.TempDir(), "gate")
	other := s.background(t.Context(), "daemon: ;; wait: "+gate+" ;; say: done")
	s.requireEffects(1)
	ctx, cancel := context.WithCancel(t.Context())
	forced := s.background(ctx, "deaf: ;; daemon: ;; mute:")
	s.requireEffects(2)
	cancel()
	assert.Equal(t, wire.OutcomeCancelled, (<-forced).Outcome)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	e := <-other
	assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	pid, err := strconv.Atoi(regexp.MustCompile(`pid=(\d+)`).FindStringSubmatch(output(t, e))[1])
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(pid, 0), "what the other agent left is not ours to end")
	assert.NotContains(t, s.states(), wire.AgentDown, "one of two answered all the time")
}

func TestTheActiveTimeIsLimited(t *testing.T) {
	s := stand(t, nil)
	e := s.pool.Turn(t.Context(), turn.Goal{Text: "say: x ;; mute:", Limits: turn.Limits{ActiveSeconds: 3}}, func(string) error { return nil })
	assert.Equal(t, wire.ReasonDeadlineExceeded, e.Reason)
	assert.Equal(t, "x", output(t, e))
}

// Fault row 21.
func TestAMuteAgentIsSilent(t *testing.T) {
	s := stand(t, nil, func(c *Config) { c.Silence = 200 * time.Millisecond })
	assert.Equal(t, wire.ReasonAgentSilent, s.turn(t.Context(), "mute:").Reason)
}

func TestAHugeOutputIsCut(t *testing.T) {
	s := stand(t, nil)
	e := s.turn(t.Context(), "huge: 5000000")
	assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.EqualValues(t, 5_000_000, e.Truncation.OriginalBytes)
}

func TestTheEndOfThePoolEndsTurnsAndAgents(t *testing.T) {
	s := stand(t, nil)
	done := s.background(t.Context(), "daemon: ;; mute:")
	pid := s.requireEffects(1)[0].PID
	waiting := s.background(t.Context(), "say: never")
	require.NoError(t, s.pool.End(t.Context()))
	e := <-done
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
	assert.Equal(t, "the harness is ending", e.Message)
	assert.Equal(t, "not started: the agent is not available", (<-waiting).Message)
	require.NoError(t, <-s.ended)
	requireGone(t, pid)
	assert.Equal(t, wire.AgentDown, s.pool.State().State)
	assert.Equal(t, wire.ReasonAgentError, s.turn(t.Context(), "say: late").Reason)
	s.requireEffects(1)
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	good := Config{Command: []string{"/bin/sh"}, DataDir: "/tmp", Concurrency: 1, Permissions: turn.Deny, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	for want, change := range map[string]func(*Config){
		`agent command not found: "no-such-agent" is not in PATH`: func(c *Config) { c.Command = []string{"no-such-agent"} },
		"agent command not found: no command was given":           func(c *Config) { c.Command = nil },
		`data directory "data": expected an absolute path`:        func(c *Config) { c.DataDir = "data" },
		"concurrency 0: expected 1 to 64":                         func(c *Config) { c.Concurrency = 0 },
		"concurrency 65: expected 1 to 64":                        func(c *Config) { c.Concurrency = 65 },
		`permission policy "x": expected Deny, Allow or Ask`:      func(c *Config) { c.Permissions = "x" },
		`output media type "x": expected text/plain or `:          func(c *Config) { c.Output = "x" },
		"a pool needs a log and a clock":                          func(c *Config) { c.Now = nil },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		assert.ErrorContains(t, err, want)
	}
	_, err := New(good)
	assert.NoError(t, err)
}

func TestBackoffDoublesUpToALimit(t *testing.T) {
	var got []time.Duration
	for falls := range 9 {
		got = append(got, backoff(DefaultFirstBackoff, DefaultMaxBackoff, falls)/time.Second)
	}
	assert.Equal(t, []time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60}, got)
}

func TestOldSessionDirectoriesAreRemoved(t *testing.T) {
	w := newWorkshop(t.TempDir())
	first, err := w.open()
	require.NoError(t, err)
	w.hold(first)
	w.close(first) // another session in it is over, and not the first
	for range keptWork + 20 {
		dir, err := w.open()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
		w.close(dir)
	}
	entries, err := os.ReadDir(filepath.Dir(first))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(entries), keptWork+1)
	assert.DirExists(t, first, "one in use is kept, however old")
	require.NoError(t, os.WriteFile(filepath.Join(first, "f"), nil, 0o600))
	w.discard(first)
	assert.DirExists(t, first, "what an agent has written is not thrown away")
}

func BenchmarkTurn(b *testing.B) {
	dir := b.TempDir()
	pool, err := New(Config{Command: []string{agenttest.Build(b)}, DataDir: dir, Concurrency: 1, Permissions: turn.Deny, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	require.NoError(b, err)
	go func() { _ = pool.Run(context.Background()) }()
	defer func() { _ = pool.End(context.Background()) }()
	for b.Loop() {
		if e := pool.Turn(b.Context(), turn.Goal{Text: "say: x"}, func(string) error { return nil }); e.Outcome != wire.OutcomeSucceeded {
			b.Fatal(fmt.Sprint(e))
		}
	}
}
