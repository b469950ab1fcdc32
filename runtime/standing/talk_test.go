package standing

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

func oneSession(c *Config) { c.Session = wire.SessionStanding }

// standTalking is a pool whose goals share a session of an agent that can load what it knew.
func standTalking(t *testing.T, change ...func(*Config)) *standing {
	t.Helper()
	return stand(t, []string{"AGENT_MEMORY=" + t.TempDir()}, append([]func(*Config){oneSession}, change...)...)
}

// told runs a goal of an Agent with standing instructions.
func (s *standing) told(text string, limits turn.Limits) wire.Envelope {
	s.t.Helper()
	e := s.pool.Turn(s.t.Context(), turn.Goal{Text: text, Standing: "be kind", Limits: limits}, func(string) error { return nil })
	require.Equal(s.t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	return e
}

// kill ends a process that is idle, and waits until it is gone.
func (s *standing) kill(pid int) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	requireGone(s.t, pid)
}

// SPEC.md, Standing sessions: one session and one directory for all goals, which remembers, and is told who it is once.
func TestAStandingSessionRemembers(t *testing.T) {
	t.Parallel()
	s := standTalking(t)
	first := s.told("say: one", turn.Limits{})
	assert.Equal(t, "say: one", output(t, s.told("recall:", turn.Limits{})))
	third := s.told("recall:", turn.Limits{})
	assert.Equal(t, "say: one|recall:", output(t, third))
	assert.Equal(t, first.Session, third.Session)
	assert.Empty(t, third.Warnings)
	effects := s.requireEffects(3)
	assert.Equal(t, effects[0].Cwd, effects[2].Cwd)
	assert.Equal(t, []int{2, 1, 1}, []int{effects[0].Blocks, effects[1].Blocks, effects[2].Blocks}, "the standing instructions go before the first goal only")
}

// SPEC.md, Standing sessions: an agent that was ended, by whatever, takes the session up again, and its own account of what was said
// is no part of the next turn.
func TestAStandingSessionOutlivesItsAgent(t *testing.T) {
	for name, end := range map[string]func(*standing){
		"killed between goals": func(s *standing) {
			s.kill(s.requireEffects(1)[0].PID)
		},
		"died in a turn": func(s *standing) {
			assert.Equal(s.t, wire.ReasonAgentCrashed, s.turn(s.t.Context(), "crash: 3 x").Reason)
		},
		"ended by the ladder": func(s *standing) {
			ctx, cancel := context.WithCancel(s.t.Context())
			done := s.background(ctx, "deaf: ;; mute:")
			s.requireEffects(2)
			cancel()
			assert.Equal(s.t, wire.OutcomeCancelled, (<-done).Outcome)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := standTalking(t, func(c *Config) { c.CancelGrace, c.EndGrace = 100*time.Millisecond, 100*time.Millisecond })
			first := s.told("say: one", turn.Limits{})
			end(s)
			again := s.told("recall:", turn.Limits{})
			assert.True(t, strings.HasPrefix(output(t, again), "say: one"), output(t, again))
			assert.NotContains(t, output(t, again), "replayed")
			assert.Equal(t, first.Session, again.Session)
			assert.Empty(t, again.Warnings)
			effects := agenttest.Effects(t, s.effects)
			last := effects[len(effects)-1]
			assert.NotEqual(t, effects[0].PID, last.PID)
			assert.Equal(t, effects[0].Cwd, last.Cwd)
			assert.Equal(t, 1, last.Blocks)
		})
	}
}

// The next harness on the same data directory finds the session, too.
func TestAStandingSessionOutlivesTheHarness(t *testing.T) {
	t.Parallel()
	s := standTalking(t)
	first := s.told("say: one ;; spent: 60 20", turn.Limits{})
	require.NoError(t, s.pool.End(t.Context()))
	require.NoError(t, <-s.ended)
	pool, err := New(s.pool.cfg)
	require.NoError(t, err)
	next := &standing{t: t, pool: pool, dir: s.dir, effects: s.effects}
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(context.Background()) }() //nolint:usetesting // it outlives the test's context
	again := next.told("recall: ;; spent: 60 20", turn.Limits{Tokens: 100})
	assert.Equal(t, "say: one ;; spent: 60 20", output(t, again))
	assert.Equal(t, first.Session, again.Session)
	assert.EqualValues(t, 80, *used(t, again).TotalTokens)
	assert.Empty(t, again.Warnings)
	require.NoError(t, pool.End(t.Context()))
	require.NoError(t, <-ended)
}

