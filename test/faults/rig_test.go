//go:build faults

package faults_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// The rig itself: a run goes through real processes, leaves one effect, and a killed harness comes back in the same Pod.
func TestTheRigDeliversARun(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", "say: hello")
	got := w.Await(run, "Succeeded")
	assert.Equal(t, "hello", got.Status.Output.Value)
	effects := w.EffectsOf(run)
	if assert.Len(t, effects, 1) {
		assert.Equal(t, int64(1), effects[0].Attempt)
	}
	assert.Equal(t, 1, w.Reached(crashpoint.AfterAccepted))
	assert.Equal(t, pod.UID, got.Status.Delivery.PodUID)

	pod.Kill()
	w.Await(w.Run("reviewer", "say: again"), "Succeeded")
	assert.Equal(t, 1, pod.Restarts())
}
