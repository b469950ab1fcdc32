package standing

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/turn"
)

func wantJSON(c *Config) { c.Output = turn.JSON }

// SPEC.md, JSON output, with an agent process: the second prompt goes into the same session, and can be cancelled.
func TestAGoalIsAnsweredInJSON(t *testing.T) {
	t.Parallel()
	s := stand(t, nil, wantJSON)
	for _, c := range []struct {
		goal, value string
		reason      wire.Reason
		prompts     int
	}{
		{`say: looking ;; tool: completed ;; say: {"a": 1.0}`, `{"a": 1.0}`, "Completed", 1},
		{`repair: {"a":2} ;; say: It is 2.`, `{"a":2}`, "Completed", 2},
		{`repair: still words ;; say: words`, "words\nstill words", "InvalidOutput", 2},
		{`stop: max_tokens ;; say: {`, "{", "LimitReached", 1},
	} {
		e := s.turn(t.Context(), c.goal)
		assert.Equal(t, c.reason, e.Reason, "%s: %+v", c.goal, e)
		assert.Equal(t, c.value, output(t, e), c.goal)
		assert.Equal(t, c.reason == "Completed", e.Output.MediaType == "application/json", c.goal)
		effects := s.requireEffects(c.prompts)
		assert.Equal(t, effects[0].Session, effects[c.prompts-1].Session)
		assert.NoError(t, os.Remove(s.effects))
	}
	gate := filepath.Join(t.TempDir(), "gate")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := s.background(ctx, "say: words ;; wait: "+gate)
	s.requireEffects(1)
	cancel(errors.New("enough"))
	assert.Equal(t, wire.OutcomeCancelled, (<-done).Outcome)
}

// SPEC.md, JSON output, with a real agent. Its model says again what the second prompt quotes.
func TestGooseIsAskedForJSONOnceMore(t *testing.T) {
	t.Parallel()
	g := standGoose(t, wantJSON)
	e := g.turn(t.Context(), `say: {"n": 1.50}`+"\nusage: 30 4")
	assert.Equal(t, &wire.Output{MediaType: "application/json", Value: `{"n": 1.50}`}, e.Output, e.Message)
	assert.EqualValues(t, 34, *used(t, e).TotalTokens)

	e = g.turn(t.Context(), `say: {"x say: [7] \u003b; y":1,"x say: [7] \u003b; y":2}`+"\nusage: 30 4")
	assert.Equal(t, &wire.Output{MediaType: "application/json", Value: `[7]`}, e.Output, "%+v", e)
	assert.Greater(t, *used(t, e).TotalTokens, int64(34), "of both prompts")
	assert.Len(t, e.Warnings, 1)
	assert.Equal(t, 3, g.model.Turns())

	e = g.turn(t.Context(), "say: no JSON")
	assert.Equal(t, wire.ReasonInvalidOutput, e.Reason, "%+v", e)
	assert.Contains(t, output(t, e), "no JSON")
	assert.Equal(t, 5, g.model.Turns(), "one more prompt, and no third one")
}
