package deliver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

func key(run *hearthv1.AgentRun, attempt int64) harness.Key {
	return harness.Key{RunUID: string(run.UID), Attempt: attempt}
}

// R24 to R28, P7: created, reserved, sent, run, recorded; a short run costs exactly two writes.
func TestAShortRunIsRecordedWithTwoWrites(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	// Its clock stands still, so that no run is ever seen to take long.
	start := time.Now()
	p := w.controllerAt(func() time.Time { return start })
	// The link is open once a first run went through, so that the second finds room at once.
	w.ended(w.deliver("first", goal))
	run := w.deliver("second", goal)
	got := w.ended(run)

	p.wrote(t, "second", "Reserved", "Completed")
	s := got.Status
	assert.Equal(t, hearthv1.PhaseSucceeded, s.Phase)
	assert.Equal(t, "Completed", s.Reason)
	assert.Equal(t, "Succeeded", s.Outcome)
	require.NotNil(t, s.Output)
	assert.Equal(t, harness.Output(goal), s.Output.Value)
	assert.True(t, meta.IsStatusConditionTrue(s.Conditions, hearthv1.AgentRunConditionSucceeded))
	assert.True(t, meta.IsStatusConditionTrue(s.Conditions, hearthv1.AgentRunConditionDelivered))
	ready := meta.FindStatusCondition(s.Conditions, hearthv1.AgentRunConditionACPReady)
	require.NotNil(t, ready)
	assert.Equal(t, hearthv1.ReasonFinished, ready.Reason)
	assert.Equal(t, x.pod.Name, s.PodName)
	assert.Equal(t, x.pod.UID, s.PodUID)
	d := s.Delivery
	require.NotNil(t, d)
	assert.Equal(t, int64(1), d.Attempt)
	assert.Equal(t, "session-1", d.Session)
	assert.NotEmpty(t, d.Journal)
	assert.NotEmpty(t, d.Digest)
	assert.Equal(t, int64(1), d.TargetGeneration)
	require.NotNil(t, d.ReservedAt)
	require.NotNil(t, d.AcceptedAt)
	require.NotNil(t, s.StartTime)
	require.NotNil(t, s.RecordedAt)
	assert.Equal(t, start.UTC().Truncate(time.Microsecond), d.ReservedAt.UTC(), "reserved by the controller's clock")
	assert.False(t, d.AcceptedAt.Time.Before(start), "accepted and started by the harness's")
	assert.False(t, s.CompletionTime.Time.Before(s.StartTime.Time))
	assert.Equal(t, 1, x.harness.Runner.Started()[key(run, 1)])
}
