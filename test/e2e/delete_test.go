//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// stopLimit is I4's: the agent's work for a deleted run ends within it.
	stopLimit = 30 * time.Second
	// stillFor is how long a file that grew five times a second must not grow.
	stillFor = 2 * time.Second
)

// TestDeletedWhileRunning is I4: the object is gone at once, and the work stops with its processes.
func TestDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "deleted")
	r.readyAgent(reviewer, nil)
	pod := r.pod(reviewer)
	run := r.ask("endless", reviewer, endless, "say: never said")
	r.running("endless")
	r.waitLines(pod, ticks, 3)

	require.NoError(t, suite.Client.Delete(t.Context(), run))
	deleted := time.Now()
	var gone hearthv1.AgentRun
	err := suite.Client.Get(t.Context(), r.key("endless"), &gone)
	require.True(t, apierrors.IsNotFound(err), "a deleted run is gone at once, got %v", err)

	r.wait("the work to stop", stopLimit, func(ctx context.Context) (bool, string, error) {
		left := r.processesWith(ctx, pod, ticks)
		return len(left) == 0, fmt.Sprintf("%d processes left", len(left)), nil
	})
	t.Logf("no process is left %s after the delete", time.Since(deleted).Round(100*time.Millisecond))
	size, since := -1, time.Now()
	r.wait("the file to stay as it is", stopLimit, func(ctx context.Context) (bool, string, error) {
		if now := len(r.lines(ctx, pod, ticks)); now != size {
			size, since = now, time.Now()
		}
		return time.Since(since) >= stillFor, fmt.Sprintf("%d lines", size), nil
	})
	r.succeeds("after-delete", reviewer)
	assert.Len(t, r.lines(t.Context(), pod, ticks), size, "it grew again")
	assert.Empty(t, r.processesWith(t.Context(), pod, ticks))
}

// processesWith are the command lines in the Pod that have the word; the one that looks has it not.
func (r *room) processesWith(ctx context.Context, pod *corev1.Pod, word string) []string {
	r.t.Helper()
	var found []string
	const commandLines = `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done 2>/dev/null`
	for line := range strings.Lines(r.sh(ctx, pod, commandLines)) {
		if strings.Contains(line, word) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