// SPEC.md, Standing sessions: what cannot be taken up again is begun anew; the next envelope says so, and no other.
func TestAStandingSessionThatIsLostIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		want string
		time time.Duration // to start, of which loading has half
	}{
		"an agent that cannot load":     {nil, "the agent cannot load sessions", limit},
		"an agent that refuses":         {[]string{"AGENT_LOAD=fail"}, "session not found", limit},
		"an agent that does not answer": {[]string{"AGENT_LOAD=mute"}, "no answer in time", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := c.env
			if env != nil {
				env = append(env, "AGENT_MEMORY="+t.TempDir())
			}
			s := stand(t, env, oneSession, func(cfg *Config) { cfg.StartTimeout = c.time })
			first := s.told("say: one", turn.Limits{})
			require.NoError(t, syscall.Kill(s.requireEffects(1)[0].PID, syscall.SIGKILL))
			require.Eventually(t, func() bool { return len(s.states()) == 3 }, limit, time.Millisecond)
			again := s.told("recall: ;; say: nothing", turn.Limits{})
			assert.Equal(t, "nothing", output(t, again))
			assert.NotEqual(t, first.Session, again.Session)
			require.Len(t, again.Warnings, 1)
			assert.Contains(t, again.Warnings[0], "memory was lost")
			assert.Contains(t, again.Warnings[0], c.want)
			assert.Equal(t, 2, s.requireEffects(2)[1].Blocks, "it is told who it is again")
			assert.Empty(t, s.told("say: x", turn.Limits{}).Warnings)
		})
	}
}

// SPEC.md, Trust: the agent can write the note. It is believed no further than that a session of that name may be loaded.
func TestANoteIsBelievedNoFurtherThanItGoes(t *testing.T) {
	w := newWorkshop(t.TempDir())
	_, known := w.recall()
	assert.False(t, known)
	for name, text := range map[string]string{"no JSON": "{", "no session": "{}", "too long": `{"session":"s","dir":"` + strings.Repeat("x", maxTalkBytes) + `"}`, "another type": `{"session":1}`} {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, talkFile), []byte(text), 0o600))
		_, known := w.recall()
		assert.False(t, known, name)
	}
	n := note{"s", "/d", true, turn.Account{Input: 1, Cost: "0.5", Currency: "USD"}, "x"}
	require.NoError(t, w.keep(n))
	got, known := w.recall()
	assert.True(t, known)
	assert.Equal(t, n, got)
	dir, err := w.open()
	require.NoError(t, err)
	w.discard(dir)
	again, err := w.reopen(dir)
	require.NoError(t, err)
	assert.DirExists(t, again, "an empty one may have been removed")
	for _, dir := range []string{"", "/etc", dir + "/../../x", filepath.Join(w.dir, "work"), dir + "/deeper", "session-1"} {
		_, err := w.reopen(dir)
		assert.ErrorContains(t, err, "expected one of this harness", dir)
	}
}

// R30: a run's budget is not used up by the runs before it, although agents count from the session's beginning.
func TestABudgetInAStandingSessionIsTheRunsOwn(t *testing.T) {
	t.Parallel()
	s := standTalking(t)
	for range 3 {
		e := s.told("say: x ;; spent: 60 20", turn.Limits{Tokens: 100})
		assert.EqualValues(t, 80, *used(t, e).TotalTokens)
		assert.EqualValues(t, 60, *used(t, e).InputTokens)
	}
	s.kill(s.requireEffects(3)[0].PID)
	e := s.told("say: x ;; spent: 60 20", turn.Limits{Tokens: 100})
	assert.EqualValues(t, 80, *used(t, e).TotalTokens, "a new process goes on counting")
	e = s.pool.Turn(t.Context(), turn.Goal{Text: "spent: 90 20", Limits: turn.Limits{Tokens: 100}}, func(string) error { return nil })
	assert.Equal(t, wire.ReasonBudgetExceeded, e.Reason)
}

