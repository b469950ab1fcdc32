package standing

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// SPEC.md, Harness: ten failed starts in a row end the harness with a message.
func TestFailedStartsInARowEndThePool(t *testing.T) {
	for _, c := range []struct {
		name, want string
		env        []string
		change     func(*Config)
	}{
		{"exits", "initialize: agent process exited with status 7; stderr ends: the start file is not there", []string{"AGENT_START=exit"}, nil},
		{"mute", "initialize: no answer within 50ms", []string{"AGENT_START=mute"}, func(c *Config) { c.StartTimeout = 50 * time.Millisecond }},
		{"another version", "the agent answered protocolVersion 2; expected 1", []string{"AGENT_PROTOCOL=2"}, nil},
		{"no session", "session/new: authentication required (code -32000)", []string{"AGENT_SESSIONS=fail"}, nil},
		{"no ACP", "1 lines of its output were no messages of the Agent Client Protocol", nil, func(c *Config) { c.Command = []string{"echo", "hello"} }},
		{"echo", "initialize:", nil, func(c *Config) { c.Command = []string{"cat"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stand(t, c.env, func(cfg *Config) {
				cfg.MaxFailedStarts = 3
				if c.change != nil {
					c.change(cfg)
				}
			})
			err := <-s.ended
			require.ErrorContains(t, err, "could not be started 3 times in a row")
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, wire.AgentStarting, s.pool.State().State)
			assert.Equal(t, 3, strings.Count(s.logged(), "agent: start failed"))
			assert.Equal(t, "not started: the agent is not available", s.turn(t.Context(), "say: x").Message)
		})
	}
}

// A slot whose agent cannot be started ends no turn of the others: the harness ends when no slot has an agent.
func TestASlotThatCannotStartLeavesTheOthersAlone(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "second-fails")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ncase $HOME in */1/home) exit 7;; esac\nexec "+agenttest.Build(t)+"\n"), 0o700)) //nolint:gosec // it is run
	s := stand(t, nil, func(c *Config) { c.Concurrency, c.MaxFailedStarts, c.Command = 2, 3, []string{script} })
	gate := filepath.Join(dir, "gate")
	done := s.background(t.Context(), "wait: "+gate+" ;; say: undisturbed")
	s.requireEffects(1)
	require.Eventually(t, func() bool { return strings.Contains(s.logged(), "failures=5") || len(s.ended) > 0 }, limit, time.Millisecond)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	e := <-done
	require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.Equal(t, "undisturbed", output(t, e))

	// The healthy one dies and never comes back: now nobody is there.
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexit 8\n"), 0o700)) //nolint:gosec // it is run
	s.turn(t.Context(), "die:")
	require.ErrorContains(t, <-s.ended, "times in a row")
	assert.Equal(t, wire.AgentDown, s.pool.State().State)
}

// SPEC.md, Harness: an agent that ended before the rest of the harness was open was never announced, and is started again.
func TestAnAgentIsAnnouncedOnceTheRestIsOpen(t *testing.T) {
	opened := make(chan struct{})
	var most atomic.Int64
	s := stand(t, nil, func(c *Config) {
		c.Opened = opened
		c.Signals.Up = func(agents int) { most.Store(max(most.Load(), int64(agents))) }
	})
	ready := regexp.MustCompile(`agent: ready.* pid=(\d+)`)
	nth := func(n int) int {
		require.Eventually(t, func() bool { return len(ready.FindAllString(s.logged(), -1)) >= n }, limit, time.Millisecond)
		pid, err := strconv.Atoi(ready.FindAllStringSubmatch(s.logged(), -1)[n-1][1])
		require.NoError(t, err)
		return pid
	}
	require.NoError(t, syscall.Kill(nth(1), syscall.SIGKILL))
	second := nth(2)
	assert.Empty(t, s.states())
	assert.Zero(t, most.Load())
	assert.Equal(t, wire.AgentStarting, s.pool.State().State)
	close(opened)
	s.ready()
	assert.Equal(t, []wire.AgentState{"ready"}, s.states())
	s.turn(t.Context(), "say: x")
	assert.Equal(t, second, s.requireEffects(1)[0].PID, "the one that waited")
}

// A harness that ends while it opens the rest ends the agent that waits for that.
func TestAnAgentThatWaitsToBeAnnouncedIsEnded(t *testing.T) {
	s := stand(t, nil, func(c *Config) { c.Opened = make(chan struct{}) })
	require.Eventually(t, func() bool { return strings.Contains(s.logged(), "agent: ready") }, limit, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, s.pool.End(ctx))
	require.NoError(t, <-s.ended)
	assert.Empty(t, s.states())
}

func TestAnAgentThatStartsInTheEndIsReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "start")
	s := stand(t, []string{"AGENT_START=exit", "AGENT_START_FILE=" + file}, func(c *Config) { c.MaxFailedStarts, c.MaxFirstStarts = 1000, 1000 })
	require.Eventually(t, func() bool { return strings.Contains(s.logged(), "failures=3") }, limit, time.Millisecond)
	assert.False(t, s.answers())
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s.ready()
}
