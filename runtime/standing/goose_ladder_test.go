package standing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

// thinking is people who never answer, as far as they were asked.
type thinking struct {
	nobody
	asked chan *router.Request
}

func (p thinking) Ask(_ int, question *router.Request, _ func()) { p.asked <- question }

// processesOf finds the living processes that a word of their command line gives away, wherever they have gone.
func processesOf(t *testing.T, word string) []string {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var found []string
	for _, d := range dirs {
		if line, err := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline")); err == nil && strings.Contains(string(line), word) {
			found = append(found, d.Name()+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// Fault row 33; SPEC.md, Cancel ladder: whatever goose is doing when it is cancelled, the turn is Cancelled with the reason, none of
// its processes lives, and the next goal works. Its shell's children outlive its own answer to the cancel: they are found and ended.
func TestGooseIsCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for n, c := range []struct {
		name, command string
		restarted     bool
	}{
		{"a shell tool", "touch BEGUN; sleep WORD", true},
		{"with a child", "sleep WORD & touch BEGUN; sleep WORD", true},
		{"with a child in its own session", "setsid sleep WORD & touch BEGUN; sleep WORD", true},
		{"with a child in its own session that shed its environment", "setsid env -i sleep WORD & touch BEGUN; sleep WORD", true},
		{"that is deaf, as is its child", "trap '' TERM INT HUP; sleep WORD & touch BEGUN; while :; do sleep 0.1; done", true},
		{"that has ended and left a child", "setsid sleep WORD >/dev/null 2>&1 & touch BEGUN\ngate: never", true},
		{"that has ended", "touch BEGUN\ngate: never", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := standGoose(t, allow)
			begun, word := filepath.Join(t.TempDir(), "begun"), fmt.Sprintf("86399.%d%d", os.Getpid(), n)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := g.background(ctx, "shell: "+strings.NewReplacer("BEGUN", begun, "WORD", word).Replace(c.command))
			require.Eventually(t, func() bool { return exists(begun) }, limit, 5*time.Millisecond)
			cancel(errors.New("the run was deleted"))
			e := <-done
			assert.Equal(t, wire.OutcomeCancelled, e.Outcome, e.Message)
			assert.Equal(t, "the run was deleted", e.Message)
			require.Eventually(t, func() bool { return len(processesOf(t, word)) == 0 }, limit, 5*time.Millisecond, "%s", processesOf(t, word))
			assert.Equal(t, wire.OutcomeSucceeded, g.turn(t.Context(), "say: again").Outcome)
			if !c.restarted {
				assert.Equal(t, []wire.AgentState{"ready"}, g.states())
			}
		})
	}
}

// Fault row 33: goose obeys.
func TestGooseCancelledWhileTheModelSpeaks(t *testing.T) {
	t.Parallel()
	g := standGoose(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := g.background(ctx, "say: x\ngate: never")
	require.Eventually(t, func() bool { return g.model.Turns() == 1 }, limit, time.Millisecond)
	cancel(errors.New("enough"))
	e := <-done
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome, e.Message)
	assert.Equal(t, "cancelled", e.StopReason)
	assert.Equal(t, wire.OutcomeSucceeded, g.turn(t.Context(), "say: again").Outcome)
	assert.Equal(t, []wire.AgentState{"ready"}, g.states(), "it was not restarted")
}

// Fault row 33: a cancel before the start sends nothing; one after the end changes nothing.
func TestGooseCancelledBeforeAndAfter(t *testing.T) {
	t.Parallel()
	g := standGoose(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("early"))
	assert.Equal(t, "cancelled before the start: early", g.turn(ctx, "say: x").Message)
	ctx, cancel = context.WithCancelCause(t.Context())
	e := g.pool.Turn(ctx, turn.Goal{Text: "say: x"}, func(string) error { cancel(errors.New("early")); return nil })
	assert.Equal(t, "cancelled before the start: early", e.Message)
	assert.Zero(t, g.model.Turns(), "nothing was sent")
	ctx, cancel = context.WithCancelCause(t.Context())
	e = g.turn(ctx, "say: done")
	cancel(errors.New("late"))
	assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.Equal(t, "again", output(t, g.turn(t.Context(), "say: again")))
	assert.Equal(t, []wire.AgentState{"ready"}, g.states())
}

// Fault row 33, R52: goose hangs for ever when it is cancelled with a question unanswered. The policy is Ask and nobody answers; the
// question is answered before the cancel is sent, so goose obeys, the tool does not run, and an answer that comes too late does nothing.
func TestGooseCancelledWhileAPermissionIsOpen(t *testing.T) {
	t.Parallel()
	people := thinking{asked: make(chan *router.Request, 1)}
	g := standGoose(t, func(c *Config) { c.Permissions, c.Guests = turn.Ask, people })
	marker := filepath.Join(t.TempDir(), "marker")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := g.background(ctx, "shell: touch "+marker)
	question := <-people.asked
	cancel(errors.New("nobody cares"))
	e := <-done
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome, e.Message)
	assert.Equal(t, "cancelled", e.StopReason, "%v", e.Warnings)
	_, settled := question.Settled()
	assert.True(t, settled)
	assert.NoError(t, question.Answer(acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected("allow_once")}))
	assert.Equal(t, "again", output(t, g.turn(t.Context(), "say: again")))
	assert.False(t, exists(marker))
	assert.Equal(t, []wire.AgentState{"ready"}, g.states(), "it was not ended by force")
}

// R52: with the policy Ask a person's yes is what lets goose's tool run.
func TestGooseRunsTheToolThatAPersonAllows(t *testing.T) {
	t.Parallel()
	people := thinking{asked: make(chan *router.Request, 1)}
	g := standGoose(t, func(c *Config) { c.Permissions, c.Guests = turn.Ask, people })
	marker := filepath.Join(t.TempDir(), "marker")
	done := g.background(t.Context(), "shell: touch "+marker+"\nsay: done")
	question := <-people.asked
	assert.False(t, exists(marker))
	require.NoError(t, question.Answer(acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected("allow_once")}))
	e := <-done
	assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.True(t, exists(marker))
	assert.Equal(t, wire.Tools{Calls: 1}, e.Tools)
}

// Fault row 21: a model that hangs makes goose silent; a word now and then does not.
func TestGooseWithAModelThatHangsIsSilent(t *testing.T) {
	t.Parallel()
	const silence, pause = 10 * time.Second, 20 * time.Millisecond // a loaded machine holds goose up for two seconds, and may for more
	g := standGoose(t, func(c *Config) { c.Silence = silence })
	began := time.Now()
	e := g.turn(t.Context(), fmt.Sprintf("slow: %d\nsay: so far\nhang:", silence*6/5/pause))
	assert.Equal(t, wire.OutcomeFailed, e.Outcome)
	assert.Equal(t, wire.ReasonAgentSilent, e.Reason, e.Message)
	assert.Contains(t, output(t, e), "so far", "what was said is kept")
	assert.Greater(t, time.Since(began), silence*6/5, "words kept it alive for longer than it may be silent")
	assert.Equal(t, wire.OutcomeSucceeded, g.turn(t.Context(), "say: again").Outcome)
}
