package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// SPEC.md, Standing sessions: deliveries share one session, which the next agent process, and the next harness, load again.
func TestDeliveriesOfAStandingSessionRemember(t *testing.T) {
	p := newPlace(t)
	p.session, p.env = wire.SessionStanding, []string{"AGENT_MEMORY=" + t.TempDir()}
	b := p.ready("--session=Standing")
	assert.FileExists(t, filepath.Join(p.Dir, "standing.json"), "it is kept ready")
	answered := func(run, goal string) wire.Envelope {
		b.accepted(run, goal, wire.StateFinished)
		e := b.attempt(run).Envelope
		require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
		assert.Empty(t, e.Warnings)
		return *e
	}
	first := answered("first", "say: one")
	second := answered("second", "recall:")
	assert.Equal(t, "say: one", second.Output.Value)

	pid := agenttest.Effects(t, p.effects)[1].PID
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	b.log.AwaitNth(t, `acp: listening`, 2)
	third := answered("third", "recall:")
	assert.Equal(t, "say: one|recall:", third.Output.Value, "and nothing of what the agent repeated when it was loaded")

	b.kill()
	b = p.ready("--session=Standing")
	fourth := answered("fourth", "recall:")
	assert.Equal(t, "say: one|recall:|recall:", fourth.Output.Value)
	assert.Equal(t, []string{first.Session, first.Session, first.Session}, []string{second.Session, third.Session, fourth.Session})
	effects := agenttest.Effects(t, p.effects)
	require.Len(t, effects, 4)
	assert.NotEqual(t, pid, effects[2].PID)

	p.session = wire.SessionFresh
	fresh := answered("fresh", "recall: ;; say: new")
	assert.Equal(t, "new", fresh.Output.Value, "a goal of a session of its own knows nothing of it")
	assert.NotEqual(t, first.Session, fresh.Session)
}

// SPEC.md, JSON output: what is JSON is the output as it is; what is not is asked for again, once, in the same session.
func TestDeliveriesAreAnsweredInJSON(t *testing.T) {
	p := newPlace(t)
	b := p.ready("--output=application/json")
	prompts := 0
	for i, c := range []struct {
		goal    string
		output  wire.Output
		reason  wire.Reason
		prompts int
	}{
		{`say: {"a": 1.0}`, wire.Output{MediaType: "application/json", Value: `{"a": 1.0}`}, wire.ReasonCompleted, 1},
		{`repair: {"a":2} ;; say: It is 2.`, wire.Output{MediaType: "application/json", Value: `{"a":2}`}, wire.ReasonCompleted, 2},
		{`repair: still words ;; say: words`, wire.Output{MediaType: "text/plain", Value: "words\nstill words"}, wire.ReasonInvalidOutput, 2},
	} {
		run := "run-" + strconv.Itoa(i)
		b.accepted(run, c.goal, wire.StateFinished)
		e := b.attempt(run).Envelope
		assert.Equal(t, c.reason, e.Reason, "%s: %s", c.goal, e.Message)
		assert.Equal(t, c.reason == wire.ReasonCompleted, e.Outcome == wire.OutcomeSucceeded, c.goal)
		assert.Equal(t, &c.output, e.Output, c.goal)
		effects := agenttest.Effects(t, p.effects)
		require.Len(t, effects, prompts+c.prompts, c.goal)
		assert.Equal(t, effects[prompts].Session, effects[len(effects)-1].Session, c.goal)
		prompts = len(effects)
	}
}

// SPEC.md, JSON output: JSON that the termination message cannot carry whole is no success. The log has the whole, and the message
// what fits of it, as text.
func TestAOneShotHarnessLeavesNoHalfOfItsJSON(t *testing.T) {
	whole := `{"a":"` + strings.Repeat("x", wire.MaxTerminationBytes) + `"}`
	for name, c := range map[string]struct {
		value  string
		code   int
		output wire.Output
		reason wire.Reason
	}{
		"fits":     {`{"a": 1.0}`, 0, wire.Output{MediaType: "application/json", Value: `{"a": 1.0}`}, wire.ReasonCompleted},
		"does not": {whole, 1, wire.Output{MediaType: "text/plain", Value: whole}, wire.ReasonResultTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTask(t, "say: "+c.value)
			b := k.start("--output=application/json")
			assert.Equal(t, c.code, b.code(), b.log.String())
			e := k.envelope()
			assert.Equal(t, c.reason, e.Reason, e.Message)
			assert.Equal(t, c.output.MediaType, e.Output.MediaType)
			assert.True(t, strings.HasPrefix(c.output.Value, e.Output.Value))
			assert.Equal(t, c.value+"\n", b.out.String())
		})
	}
}
