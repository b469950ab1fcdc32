//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// unheard is what dies of a standing Pod whose agent has not answered yet, so that 4000 is closed.
var unheard = map[string]struct {
	kill func(*room, *corev1.Pod)
	// restarts are those of the container, and recasts those of the standing run, that follow.
	restarts, recasts int32
}{
	"agent":   {kill: (*room).killsAgent},
	"harness": {kill: (*room).killsHarness, restarts: 1},
	"pod": {kill: func(r *room, pod *corev1.Pod) {
		require.NoError(r.t, suite.Client.Delete(r.t.Context(), pod))
		r.ended(pod.Name, patiently)
	}, recasts: 1},
}

// TestKilledBeforeItListens is R2, R4 and R8 of a standing run whose agent, harness or Pod is killed before the port is bound. What
// died is started again, and counted, and nobody is told to dial before the next one listens.
func TestKilledBeforeItListens(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "unheard")
	for name, c := range unheard {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &room{t: t, namespace: r.namespace, watched: r.watched}
			r.agent(name, behindGate) // here, for after three minutes without an answer a harness gives up
			first := r.standing(name).Name
			r.seeWindow(first)
			c.kill(r, r.pod(name))

			next := r.standing(name).Name
			r.seeWindow(next)
			assert.Equal(t, c.recasts == 0, next == first, "%s, then %s", first, next)
			r.openGate(r.pod(name))
			run := r.await(next, "to listen", shortly, func(run *hearthv1.AgentRun) bool { return acpReady(run).Status == metav1.ConditionTrue })
			assert.Equal(t, c.restarts, run.Status.Restarts)
			assert.Equal(t, hearthv1.PhaseRunning, run.Status.Phase)
			r.waitReady(name)
			assert.Equal(t, c.recasts, r.readAgent(name).Status.Recasts)
			r.goesOneWay(first)
			r.succeeds("after-"+name, name)
		})
	}
}

// killsAgent kills the agent and waits until the harness has started another.
func (r *room) killsAgent(pod *corev1.Pod) {
	r.t.Helper()
	killed := r.kills(processOf(pod, "sh"))
	r.wait("another agent", shortly, func(context.Context) (bool, string, error) {
		pid := processOf(pod, "sh")
		return pid != 0 && pid != killed, fmt.Sprintf("process %d", pid), nil
	})
}

// killsHarness kills the container and waits until kubelet has started another.
func (r *room) killsHarness(pod *corev1.Pod) {
	r.t.Helper()
	killed := containerID(pod, hearthv1.AgentContainer)
	r.kills(mainProcess(pod, hearthv1.AgentContainer))
	r.wait("another container", shortly, func(ctx context.Context) (bool, string, error) {
		err := suite.Client.Get(ctx, r.key(pod.Name), pod)
		id := containerID(pod, hearthv1.AgentContainer)
		return err == nil && id != "" && id != killed, id, err
	})
	r.await(pod.Name, "to count the restart", shortly, func(run *hearthv1.AgentRun) bool { return run.Status.Restarts == 1 })
}

// kills is SIGKILL.
func (r *room) kills(pid int) int {
	r.t.Helper()
	if pid == 0 {
		r.t.Skip("SKIPPED, NOT SHOWN: the Pod's processes are not on this machine")
	}
	kill(r.t, pid)
	return pid
}

// goesOneWay: a run that was Running once is not Pending again, and one that has ended does not listen (R2, R4).
func (r *room) goesOneWay(name string) {
	r.t.Helper()
	runs := false
	for _, s := range r.watched.of(name) {
		assert.False(r.t, runs && s.run.Status.Phase == hearthv1.PhasePending, "it was Running before")
		runs = runs || s.run.Status.Phase == hearthv1.PhaseRunning
		if s.run.Status.CompletionTime != nil {
			assert.Equal(r.t, metav1.ConditionFalse, acpReady(s.run).Status)
			assert.Equal(r.t, hearthv1.ReasonFinished, acpReady(s.run).Reason)
		}
	}
	assert.True(r.t, runs, "it was seen Running")
}
