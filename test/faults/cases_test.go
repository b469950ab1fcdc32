//go:build faults

package faults_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

const (
	succeeded = "Succeeded"
	endless   = "say: begun ;; mute:" // obeys a cancel, and nothing else ends it
)

// reviewers is a World with a controller and an Agent whose n Pods take work.
func reviewers(t *testing.T, n int, o rig.Options) (*rig.World, *rig.Controller, []*rig.Pod) {
	t.Helper()
	w := rig.New(t, o)
	c := w.Controller()
	w.Agent("reviewer", func(a *hearthv1.Agent) { replicas := int32(n); a.Spec.Replicas = &replicas }) //nolint:gosec // a few
	return w, c, w.Ready("reviewer", n)
}

// once asserts that a run succeeded by its first attempt, which was started once.
func once(t *testing.T, w *rig.World, got *hearthv1.AgentRun) {
	t.Helper()
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase, "%s: %s", got.Status.Reason, got.Status.Message)
	assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	assert.Len(t, w.EffectsOf(got), 1)
}

func named(w *rig.World, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.Namespace, Name: name}
}

// room sets how much an Agent's Pods carry out at once and hold.
func room(concurrency, queue int32) func(*hearthv1.Agent) {
	return func(a *hearthv1.Agent) {
		a.Spec.Runtime.Delivery.Concurrency, a.Spec.Runtime.Delivery.Queue = concurrency, ptr.To(queue)
	}
}

// variable sets an environment variable of the container, a harness's flag for example.
func variable(name, value string) func(*hearthv1.Agent) {
	return func(a *hearthv1.Agent) {
		c := &a.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// works shows that an Agent still, or again, carries out what it is given.
func works(t *testing.T, w *rig.World, agent string) *hearthv1.AgentRun {
	t.Helper()
	run := w.Run(agent, "say: it works")
	got := w.Await(run, succeeded)
	assert.Equal(t, "it works", got.Status.Output.Value)
	assert.Len(t, w.EffectsOf(run), 1)
	return got
}

// begun waits until the agent has really started the run's work.
func begun(t *testing.T, w *rig.World, run *hearthv1.AgentRun) {
	t.Helper()
	w.Eventually("the start of the work for "+run.Name, func() bool { return len(w.EffectsOf(run)) > 0 })
}

// atMostOnce: without a backoffLimit a run has one effect or none.
func atMostOnce(t *testing.T, w *rig.World, runs ...*hearthv1.AgentRun) {
	t.Helper()
	for _, run := range runs {
		assert.LessOrEqual(t, len(w.EffectsOf(run)), 1, run.Name)
	}
}

// change edits an Agent as a person would.
func change(t *testing.T, w *rig.World, agent string, edit func(*hearthv1.Agent)) {
	t.Helper()
	a := &hearthv1.Agent{}
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // with a status
		if err := w.User.Get(context.WithoutCancel(t.Context()), named(w, agent), a); err != nil {
			return err
		}
		edit(a)
		return w.User.Update(context.WithoutCancel(t.Context()), a)
	}))
}

// held is a goal that is carried out until release is called.
func held(t *testing.T) (goal string, release func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "release")
	return "wait: " + file + " ;; say: released", func() { assert.NoError(t, os.WriteFile(file, nil, 0o600)) }
}
