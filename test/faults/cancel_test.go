//go:build faults

package faults_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 33: a cancel before the start, during a tool call, while a permission is open, after the harness has the result, and after the
// record. What had not ended is Cancelled; what had keeps its result.
func TestRow33_CancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1), func(a *hearthv1.Agent) { a.Spec.Runtime.Permissions.Policy = hearthv1.PermissionAsk })
	w.Ready("reviewer", 1)

	tool := w.Run("reviewer", "tool: in_progress ;; mute:")
	w.Await(tool, hearthv1.ReasonRunning)
	queued := w.Run("reviewer", endless)
	w.Await(queued, hearthv1.ReasonQueued)
	w.Cancel(queued)
	assert.Equal(t, hearthv1.ReasonCancelled, w.Ended(queued).Status.Reason)
	assert.Empty(t, w.EffectsOf(queued))
	w.Cancel(tool)
	assert.Equal(t, hearthv1.ReasonCancelled, w.Ended(tool).Status.Reason)

	asks := w.Run("reviewer", "say: may I? ;; permit: allow_once,reject_once ;; mute:")
	w.Await(asks, hearthv1.ReasonRunning)
	w.Cancel(asks)
	assert.Equal(t, hearthv1.ReasonCancelled, w.Ended(asks).Status.Reason)

	hold := w.Hold(crashpoint.AfterResult)
	done := w.Run("reviewer", "say: the real result")
	hit := hold.Wait()
	w.Cancel(done)
	hit.Go()
	got := w.Ended(done)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.Equal(t, "the real result", got.Status.Output.Value)

	late := works(t, w, "reviewer")
	w.Cancel(late)
	works(t, w, "reviewer")
	assert.Equal(t, late.Status, w.Get(late).Status, "a record never changes")
	atMostOnce(t, w, tool, queued, asks, done, late)
}

// Row 33, across a restart: the cancel was decided and nothing of it was sent. The next controller sends it.
func TestRow33_CancelledAndTheControllerKilledBeforeItWasSent(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	w.Ready("reviewer", 1)
	run := w.Run("reviewer", endless)
	w.Await(run, hearthv1.ReasonRunning)
	hold := w.Hold(crashpoint.AfterCancelSeen)
	w.Cancel(run)
	hold.Wait().Kill()
	assert.Nil(t, w.Get(run).Status.CompletionTime)
	w.Controller()
	got := w.Ended(run)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason)
	assert.Equal(t, "Cancelled", got.Status.Outcome, "the harness's own word")
	atMostOnce(t, w, run)
}

var saidPID = regexp.MustCompile(`pid=(\d+)`)

// Rows 21 and 52: an agent that ignores cancel and SIGTERM is killed with its whole group; the other one of the same harness ends by
// itself, and the harness goes on.
func TestRow52_OneOfTwoCancelledByForce(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(2, 0))
	pod := w.Ready("reviewer", 1)[0]
	release := filepath.Join(t.TempDir(), "release")
	deaf := w.Run("reviewer", "deaf: ;; child: ;; mute:")
	other := w.Run("reviewer", "child: ;; wait: "+release+" ;; say: by itself")
	w.Await(deaf, hearthv1.ReasonRunning)
	w.Await(other, hearthv1.ReasonRunning)
	w.Cancel(deaf)
	got := w.Ended(deaf)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason)
	require.Nil(t, w.Get(other).Status.CompletionTime)
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	assert.Contains(t, w.Await(other, succeeded).Status.Output.Value, "by itself")
	assert.Zero(t, pod.Restarts(), "no process but the agent's was ended")
	works(t, w, "reviewer")
	atMostOnce(t, w, deaf, other)
}

// Row 21: an agent that says nothing for the silence limit ends its run, and it dies with all that it started.
func TestRow21_MuteAndDeaf(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", variable("HEARTH_SILENCE", "3s"))
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", "deaf: ;; child: ;; mute:")
	begun(t, w, run)
	before := pod.Agents()
	require.NotEmpty(t, before)
	got := w.Ended(run)
	assert.Equal(t, "AgentSilent", got.Status.Reason)
	assert.Equal(t, hearthv1.PhaseFailed, got.Status.Phase)
	works(t, w, "reviewer")
	for _, pid := range before {
		assert.NotContains(t, pod.Agents(), pid, "the agent that was silent")
	}
	if said := saidPID.FindStringSubmatch(got.Status.Output.Value); assert.NotNil(t, said) {
		assert.Positive(t, number(t, said[1]))
	}
	assert.Empty(t, sleepers(t, pod), "what it started is gone too")
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// sleepers are the processes that agents of the Pod left: they sleep for an hour (test/agent), and have its data directory as theirs.
func sleepers(t *testing.T, pod *rig.Pod) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	require.NoError(t, err)
	var found []string
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && within(cwd, pod.Data()) {
			if args, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline")); err == nil && regexp.MustCompile(`\x00sleep\x00`).Match(args) {
				found = append(found, link)
			}
		}
	}
	return found
}

func within(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// Row 20: an agent killed in mid-turn ends its run at once; port 4000 is closed until another answers, which the Pod's readiness shows; and
// then everything goes on.
func TestRow20_TheAgentIsKilledInMidTurn(t *testing.T) {
	t.Parallel()
	start := filepath.Join(t.TempDir(), "start") // without it no agent starts
	require.NoError(t, os.WriteFile(start, nil, 0o600))
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", variable("AGENT_START", "exit"), variable("AGENT_START_FILE", start))
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", endless)
	w.Await(run, hearthv1.ReasonRunning)
	require.NoError(t, os.Remove(start))
	pod.KillAgent()
	got := w.Ended(run)
	assert.Equal(t, "AgentCrashed", got.Status.Reason)
	w.Eventually("port 4000 refuses", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(pod.IP, "4000"))
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	w.Eventually("it is not ready", func() bool { return !pod.Ready() })
	require.NoError(t, os.WriteFile(start, nil, 0o600))
	works(t, w, "reviewer")
	assert.Zero(t, pod.Restarts(), "the harness lives")
	atMostOnce(t, w, run)
}
