//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	strangerPort = "4199"
	redirect     = `table ip stranger {
	chain prerouting {
		type nat hook prerouting priority dstnat;
		tcp dport ` + deliveryPort + ` redirect to :` + strangerPort + `
	}
}
`
)

// TestStrangerInAReadyPod is the harder half of row 27: the harness is frozen, so its Pod stays Ready and its connections stay open, and
// each new connection to the delivery port reaches somebody else. Every connection is challenged, not only the first.
func TestStrangerInAReadyPod(t *testing.T) {
	r := newRoom(t, "frozen")
	r.readyAgent(reviewer, nil)
	pod := r.pod(reviewer)
	sandbox, harness := sandboxProcess(pod), mainProcess(pod, hearthv1.AgentContainer)
	if sandbox == 0 || harness == 0 {
		t.Skip("SKIPPED, NOT PASSED: the Pod's processes are not on this machine, so nobody can stand in its network")
	}
	r.succeeds("before", reviewer)
	token := r.token(pod)

	s := startStranger(t, sandbox, pod, strangerPort)
	r.wait("the stranger to listen", shortly, func(context.Context) (bool, string, error) { return s.holds("listening"), "not yet", nil })
	nft(t, sandbox, redirect)
	require.NoError(t, syscall.Kill(harness, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(harness, syscall.SIGCONT) })

	canary := "canary" + rand.Text()
	r.ask("secret-work", reviewer, "shell: echo "+canary+" >> "+effects, "say: carried out "+canary)
	r.wait("the controller to ask the stranger", patiently, func(context.Context) (bool, string, error) {
		n := len(s.requests(t))
		return n >= enoughRequests, fmt.Sprintf("%d requests", n), nil
	})
	run := r.await("secret-work", "to be there", shortly, func(*hearthv1.AgentRun) bool { return true })
	assert.Nil(t, run.Status.CompletionTime, "the stranger's answer was believed")
	nft(t, sandbox, "delete table ip stranger\n")
	require.NoError(t, syscall.Kill(harness, syscall.SIGCONT))

	run = r.ended("secret-work", patiently)
	require.Equal(t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s", succeeded(run).Reason, run.Status.Message)
	assert.Zero(t, run.Status.Delivery.Losses, "nothing was lost")
	assert.Equal(t, []string{canary}, r.lines(t.Context(), pod, effects), "I1: one side effect")
	for _, request := range s.requests(t) {
		assert.Equal(t, http.MethodPost+" "+challengePath, request, "the stranger got something else than the challenge")
	}
	assert.NotContains(t, s.bytes(t), canary, "the stranger was told the goal")
	assert.False(t, strings.Contains(s.bytes(t), token), "the stranger was told the root secret") //nolint:testifylint // the secret is not shown
}

// nft applies rules in the network that a process has.
func nft(t *testing.T, pid int, rules string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nsenter", "--target", strconv.Itoa(pid), "--net", "--", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
