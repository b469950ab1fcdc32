//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
	// reset ends the connections that others made before: what is redirected arrives at the stranger's port.
	reset = `table ip stranger {
	chain input {
		type filter hook input priority filter;
		iifname != "lo" tcp dport ` + deliveryPort + ` reject with tcp reset
	}
}
`
)

// What a waiting run's message says of each kind of stranger (docs/operating.md).
const (
	saysNoTLS       = "does not speak TLS 1.3"
	saysOtherKey    = "another TLS key than the Pod's"
	saysNoHandshake = "nobody at the Pod's address ended the TLS handshake"
	saysNoProof     = "nobody there could prove to be the Pod"
)

// meeting is a stranger in a Pod that reads Ready.
type meeting struct {
	agent, kind string
	// alive: the harness works on and its connections are reset, instead of frozen. A relay needs somebody to relay to.
	alive bool
	says  string
}

// TestStrangerInAReadyPod is the harder half of row 27: the Pod stays Ready, and each new connection to its delivery port reaches somebody
// else. Each kind of stranger is told nothing and believed nothing, and the waiting run says at once what kind it is.
func TestStrangerInAReadyPod(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "frozen")
	const clear = "clear"
	r.agent(clear, func(spec *hearthv1.AgentSpec) { spec.Runtime.Delivery.Scheme = hearthv1.DeliveryHTTP })
	r.readyAgent(reviewer, nil)
	r.waitReady(clear)
	for name, m := range map[string]meeting{
		"silent":            {agent: reviewer, kind: kindSilent, says: saysNoHandshake},
		"plain":             {agent: reviewer, kind: kindPlain, says: saysNoTLS},
		"relay":             {agent: reviewer, kind: kindRelay, alive: true, says: saysOtherKey},
		"plain-scheme-http": {agent: clear, kind: kindPlain, says: saysNoProof},
	} {
		t.Run(name, func(t *testing.T) { (&room{t: t, namespace: r.namespace, watched: r.watched}).meets(name, m) })
	}
}

func (r *room) meets(name string, m meeting) {
	r.t.Helper()
	r.waitReady(m.agent)
	pod := r.pod(m.agent)
	sandbox, harness := sandboxProcess(pod), mainProcess(pod, hearthv1.AgentContainer)
	if sandbox == 0 || harness == 0 {
		r.t.Skip("SKIPPED, NOT PASSED: the Pod's processes are not on this machine, so nobody can stand in its network")
	}
	r.succeeds("before-"+name, m.agent)
	s := startStranger(r.t, sandbox, pod, m.kind, strangerPort)
	r.wait("the stranger to listen", shortly, func(context.Context) (bool, string, error) { return s.holds("listening"), "not yet", nil })
	thaw := func() {}
	if m.alive {
		nft(r.t, sandbox, redirect+reset)
	} else {
		nft(r.t, sandbox, redirect)
		thaw = r.freeze(harness)
	}

	canary := "canary" + rand.Text()
	run := "secret-" + name
	r.ask(run, m.agent, "shell: echo "+canary+" >> "+effects+name, "say: carried out "+canary)
	waiting := r.await(run, "to say whom it met", patiently, func(run *hearthv1.AgentRun) bool {
		require.Nil(r.t, run.Status.CompletionTime, "the stranger was believed: %s", run.Status.Message)
		return succeeded(run).Reason == hearthv1.ReasonTargetUnreachable && strings.Contains(succeeded(run).Message, m.says)
	})
	assert.Equal(r.t, hearthv1.PhasePending, waiting.Status.Phase)
	assert.Equal(r.t, corev1.ConditionTrue, podCondition(r.pod(m.agent), corev1.PodReady).Status, "all the while the Pod reads Ready")
	r.wait("the controller to try the stranger", patiently, func(context.Context) (bool, string, error) {
		n := s.connections(r.t)
		return n >= enoughConnections, fmt.Sprintf("%d connections", n), nil
	})
	nft(r.t, sandbox, "delete table ip stranger\n")
	thaw()
	s.stop(r.t)

	ended := r.ended(run, patiently)
	require.Equal(r.t, metav1.ConditionTrue, succeeded(ended).Status, "%s: %s", succeeded(ended).Reason, ended.Status.Message)
	assert.Zero(r.t, ended.Status.Delivery.Losses, "nothing was lost")
	assert.Equal(r.t, []string{canary}, r.lines(r.t.Context(), pod, effects+name), "I1: one side effect")
	words := map[string]string{"goal": canary, "root secret": r.token(pod)}
	if m.says == saysNoProof {
		s.heardChallengesOnly(r.t, words)
		return
	}
	words["Pod's name"] = pod.Name
	s.heardHandshakesOnly(r.t, words)
}

// freeze stops the harness, until the returned function is called.
func (r *room) freeze(harness int) (thaw func()) {
	r.t.Helper()
	require.NoError(r.t, syscall.Kill(harness, syscall.SIGSTOP))
	r.t.Cleanup(func() { _ = syscall.Kill(harness, syscall.SIGCONT) })
	return func() { require.NoError(r.t, syscall.Kill(harness, syscall.SIGCONT)) }
}

// nft applies rules in the network that a process has.
func nft(t *testing.T, pid int, rules string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nsenter", "--target", strconv.Itoa(pid), "--net", "--", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
