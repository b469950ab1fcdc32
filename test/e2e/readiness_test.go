//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	gated        = "gated"
	dialLimit    = 2 * time.Second
	allLogLines  = 10000
	saysListens  = "acp: listening"
	deliveryPort = "4100"
)

// gateFile is a file that the agent of behindGate waits for.
const gateFile = workDir + "/open"

// behindGate has goose start, and start again, only while the file is there.
func behindGate(spec *hearthv1.AgentSpec) {
	spec.Runtime.Command = []string{"sh", "-c", "until [ -e " + gateFile + " ]; do sleep 0.1; done; exec goose acp"}
}

// TestReadiness is R10. The agent waits for a file before it starts, so that the time in which its Pod runs and nobody listens lasts
// until the test has seen it.
func TestReadiness(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "readiness")
	r.agent(gated, behindGate)
	standing := r.standing(gated).Name
	r.seeWindow(standing)

	pod := r.pod(gated)
	r.probeIsAsPromised(pod)
	r.nameIsSilent(pod)
	r.sh(t.Context(), pod, "touch "+gateFile)
	flip, err := r.watched.first(t.Context(), shortly, func(run *hearthv1.AgentRun) bool {
		return run.Name == standing && acpReady(run).Status == metav1.ConditionTrue
	})
	require.NoError(t, err)
	dialled := r.dial(t.Context(), pod, flip.run.Status.Address) // before anything else: one dial, no retry
	require.NoError(t, dialled, "the first dial after ACPReady turned True")
	r.nameAnswers(pod, flip.at)

	assert.Equal(t, hearthv1.ReasonListening, acpReady(flip.run).Reason)
	assert.Contains(t, acpReady(flip.run).Message, flip.run.Status.Address)
	assert.Equal(t, hearthv1.PhaseRunning, flip.run.Status.Phase)
	pod = r.pod(gated)
	ready := podCondition(pod, corev1.PodReady)
	assert.Equal(t, corev1.ConditionTrue, ready.Status, "ACPReady is True while the Pod is not Ready")
	assert.Equal(t, net.JoinHostPort(pod.Status.PodIP, "4000"), flip.run.Status.Address)
	assert.False(t, acpReady(flip.run).LastTransitionTime.Time.Before(ready.LastTransitionTime.Time), "ACPReady turned True before the Pod was Ready")
	said, ok := r.saidListening(pod)
	require.True(t, ok, "ACPReady is True and the harness did not say %q", saysListens)
	assert.False(t, flip.at.Before(said), "ACPReady was seen True at %s, the harness listens since %s", flip.at, said)
	for _, s := range r.watched.of(standing) {
		if s.at.Before(said) {
			assert.NotEqual(t, metav1.ConditionTrue, acpReady(s.run).Status, "ACPReady was True before the harness listened")
		}
	}
	t.Logf("the harness listened at %s; ACPReady was seen True %s later", said.Format(time.TimeOnly), flip.at.Sub(said).Round(time.Millisecond))
}

// seeWindow observes the Pod Running with 4000 closed, and what the run says meanwhile. A window that does not come is a failure.
func (r *room) seeWindow(standing string) {
	r.t.Helper()
	var pod corev1.Pod
	r.wait("the Pod to run while nobody listens", shortly, func(ctx context.Context) (bool, string, error) {
		if err := suite.Client.Get(ctx, r.key(standing), &pod); err != nil {
			return false, "", err
		}
		running := pod.Status.Phase == corev1.PodRunning && containerRunning(&pod) && podCondition(&pod, corev1.PodReady).Status == corev1.ConditionFalse
		return running, fmt.Sprintf("Pod %s, Ready=%s", pod.Status.Phase, podCondition(&pod, corev1.PodReady).Status), nil
	})
	run := r.await(standing, "to read Running and NotListening", shortly, func(run *hearthv1.AgentRun) bool {
		return run.Status.Phase == hearthv1.PhaseRunning && acpReady(run).Reason == hearthv1.ReasonNotListening
	})
	assert.Equal(r.t, metav1.ConditionFalse, acpReady(run).Status)
	assert.NotEmpty(r.t, acpReady(run).Message, "NotListening carries the Pod's own message")
	assert.Empty(r.t, run.Status.Address, "there is nothing to dial")
	// The harness is up, its agent is not: 4100 answers and 4000 refuses.
	r.wait("the delivery port", shortly, func(ctx context.Context) (bool, string, error) {
		err := r.dial(ctx, &pod, net.JoinHostPort(pod.Status.PodIP, deliveryPort))
		return err == nil, "open", err
	})
	require.ErrorIs(r.t, r.dial(r.t.Context(), &pod, net.JoinHostPort(pod.Status.PodIP, "4000")), syscall.ECONNREFUSED, "4000 is closed while the agent is down")
	_, said := r.saidListening(&pod)
	require.False(r.t, said, "the harness says it listens while its agent has not started")
	for _, s := range r.watched.of(standing) {
		assert.NotEqual(r.t, metav1.ConditionTrue, acpReady(s.run).Status, "ACPReady was True in the window")
	}
}

// probeIsAsPromised reads the probe of the live Pod (R1): it is what bounds how long ACPReady lags the agent.
func (r *room) probeIsAsPromised(pod *corev1.Pod) {
	r.t.Helper()
	at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == hearthv1.AgentContainer })
	require.GreaterOrEqual(r.t, at, 0)
	probe := pod.Spec.Containers[at].ReadinessProbe
	require.NotNil(r.t, probe)
	require.NotNil(r.t, probe.TCPSocket)
	assert.Equal(r.t, hearthv1.PortACP, probe.TCPSocket.Port.String())
	assert.EqualValues(r.t, 2, probe.PeriodSeconds)
	assert.EqualValues(r.t, 1, probe.FailureThreshold)
}

// dial makes one connection and closes it. When the node is another machine it is made from within the Pod, to the same address.
func (r *room) dial(ctx context.Context, pod *corev1.Pod, address string) error {
	if len(podProcesses(pod)) > 0 {
		conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = suite.Exec(ctx, client.ObjectKeyFromObject(pod), hearthv1.AgentContainer, "nc", "-w", "2", host, port, "-e", "true")
	if err != nil && strings.Contains(err.Error(), "Connection refused") {
		return fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
	}
	return err
}

// saidListening is when the harness logged that it listens.
func (r *room) saidListening(pod *corev1.Pod) (time.Time, bool) {
	r.t.Helper()
	logs, err := suite.Logs(r.t.Context(), client.ObjectKeyFromObject(pod), hearthv1.AgentContainer, allLogLines)
	require.NoError(r.t, err)
	for line := range strings.Lines(logs) {
		if stamp, rest, _ := strings.Cut(line, " "); strings.Contains(rest, saysListens) {
			at, err := time.Parse(time.RFC3339Nano, stamp)
			require.NoError(r.t, err)
			return at, true
		}
	}
	return time.Time{}, false
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func containerRunning(pod *corev1.Pod) bool {
	return containerID(pod, hearthv1.AgentContainer) != ""
}
