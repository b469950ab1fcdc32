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
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

const (
	succeeded = "Succeeded"
	endless   = "say: begun ;; mute:" // obeys a cancel, and nothing else ends it
)

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
	return "wait: " + file, func() { assert.NoError(t, os.WriteFile(file, nil, 0o600)) }
}
