//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	lagRounds = 20
	// lagAgents take turns, so that no backoff grows: of the harness that restarts its agent, of kubelet that restarts the harness.
	lagAgents = 10
)

// TestMeasureReadinessLag prints how long ACPReady stays True after an agent, or its harness, was killed. The agent comes back only
// after the flip was seen: a death that is over before the probe looks is not shown by a probe.
func TestMeasureReadinessLag(t *testing.T) {
	if os.Getenv(envMeasure) == "" {
		t.Skipf("a measurement: set %s=1", envMeasure)
	}
	r := newRoom(t, "lag")
	name := func(i int) string { return fmt.Sprintf("%s-%d", "mortal", i%lagAgents) }
	for i := range lagAgents {
		r.agent(name(i), behindGate)
	}
	var period int32
	for i := range lagAgents {
		pod := r.runningPod(name(i))
		r.probeIsAsPromised(pod)
		period = pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds
		r.openGate(pod)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\nACPReady turned False after SIGKILL, %d rounds each, seen by a watch; the probe's period is %d s; milliseconds\n", lagRounds, period)
	fmt.Fprintf(&table, "%-28s %8s %8s %8s %8s\n", "killed", "min", "p50", "p95", "max")
	for _, victim := range []struct {
		name string
		find func(*corev1.Pod) int
	}{
		{"the agent (goose)", func(pod *corev1.Pod) int { return processOf(pod, "goose") }},
		{"the harness", func(pod *corev1.Pod) int { return mainProcess(pod, hearthv1.AgentContainer) }},
	} {
		var lags []time.Duration
		for i := range lagRounds {
			lags = append(lags, r.lag(name(i), victim.find))
		}
		fmt.Fprintf(&table, "%-28s %8s %8s %8s %8s\n", victim.name, percentile(lags, 0), percentile(lags, 50), percentile(lags, 95), percentile(lags, 100))
	}
	fmt.Fprint(os.Stderr, table.String())
}

// lag kills one process of a standing agent and returns how long its run read ACPReady.
func (r *room) lag(agent string, find func(*corev1.Pod) int) time.Duration {
	r.t.Helper()
	standing := r.standing(agent).Name
	r.await(standing, "to listen", patiently, func(run *hearthv1.AgentRun) bool { return acpReady(run).Status == metav1.ConditionTrue })
	pod := r.pod(agent)
	r.sh(r.t.Context(), pod, "rm "+gateFile)
	pid := find(pod)
	if pid == 0 {
		r.t.Skip("SKIPPED, NOT MEASURED: the Pod's processes are not on this machine")
	}
	killed := time.Now()
	kill(r.t, pid)
	flip, err := r.watched.firstAfter(r.t.Context(), killed, shortly, func(run *hearthv1.AgentRun) bool {
		return run.Name == standing && acpReady(run).Status != metav1.ConditionTrue
	})
	require.NoError(r.t, err)
	r.openGate(r.runningPod(agent))
	return flip.at.Sub(killed)
}

// openGate also when the container is being made anew.
func (r *room) openGate(pod *corev1.Pod) {
	r.t.Helper()
	r.wait("the gate of "+pod.Name, shortly, func(ctx context.Context) (bool, string, error) {
		_, err := suite.Exec(ctx, client.ObjectKeyFromObject(pod), hearthv1.AgentContainer, "touch", gateFile)
		return err == nil, "open", err
	})
}

// runningPod is the Pod of an Agent's standing run once its agent container runs.
func (r *room) runningPod(agent string) *corev1.Pod {
	r.t.Helper()
	pod := r.pod(agent)
	r.wait("the agent container of "+pod.Name, shortly, func(ctx context.Context) (bool, string, error) {
		err := suite.Client.Get(ctx, r.key(pod.Name), pod)
		return err == nil && containerRunning(pod), string(pod.Status.Phase), err
	})
	return pod
}

// processOf is the process of that name in the agent container; 0 when the node is another machine.
func processOf(pod *corev1.Pod, name string) int {
	for _, pid := range processes(containerID(pod, hearthv1.AgentContainer)) {
		comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm")) // #nosec G304 -- /proc
		if err == nil && strings.TrimSpace(string(comm)) == name {
			return pid
		}
	}
	return 0
}
