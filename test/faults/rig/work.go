package rig

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Parameters of the Agents that a World makes.
const (
	paramGoal  = "goal"  // what the scripted agent does (test/agent)
	paramToken = "token" // tells the run in the effects, and may be found nowhere else
)

// Agent makes a Service Agent around the scripted agent.
func (w *World) Agent(name string, change ...func(*hearthv1.Agent)) *hearthv1.Agent {
	w.t.Helper()
	a := &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: hearthv1.AgentSpec{
			Mode:         hearthv1.AgentModeService,
			GoalTemplate: "run: ${" + paramToken + "} ;; ${" + paramGoal + "}",
			Parameters:   []hearthv1.Parameter{{Name: paramGoal}, {Name: paramToken, Default: ptr.To("nobody")}},
			Runtime:      hearthv1.AgentRuntime{Command: []string{w.built.agent}, Delivery: &hearthv1.DeliveryRuntime{}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: hearthv1.AgentContainer, Image: "scripted", Env: []corev1.EnvVar{{Name: "AGENT_EFFECTS_FILE", Value: w.effects}, {Name: "AGENT_ENDS_FILE", Value: w.ends}},
			}}}},
		},
	}
	for _, f := range change {
		f(a)
	}
	require.NoError(w.t, w.User.Create(w.ctx, a))
	return a
}

// Ready waits until an Agent has n Pods that take work, and gives them, oldest first.
func (w *World) Ready(agent string, n int) []*Pod {
	w.t.Helper()
	var pods []*Pod
	w.Eventually(fmt.Sprintf("%d ready Pods of %s", n, agent), func() bool {
		pods = slices.DeleteFunc(w.Pods(agent), func(p *Pod) bool { return !p.Ready() })
		return len(pods) >= n
	})
	w.Sample()
	return pods
}

// Run makes a run of an Agent of the World, as a person would; the goal is in the scripted agent's words.
func (w *World) Run(agent, goal string, change ...func(*hearthv1.AgentRun)) *hearthv1.AgentRun {
	w.t.Helper()
	run, err := w.TryRun(agent, goal, change...)
	require.NoError(w.t, err)
	return run
}

// TryRun is Run for who expects an error, or is not the test's own goroutine.
func (w *World) TryRun(agent, goal string, change ...func(*hearthv1.AgentRun)) (*hearthv1.AgentRun, error) {
	w.mu.Lock()
	w.numbered++
	name := fmt.Sprintf("run-%d-x", w.numbered) // no name of a standing run
	w.mu.Unlock()
	token := "token" + rand.Text()
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: hearthv1.AgentRunSpec{
		AgentRef: hearthv1.AgentRef{Name: agent}, Parameters: map[string]string{paramGoal: goal, paramToken: token}}}
	for _, f := range change {
		f(run)
	}
	if err := w.User.Create(w.ctx, run); err != nil {
		return nil, fmt.Errorf("create a run: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[token] = run.UID
	return run, nil
}

// Get is a run as it is now; nil if it is gone.
func (w *World) Get(run *hearthv1.AgentRun) *hearthv1.AgentRun {
	w.t.Helper()
	got := &hearthv1.AgentRun{}
	err := w.Admin.Get(w.ctx, client.ObjectKeyFromObject(run), got)
	if apierrors.IsNotFound(err) || err == nil && got.UID != run.UID {
		return nil
	}
	require.NoError(w.t, err)
	return got
}

// Await waits until the run's phase, or the reason of its Succeeded condition, is one of these words. A run that ended otherwise fails
// the test at once.
func (w *World) Await(run *hearthv1.AgentRun, words ...string) *hearthv1.AgentRun {
	w.t.Helper()
	return w.Until(run, fmt.Sprint("one of ", words), func(r *hearthv1.AgentRun) bool {
		return slices.Contains(words, string(r.Status.Phase)) || slices.Contains(words, Reason(r))
	})
}

// Ended waits for the run's record.
func (w *World) Ended(run *hearthv1.AgentRun) *hearthv1.AgentRun {
	w.t.Helper()
	return w.Until(run, "its record", func(r *hearthv1.AgentRun) bool { return r.Status.CompletionTime != nil })
}

// Until waits until a condition holds of a run.
func (w *World) Until(run *hearthv1.AgentRun, what string, holds func(*hearthv1.AgentRun) bool) *hearthv1.AgentRun {
	w.t.Helper()
	var got *hearthv1.AgentRun
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(tick) {
		got = w.Get(run)
		require.NotNil(w.t, got, "run %s is gone; expected %s", run.Name, what)
		if holds(got) {
			return got
		}
		require.Nil(w.t, got.Status.CompletionTime, "run %s ended %s/%s (%s); expected %s", run.Name, got.Status.Phase, got.Status.Reason, got.Status.Message, what)
	}
	require.Fail(w.t, fmt.Sprintf("run %s never came to %s", run.Name, what), "it is %s/%s: %+v", got.Status.Phase, Reason(got), got.Status)
	return nil
}

// Eventually waits for a condition.
func (w *World) Eventually(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(tick) {
		if holds() {
			return
		}
	}
	require.Fail(w.t, "it never came to: "+what)
}

// Reason is that of the run's Succeeded condition.
func Reason(run *hearthv1.AgentRun) string {
	if c := meta.FindStatusCondition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

// Cancel asks for the run's end, as a person would.
func (w *World) Cancel(run *hearthv1.AgentRun) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))
	require.NoError(w.t, w.User.Patch(w.ctx, run.DeepCopy(), patch))
}

// Delete deletes the run, as a person would.
func (w *World) Delete(run *hearthv1.AgentRun) {
	w.t.Helper()
	require.NoError(w.t, client.IgnoreNotFound(w.User.Delete(w.ctx, run.DeepCopy(), client.Preconditions{UID: &run.UID})))
}

// Gone waits until the run is gone.
func (w *World) Gone(run *hearthv1.AgentRun) {
	w.t.Helper()
	w.Eventually("the end of "+run.Name, func() bool { return w.Get(run) == nil })
}