// What an agent says after its answer is no evidence that it did the next goal (SPEC.md, Standing sessions).
func TestWhatComesAfterAnAnswerIsNotTheNextTurns(t *testing.T) {
	t.Parallel()
	const window = 3 * time.Second
	s := standTalking(t, func(c *Config) { c.late = window })
	over, said := filepath.Join(t.TempDir(), "over"), filepath.Join(t.TempDir(), "said")
	assert.Equal(t, "one", output(t, s.told("say: one ;; late: "+over+" "+said+" too late", turn.Limits{})))
	time.AfterFunc(window/4, func() { assert.NoError(t, os.WriteFile(over, nil, 0o600)) }) // the next goal is there by then
	assert.Equal(t, wire.ReasonNoEvidence, s.turn(t.Context(), "wait: "+said).Reason)
	assert.Equal(t, "x", output(t, s.told("say: x", turn.Limits{})))
}

// SPEC.md, Standing sessions: each goal says what it wants.
func TestAGoalChoosesItsSession(t *testing.T) {
	goal := func(s *standing, mode wire.SessionMode, text string) wire.Envelope {
		e := s.pool.Turn(t.Context(), turn.Goal{Text: text, Session: mode}, func(string) error { return nil })
		require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
		return e
	}
	for _, usual := range []wire.SessionMode{wire.SessionFresh, wire.SessionStanding} {
		t.Run(string(usual), func(t *testing.T) {
			s := stand(t, nil, func(c *Config) { c.Session = usual })
			one := goal(s, wire.SessionStanding, "say: one")
			fresh := goal(s, wire.SessionFresh, "recall: ;; say: nothing")
			assert.Equal(t, "nothing", output(t, fresh))
			assert.NotEqual(t, one.Session, fresh.Session)
			assert.Equal(t, "say: one", output(t, goal(s, wire.SessionStanding, "recall:")))
			another := goal(s, wire.SessionFresh, "recall: ;; say: nothing")
			assert.NotEqual(t, fresh.Session, another.Session)
			usually := goal(s, "", "recall: ;; say: .")
			assert.Equal(t, usual == wire.SessionStanding, output(t, usually) == "say: one|recall:.", output(t, usually))
			assert.Empty(t, usually.Warnings)
		})
	}
	t.Run("several agents", func(t *testing.T) {
		s := stand(t, nil, func(c *Config) { c.Concurrency = 2 })
		e := goal(s, wire.SessionStanding, "recall: ;; say: x")
		require.Len(t, e.Warnings, 1)
		assert.Contains(t, e.Warnings[0], "the session was a fresh one")
	})
}

// host is a guest that knows the connection, as people's clients do.
type host struct {
	nobody
	conn chan *router.Conn
}

func (h host) Rose(_ int, conn *router.Conn, _ router.Agent) { h.conn <- conn }

