//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// TestAgentCannotReadTheSecret: through its own shell tool the agent reads what it can of every process's environment and of the
// files it is given; the root secret is not among it (SPEC.md, Trust). Nobody execs into the Pod meanwhile: an exec has the
// container's environment.
func TestAgentCannotReadTheSecret(t *testing.T) {
	r := newRoom(t, "secret")
	r.readyAgent(reviewer, nil)
	const loot = workDir + "/loot"
	r.ask("thief", reviewer,
		`shell: (for p in /proc/[0-9]*; do echo "at $p"; tr '\0' '\n' < $p/environ; done; cat /proc/1/environ; env) > `+loot+` 2>&1`,
		"shell: grep -r '' /etc/hearth /var/lib/hearth /tmp /run/secrets >> "+loot+" 2>&1; wc -c < "+loot,
		"say: looked")
	run := r.ended("thief", shortly)
	require.Equal(t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s", succeeded(run).Reason, run.Status.Message)
	require.Contains(t, run.Status.Output.Value, "looked")

	pod := r.pod(reviewer)
	found := r.sh(t.Context(), pod, "cat "+loot)
	assert.Contains(t, found, "at /proc/1\n", "it looked at the harness")
	assert.Contains(t, found, "GOOSE_PROVIDER=openai", "it could read some environment, so the look was a real one")
	assert.Contains(t, found, "ermission denied", "the harness's own is closed")
	token := r.token(pod)
	// What was found is not shown when it has the secret.
	assert.False(t, strings.Contains(found+run.Status.Output.Value, token), "the agent has the root secret")                   //nolint:testifylint // see above
	assert.False(t, strings.Contains(found, "HEARTH_DELIVERY_TOKEN="), "the variable of the root secret is in an environment") //nolint:testifylint // see above
}

// token is the root secret that the controller made for the Pod.
func (r *room) token(pod *corev1.Pod) string {
	r.t.Helper()
	for _, container := range pod.Spec.Containers {
		for _, env := range container.Env {
			if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil || env.ValueFrom.SecretKeyRef.Key != hearthv1.SecretToken {
				continue
			}
			var secret corev1.Secret
			require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(env.ValueFrom.SecretKeyRef.Name), &secret))
			token := string(secret.Data[hearthv1.SecretToken])
			require.GreaterOrEqual(r.t, len(token), 32)
			return token
		}
	}
	require.Fail(r.t, "the Pod takes no token from a Secret")
	return ""
}
