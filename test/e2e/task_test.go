//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	worker = "worker"
	// hugeBytes of output do not fit into a termination message of 4,096.
	hugeBytes = 300000
)

// task makes an Agent of mode Task of real goose: its goal is the parameter task.
func (r *room) task(name string, change func(*hearthv1.AgentSpec)) *hearthv1.Agent {
	r.t.Helper()
	return r.agent(name, func(spec *hearthv1.AgentSpec) {
		spec.Mode, spec.Goal, spec.Runtime.Delivery = hearthv1.AgentModeTask, "", nil
		if change != nil {
			change(spec)
		}
	})
}

// taskEnds are goals of a one-shot run, and what comes of them (R11).
var taskEnds = map[string]struct {
	goal   []string
	exit   int32
	status metav1.ConditionStatus
	reason string
	output string
}{
	"completes":     {[]string{"shell: echo counted", "say: no findings"}, 0, metav1.ConditionTrue, "Completed", "no findings"},
	"fails":         {[]string{"fail: 400"}, 1, metav1.ConditionFalse, "AgentError", ""},
	"is-at-a-limit": {[]string{"say: half of it", "finish: length"}, 2, metav1.ConditionFalse, "LimitReached", ""},
	"is-refused":    {[]string{"say: The provider refused this request.", "say: I stop here: resending this conversation is likely to be refused again."}, 3, metav1.ConditionFalse, "Refused", ""},
	"is-huge":       {[]string{fmt.Sprintf("huge: %d", hugeBytes)}, 0, metav1.ConditionTrue, "Completed", "xxxx"},
	"is-not-ascii":  {[]string{"say: " + strings.Repeat("äöü€🙂", 400)}, 0, metav1.ConditionTrue, "Completed", "äöü€🙂"},
}

// TestTask is R11 and R34 with real goose: a Pod for each run, its exit code and the envelope in its termination message, and the record.
func TestTask(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "task")
	agent := r.task(worker, nil)
	r.acceptsRuns(worker)
	for name, c := range taskEnds {
		r.ask(name, worker, c.goal...)
	}
	for name, c := range taskEnds {
		t.Run(name, func(t *testing.T) {
			r := &room{t: t, namespace: r.namespace, watched: r.watched}
			run := r.ended(name, patiently)
			assert.Equal(t, c.status, succeeded(run).Status, run.Status.Message)
			assert.Equal(t, c.reason, succeeded(run).Reason, run.Status.Message)
			assert.Equal(t, c.reason, run.Status.Reason)
			assert.Empty(t, run.Status.TerminationData, "an envelope of ours is read, not kept")
			r.isRecordOfOwnPod(run, agent)
			envelope := r.envelopeIn(run, c.exit)
			assert.Equal(t, run.Status.Outcome, string(envelope.Outcome))
			assert.Equal(t, run.Status.Reason, string(envelope.Reason))
			if c.output != "" {
				require.NotNil(t, run.Status.Output)
				assert.Contains(t, run.Status.Output.Value, c.output)
			}
			if name == "completes" {
				require.NotNil(t, run.Status.Usage)
				assert.Positive(t, ptr.Deref(run.Status.Usage.TotalTokens, 0))
				assert.Nil(t, run.Status.Truncation)
			}
			if strings.Contains(name, "huge") || strings.Contains(name, "ascii") {
				wasCut(t, run.Status, envelope)
			}
		})
	}
}

// acceptsRuns waits until the Agent says that runs can be made.
func (r *room) acceptsRuns(name string) {
	r.t.Helper()
	r.waitReady(name)
	var agent hearthv1.Agent
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(name), &agent))
	var runs hearthv1.AgentRunList
	require.NoError(r.t, suite.Client.List(r.t.Context(), &runs, client.InNamespace(r.namespace)))
	assert.Empty(r.t, runs.Items, "a Task Agent has no standing run")
}

// isRecordOfOwnPod: where the run ran, when, and that it ran once.
func (r *room) isRecordOfOwnPod(run *hearthv1.AgentRun, agent *hearthv1.Agent) {
	r.t.Helper()
	s := run.Status
	assert.Equal(r.t, run.Name, s.PodName)
	assert.NotEmpty(r.t, s.PodUID)
	assert.Nil(r.t, s.Delivery, "nobody delivers to it")
	assert.Equal(r.t, agent.UID, run.Spec.AgentRef.UID)
	assert.Equal(r.t, agent.Generation, run.Spec.AgentRef.Generation)
	assert.Empty(r.t, run.OwnerReferences, "the record outlives the Agent")
	assert.Empty(r.t, run.Finalizers)
	assert.Equal(r.t, metav1.ConditionFalse, acpReady(run).Status)
	assert.Equal(r.t, hearthv1.ReasonFinished, acpReady(run).Reason, "R4: on every path that ends it")
	assert.Empty(r.t, s.Address)
	require.NotNil(r.t, s.StartTime)
	require.NotNil(r.t, s.RecordedAt)
	assert.False(r.t, s.CompletionTime.Before(s.StartTime))
	require.NotNil(r.t, s.DurationSeconds)
	for _, seen := range r.watched.of(run.Name) {
		// From the first look of the run's controller on, ACPReady is there and the phase goes one way (R2, R4).
		if seen.run.Status.Phase != "" {
			assert.NotEmpty(r.t, acpReady(seen.run).Reason)
		}
	}
}

// envelopeIn reads what the harness left in the Pod that is there still.
func (r *room) envelopeIn(run *hearthv1.AgentRun, exit int32) wire.Envelope {
	r.t.Helper()
	var pod corev1.Pod
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(run.Status.PodName), &pod), "the Pod stays as long as the record")
	require.Equal(r.t, run.Status.PodUID, pod.UID)
	assert.Equal(r.t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != hearthv1.AgentContainer {
			continue
		}
		require.NotNil(r.t, status.State.Terminated)
		assert.Zero(r.t, status.RestartCount, "it was started once")
		assert.Equal(r.t, exit, status.State.Terminated.ExitCode)
		message := status.State.Terminated.Message
		assert.LessOrEqual(r.t, len(message), wire.MaxTerminationBytes)
		assert.True(r.t, utf8.ValidString(message))
		require.True(r.t, json.Valid([]byte(message)), "kubelet cut it: %d bytes", len(message))
		envelope, err := wire.DecodeTermination([]byte(message))
		require.NoError(r.t, err)
		return envelope
	}
	require.Fail(r.t, "kubelet says nothing of the agent container")
	return wire.Envelope{}
}

// wasCut: what did not fit was cut between runes, and the record says what the whole was.
func wasCut(t *testing.T, s hearthv1.AgentRunStatus, envelope wire.Envelope) {
	t.Helper()
	require.NotNil(t, s.Truncation)
	require.NotNil(t, envelope.Truncation)
	require.NotNil(t, s.Output)
	assert.Equal(t, envelope.Truncation.OriginalBytes, s.Truncation.OriginalBytes)
	assert.Greater(t, s.Truncation.OriginalBytes, int64(len(s.Output.Value)))
	assert.NotEmpty(t, s.Truncation.SHA256)
	assert.True(t, utf8.ValidString(s.Output.Value))
	assert.NotContains(t, s.Output.Value, string(utf8.RuneError), "a rune was split")
}