// A client may prompt in the standing session, too: a goal waits for it, and what it was about is not the goal's.
func TestAGoalWaitsForAClientsPrompt(t *testing.T) {
	t.Parallel()
	guests := host{conn: make(chan *router.Conn, 1)}
	s := standTalking(t, func(c *Config) { c.Guests = guests })
	session := s.told("say: one", turn.Limits{}).Session
	gate := filepath.Join(t.TempDir(), "gate")
	prompt := func(text string) *router.Call {
		call, err := (<-guests.conn).Send(acp.AgentMethodSessionPrompt, acp.PromptRequest{SessionId: acp.SessionId(session), Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		require.NoError(t, err)
		return call
	}
	call := prompt("say: a client's ;; spent: 1000 0 ;; wait: " + gate)
	s.requireEffects(2)
	done := s.background(t.Context(), "recall: ;; spent: 1 0")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	<-call.Done()
	e := <-done
	assert.Contains(t, output(t, e), "a client's", "it is the same conversation")
	assert.EqualValues(t, 1, *used(t, e).TotalTokens)
	assert.Len(t, s.states(), 1)
}

// latecomer is a client that prompts in the standing session in the last moment before a goal has it.
type latecomer struct {
	host
	text   string
	call   chan *router.Call
	prompt *sync.Once
}

func (l latecomer) Begin(_ int, session string, run turn.Run, _ func(error)) {
	if run.UID != "second" {
		return
	}
	l.prompt.Do(func() {
		call, err := (<-l.conn).Send(acp.AgentMethodSessionPrompt, acp.PromptRequest{SessionId: acp.SessionId(session), Prompt: []acp.ContentBlock{acp.TextBlock(l.text)}})
		if err == nil {
			l.call <- call
		}
	})
}

// … also for one that came between the goal's look and its own prompt.
func TestAGoalWaitsForAPromptOfTheLastMoment(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	guests := latecomer{host: host{conn: make(chan *router.Conn, 1)}, text: "say: a client's ;; spent: 1000 0 ;; wait: " + gate, call: make(chan *router.Call, 1), prompt: new(sync.Once)}
	s := standTalking(t, func(c *Config) { c.Guests = guests })
	s.told("say: one", turn.Limits{})
	done := make(chan wire.Envelope, 1)
	go func() {
		done <- s.pool.Turn(t.Context(), turn.Goal{Run: turn.Run{UID: "second"}, Text: "recall: ;; spent: 1 0"}, func(string) error { return nil })
	}()
	call := <-guests.call
	s.requireEffects(2)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	<-call.Done()
	e := <-done
	assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.True(t, strings.HasPrefix(e.Output.Value, "say: one"), e.Output.Value)
	assert.EqualValues(t, 1, *e.Usage.TotalTokens, "what the client's prompt used is not the goal's")
}

// A client whose prompt the agent says nothing to holds up no goal for ever.
func TestASilentClientsPromptIsEndedForAGoal(t *testing.T) {
	t.Parallel()
	guests := host{conn: make(chan *router.Conn, 2)}
	s := standTalking(t, func(c *Config) { c.Guests, c.Silence = guests, 3*time.Second })
	session := s.told("say: one", turn.Limits{}).Session
	_, err := (<-guests.conn).Send(acp.AgentMethodSessionPrompt, acp.PromptRequest{SessionId: acp.SessionId(session), Prompt: []acp.ContentBlock{acp.TextBlock("mute:")}})
	require.NoError(t, err)
	s.requireEffects(2)
	e := s.told("recall:", turn.Limits{})
	assert.Equal(t, "say: one|mute:", output(t, e))
	assert.Empty(t, e.Warnings)
	assert.Equal(t, []wire.AgentState{"ready", "down", "ready"}, s.states())
}

func TestNewNamesWhatIsWrongWithASession(t *testing.T) {
	good := Config{Command: []string{"/bin/sh"}, DataDir: "/tmp", Concurrency: 2, Permissions: turn.Deny, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	for mode, want := range map[wire.SessionMode]string{"standing": "session standing: expected a concurrency of 1, got 2", "both": `session "both": expected fresh or standing`} {
		good.Session = mode
		_, err := New(good)
		assert.ErrorContains(t, err, want)
	}
}

// SPEC.md, Standing sessions, with an agent that keeps its sessions itself.
func TestGooseRemembersInAStandingSession(t *testing.T) {
	t.Parallel()
	g := standGoose(t, oneSession, allow)
	marker := filepath.Join(t.TempDir(), "marker")
	limits := turn.Limits{Tokens: 40}
	first := g.told("say: one\nusage: 30 4", limits)
	second := g.told("say: two\nusage: 30 4", limits)
	g.kill(goosePID(t, g))
	third := g.told("say: three\nusage: 30 4", limits)
	for _, e := range []wire.Envelope{first, second, third} {
		assert.Equal(t, first.Session, e.Session)
		assert.EqualValues(t, 34, *used(t, e).TotalTokens, "each run's own")
		assert.Empty(t, e.Warnings)
	}
	assert.Equal(t, "three", output(t, third))
	measured := g.told("shell: touch "+marker+"\nsay: done", turn.Limits{})
	assert.True(t, exists(marker))
	assert.Equal(t, wire.Tools{Calls: 1}, measured.Tools)
	e := g.turn(t.Context(), "fail: 400")
	assert.Equal(t, wire.ReasonAgentError, e.Reason, "what the turns before left is no evidence: %+v", e)
}
