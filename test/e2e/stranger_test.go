//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const (
	// enoughRequests to the stranger while a run waits show that the controller tried and went on waiting.
	enoughRequests = 2
	challengePath  = "/hearth.dev/v1alpha1/challenge"
)

// TestStranger is fault row 27 and the confidentiality of SPEC.md, Challenge: after the harness died, somebody else answers on its
// Pod's address with friendly words. It is told nothing of the goal and believed nothing; when it is gone, the run is carried out.
func TestStranger(t *testing.T) {
	r := newRoom(t, "stranger")
	r.readyAgent(reviewer, nil)
	pod := r.pod(reviewer)
	sandbox, harness := sandboxProcess(pod), mainProcess(pod, hearthv1.AgentContainer)
	if sandbox == 0 || harness == 0 {
		t.Skip("SKIPPED, NOT PASSED: the Pod's processes are not on this machine, so nobody can stand in its network")
	}
	r.succeeds("before", reviewer) // so that the controller has every reason to trust this address
	token := r.token(pod)

	s := startStranger(t, sandbox, pod, deliveryPort)
	require.False(t, s.holds("listening"), "the port was free before the harness was stopped")
	kill(t, harness)
	r.wait("the stranger to take port 4100", shortly, func(context.Context) (bool, string, error) {
		return s.holds("listening"), "the harness still has it", nil
	})

	canary := "canary" + rand.Text()
	r.ask("secret-work", reviewer, "shell: echo "+canary+" >> "+effects, "say: carried out "+canary)
	heard := len(s.requests(t))
	waiting := r.await("secret-work", "to wait for its target", shortly, func(run *hearthv1.AgentRun) bool {
		reason := succeeded(run).Reason
		return reason == hearthv1.ReasonTargetUnreachable || reason == hearthv1.ReasonTargetNotReady
	})
	assert.Equal(t, hearthv1.PhasePending, waiting.Status.Phase)
	assert.Equal(t, metav1.ConditionUnknown, succeeded(waiting).Status)
	r.wait("the controller to ask the stranger", patiently, func(context.Context) (bool, string, error) {
		n := len(s.requests(t)) - heard
		return n >= enoughRequests, fmt.Sprintf("%d requests since the run was made", n), nil
	})
	unchanged := r.await("secret-work", "to be there", shortly, func(*hearthv1.AgentRun) bool { return true })
	assert.Nil(t, unchanged.Status.CompletionTime, "the stranger's answer was believed")
	s.stop(t)

	for _, request := range s.requests(t) {
		assert.Equal(t, http.MethodPost+" "+challengePath, request, "the stranger got something else than the challenge")
	}
	bytes := s.bytes(t)
	require.NotEmpty(t, bytes)
	assert.NotContains(t, bytes, canary, "the stranger was told the goal")
	assert.False(t, strings.Contains(bytes, token), "the stranger was told the root secret") //nolint:testifylint // the secret is not shown

	run := r.ended("secret-work", patiently)
	require.Equal(t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s", succeeded(run).Reason, run.Status.Message)
	assert.Contains(t, run.Status.Output.Value, "carried out "+canary)
	assert.Equal(t, pod.UID, run.Status.Delivery.PodUID, "the same Pod, its harness is back")
	assert.Equal(t, []string{canary}, r.lines(t.Context(), pod, effects), "I1: one side effect")
	r.saidNothingOf(map[string]string{"goal": canary, "root secret": token})
}

// saidNothingOf is I8: no log and no event has the words. They are not shown when one has.
func (r *room) saidNothingOf(words map[string]string) {
	r.t.Helper()
	for _, namespace := range []string{r.namespace, cluster.SystemNamespace} {
		var events corev1.EventList
		require.NoError(r.t, suite.Client.List(r.t.Context(), &events, client.InNamespace(namespace)))
		said := map[string]string{}
		for _, event := range events.Items {
			said["event "+event.Name] = event.Message
		}
		var pods corev1.PodList
		require.NoError(r.t, suite.Client.List(r.t.Context(), &pods, client.InNamespace(namespace)))
		for _, pod := range pods.Items {
			for _, container := range pod.Spec.Containers {
				logs, err := suite.Logs(r.t.Context(), client.ObjectKeyFromObject(&pod), container.Name, allLogLines)
				require.NoError(r.t, err)
				require.NotEmpty(r.t, logs, pod.Name)
				said["the log of "+pod.Name] = logs
			}
		}
		for where, text := range said {
			for what, word := range words {
				if strings.Contains(text, word) {
					assert.Fail(r.t, where+" has the "+what)
				}
			}
		}
	}
}

// stranger is a process of ours in a Pod's network.
type stranger struct {
	dir     string
	command *exec.Cmd
	stopped bool
}

// startStranger runs this binary there. It waits for the port, takes it as soon as the harness lets go, and ends with the test.
func startStranger(t *testing.T, sandbox int, pod *corev1.Pod, port string) *stranger {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := &stranger{dir: t.TempDir()}
	s.command = exec.CommandContext(t.Context(), "nsenter", "--target", strconv.Itoa(sandbox), "--net", "--", self)
	s.command.Env = []string{envStranger + "=" + s.dir, envStrangerPort + "=" + port, "POD_NAMESPACE=" + pod.Namespace, "POD_NAME=" + pod.Name, "POD_UID=" + string(pod.UID)}
	s.command.Stdout, s.command.Stderr = os.Stderr, os.Stderr
	require.NoError(t, s.command.Start())
	t.Cleanup(func() { s.stop(t) })
	r := &room{t: t}
	r.wait("the stranger", shortly, func(context.Context) (bool, string, error) { return s.holds("started"), "not started", nil })
	return s
}

// holds tells whether the stranger has written that file.
func (s *stranger) holds(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// bytes are all it was sent.
func (s *stranger) bytes(t *testing.T) string {
	t.Helper()
	heard, err := os.ReadFile(filepath.Join(s.dir, heardFile))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return string(heard)
}

// requests are the method and path of all it could make out.
func (s *stranger) requests(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, requestsFile))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func (s *stranger) stop(t *testing.T) {
	t.Helper()
	if s.stopped {
		return
	}
	s.stopped = true
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}
