//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
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

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// enoughConnections to the stranger while a run waits show that the controller tried and went on waiting.
	enoughConnections = 2
	challengePath     = "/hearth.dev/v1alpha1/challenge"
	// handshakeRecord begins every TLS connection (RFC 8446, section 5.1).
	handshakeRecord = "\x16\x03"
	// applicationData begins what is encrypted.
	applicationData = "\x17\x03\x03"
)

// TestStranger is fault row 27 and the confidentiality of SPEC.md: after the harness died, somebody else answers on its Pod's address
// with friendly words. It is told nothing and believed nothing; when it is gone, the run is carried out.
func TestStranger(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "stranger")
	r.readyAgent(reviewer, nil)
	pod := r.pod(reviewer)
	sandbox, harness := sandboxProcess(pod), mainProcess(pod, hearthv1.AgentContainer)
	if sandbox == 0 || harness == 0 {
		t.Skip("SKIPPED, NOT PASSED: the Pod's processes are not on this machine, so nobody can stand in its network")
	}
	r.succeeds("before", reviewer) // so that the controller has every reason to trust this address
	token := r.token(pod)

	s := startStranger(t, sandbox, pod, kindPlain, deliveryPort)
	require.False(t, s.holds("listening"), "the port was free before the harness was stopped")
	kill(t, harness)
	r.wait("the stranger to take port 4100", shortly, func(context.Context) (bool, string, error) {
		return s.holds("listening"), "the harness still has it", nil
	})

	canary := "canary" + rand.Text()
	heard := s.connections(t)
	r.ask("secret-work", reviewer, "shell: echo "+canary+" >> "+effects, "say: carried out "+canary)
	waiting := r.await("secret-work", "to wait for its target", shortly, func(run *hearthv1.AgentRun) bool {
		// Kubelet may be faster: a harness that cannot have its port is not Ready.
		unreachable := succeeded(run).Reason == hearthv1.ReasonTargetUnreachable && strings.Contains(succeeded(run).Message, saysNoTLS)
		return unreachable || succeeded(run).Reason == hearthv1.ReasonTargetNotReady
	})
	assert.Equal(t, hearthv1.PhasePending, waiting.Status.Phase)
	assert.Equal(t, metav1.ConditionUnknown, succeeded(waiting).Status)
	r.wait("the controller to try the stranger", patiently, func(context.Context) (bool, string, error) {
		n := s.connections(t) - heard
		return n >= enoughConnections, fmt.Sprintf("%d connections since the run was made", n), nil
	})
	unchanged := r.await("secret-work", "to be there", shortly, func(*hearthv1.AgentRun) bool { return true })
	assert.Nil(t, unchanged.Status.CompletionTime, "the stranger's answer was believed")
	s.stop(t)
	s.heardHandshakesOnly(t, map[string]string{"goal": canary, "root secret": token, "Pod's name": pod.Name, "Agent's name": reviewer})

	run := r.ended("secret-work", patiently)
	require.Equal(t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s", succeeded(run).Reason, run.Status.Message)
	assert.Contains(t, run.Status.Output.Value, "carried out "+canary)
	assert.Equal(t, pod.UID, run.Status.Delivery.PodUID, "the same Pod, its harness is back")
	assert.Equal(t, []string{canary}, r.lines(t.Context(), pod, effects), "I1: one side effect")
}

// stranger is a process of ours in a Pod's network.
type stranger struct {
	dir     string
	command *exec.Cmd
	stopped bool
}

// startStranger runs this binary there. It waits for the port, takes it as soon as the harness lets go, and ends with the test.
func startStranger(t *testing.T, sandbox int, pod *corev1.Pod, kind, port string) *stranger {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := &stranger{dir: t.TempDir()}
	s.command = exec.CommandContext(t.Context(), "nsenter", "--target", strconv.Itoa(sandbox), "--net", "--", self)
	s.command.Env = []string{envStranger + "=" + s.dir, envStrangerKind + "=" + kind, envStrangerPort + "=" + port, "POD_NAMESPACE=" + pod.Namespace, "POD_NAME=" + pod.Name, "POD_UID=" + string(pod.UID)}
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

// bytes are all it was sent, and what a relay could read inside.
func (s *stranger) bytes(t *testing.T) string {
	t.Helper()
	return s.read(t, heardFile)
}

// requests are the method and path of all it could make out.
func (s *stranger) requests(t *testing.T) []string {
	t.Helper()
	return strings.FieldsFunc(s.read(t, requestsFile), func(r rune) bool { return r == '\n' })
}

// connections is how many were made to it.
func (s *stranger) connections(t *testing.T) int {
	t.Helper()
	return strings.Count(s.read(t, connectionsFile), "\n")
}

func (s *stranger) read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, file))
	require.NoError(t, err)
	return string(content)
}

// heardHandshakesOnly: the stranger was sent the beginnings of TLS handshakes, none of the words, and nothing of the contract. The
// words are not shown.
func (s *stranger) heardHandshakesOnly(t *testing.T, words map[string]string) {
	t.Helper()
	heard := s.bytes(t)
	require.True(t, strings.HasPrefix(heard, handshakeRecord), "the stranger heard no handshake")
	assert.Empty(t, s.requests(t), "the stranger was sent requests")
	words = maps.Clone(words)
	words["contract's paths"], words["contract's headers"] = "hearth.dev", "Hearth-"
	tells(t, "what the stranger heard", heard, words)
}

// heardChallengesOnly is the same with the scheme HTTP, where a challenge names the Pod.
func (s *stranger) heardChallengesOnly(t *testing.T, words map[string]string) {
	t.Helper()
	for _, request := range s.requests(t) {
		assert.Equal(t, http.MethodPost+" "+challengePath, request, "the stranger got something else than the challenge")
	}
	require.Contains(t, s.bytes(t), challengePath, "the stranger heard no challenge")
	tells(t, "what the stranger heard", s.bytes(t), words)
}

// tells fails for each word that the text has, without showing either.
func tells(t *testing.T, where, text string, words map[string]string) {
	t.Helper()
	for what, word := range words {
		if strings.Contains(text, word) {
			assert.Fail(t, where+" has the "+what)
		}
	}
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
