//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	planted   = "planted"
	thiefPath = workDir + "/thief"
	loot      = workDir + "/loot"
)

// TestAgentCannotReadTheSecret: the agent's own shell tool runs a thief that tries /proc, memory, files, ptrace and both ports. It has what
// was planted for it to find, and neither the root secret nor the keys of port 4000 (SPEC.md, Trust). Nobody execs into the Pod meanwhile: an
// exec has the container's environment.
func TestAgentCannotReadTheSecret(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "secret")
	r.readyAgent(reviewer, nil)
	pod := r.pod(reviewer)
	harness := mainProcess(pod, hearthv1.AgentContainer)
	if harness == 0 {
		t.Skip("SKIPPED, NOT PASSED: the Pod's processes are not on this machine, so no thief can be put among them")
	}
	secrets := r.secretsOf(pod)
	word := make([]byte, 32)
	_, _ = rand.Read(word)
	secrets[planted] = base64.RawURLEncoding.EncodeToString(word)
	smuggle(t, harness)

	before := r.robs("before", pod, secrets)
	assert.Contains(t, before, "FOUND "+planted+" in "+workDir+"/"+planted, "it searches files")
	assert.Contains(t, before, "FOUND "+planted+" in /proc/", "it searches memory and environments")
	assert.Regexp(t, `FOUND `+planted+` in /proc/\d+/environ`, before)
	assert.Regexp(t, `FOUND `+planted+` in /proc/\d+/mem`, before)
	for _, attempt := range []string{
		"open /proc/1/environ: permission denied", "open /proc/1/maps: permission denied", "open /proc/1/mem: permission denied",
		"open /proc/1/task/1/mem: permission denied", "open /proc/1/root/etc/passwd: permission denied", "list /proc/1/fd: open /proc/1/fd: permission denied",
		"ptrace attach 1: operation not permitted", "process_vm_readv 1: operation not permitted", "pidfd_getfd 1 0: operation not permitted",
		"write /etc/x: open /etc/x: read-only file system", "service account: stat /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory",
	} {
		assert.Contains(t, before, attempt)
	}
	for _, state := range []string{"STATUS NoNewPrivs: 1", "STATUS Seccomp: 2", "STATUS CapEff: 0000000000000000", "STATUS CapBnd: 0000000000000000"} {
		assert.Contains(t, before, state)
	}
	assert.NotContains(t, before, "STATUS Uid: 0\n")
	for _, read := range []string{"READ http://127.0.0.1:4000/healthz 200", "READ https://127.0.0.1:4100" + challengePath + " 4", "READ /var/lib/hearth/"} {
		assert.Contains(t, before, read)
	}

	// A harness that dies of a signal leaves no core, and a trace without a secret.
	log := r.follow(pod)
	r.ask("murder", reviewer, "shell: kill -SEGV 1; kill -QUIT 1; sleep 60")
	assert.Equal(t, hearthv1.ReasonInterrupted, succeeded(r.ended("murder", patiently)).Reason)
	r.waitReady(reviewer)
	r.robs("after", pod, secrets)
	said := log()
	assert.Contains(t, said, "goroutine ", "it died of the signal")
	tells(t, "the log of the harness that died", said, secrets)
}

// robs runs the thief as the agent and returns its report, in which only what was planted is found.
func (r *room) robs(name string, pod *corev1.Pod, secrets map[string]string) string {
	r.t.Helper()
	r.ask(name, reviewer, "shell: printf %s "+secrets[planted]+" > "+workDir+"/"+planted+"; "+
		"PLANTED="+secrets[planted]+" "+envThief+"='"+hashes(secrets)+"' "+thiefPath+" > "+loot+"-"+name+" 2>&1; wc -l < "+loot+"-"+name, "say: looked")
	run := r.ended(name, patiently)
	require.Equal(r.t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s", succeeded(run).Reason, run.Status.Message)
	require.Contains(r.t, run.Status.Output.Value, "looked")
	found := r.sh(r.t.Context(), pod, "cat "+loot+"-"+name)
	for line := range strings.Lines(found) {
		if strings.HasPrefix(line, "FOUND ") && !strings.HasPrefix(line, "FOUND "+planted+" ") {
			assert.Fail(r.t, "the agent has a secret: "+line)
		}
	}
	tells(r.t, "what the agent saw", found+run.Status.Output.Value, map[string]string{"root secret": secrets["root-secret"]})
	return found
}

// smuggle puts this binary on the Pod's volume.
func smuggle(t *testing.T, process int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	from, err := os.Open(self) // #nosec G304 -- ourselves
	require.NoError(t, err)
	defer func() { _ = from.Close() }()
	path := filepath.Join("/proc", strconv.Itoa(process), "root", thiefPath)
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755) // #nosec G302 G304 -- the agent runs it
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	require.NoError(t, os.Chmod(path, 0o755)) // #nosec G302 -- whatever the umask is
}

// secretsOf are the values that a Pod's containers take from Secrets which are the controller's, by name.
func (r *room) secretsOf(pod *corev1.Pod) map[string]string {
	r.t.Helper()
	found := map[string]string{"root-secret": r.token(pod)}
	for _, container := range pod.Spec.Containers {
		for _, env := range container.Env {
			if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil || env.ValueFrom.SecretKeyRef.Key != hearthv1.SecretKey {
				continue
			}
			value := r.secret(env.ValueFrom.SecretKeyRef.Name, hearthv1.SecretKey)
			require.Len(r.t, value, secretLength)
			found[env.Name] = value
		}
	}
	require.Len(r.t, found, 3, "the root secret and the two keys of port 4000")
	return found
}

// token is the root secret that the controller made for the Pod.
func (r *room) token(pod *corev1.Pod) string {
	r.t.Helper()
	for _, container := range pod.Spec.Containers {
		for _, env := range container.Env {
			if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil || env.ValueFrom.SecretKeyRef.Key != hearthv1.SecretToken {
				continue
			}
			token := r.secret(env.ValueFrom.SecretKeyRef.Name, hearthv1.SecretToken)
			require.GreaterOrEqual(r.t, len(token), 32)
			return token
		}
	}
	require.Fail(r.t, "the Pod takes no token from a Secret")
	return ""
}

func (r *room) secret(name, key string) string {
	r.t.Helper()
	var secret corev1.Secret
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(name), &secret))
	return string(secret.Data[key])
}

// follow reads the log of the harness that runs now, as kubelet may remove it with the container; the returned function waits for its end.
func (r *room) follow(pod *corev1.Pod) func() string {
	r.t.Helper()
	stream, err := suite.Typed.CoreV1().Pods(pod.Namespace).
		GetLogs(pod.Name, &corev1.PodLogOptions{Container: hearthv1.AgentContainer, Follow: true}).Stream(r.t.Context())
	require.NoError(r.t, err)
	var text bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(&text, stream)
		ended <- err
	}()
	return func() string {
		r.t.Helper()
		select {
		case err := <-ended:
			require.NoError(r.t, err)
		case <-time.After(shortly):
			require.Fail(r.t, "the log does not end", "its container should have")
		}
		require.NotEmpty(r.t, text.String())
		return text.String()
	}
}
