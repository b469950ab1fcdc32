//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// TestPeopleWatchRunsFromTheCommandLine: through a real kubelet, with the view key and the rights that docs/clients.md names, a run that
// hearth run --follow made is shown there and to hearth attach, and hearth logs shows it afterwards: of a Service Agent by its
// transcript, of a Task Agent by its Pod's log (R51, R55).
func TestPeopleWatchRunsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "watching")
	binary := commandLine(t)
	r.readyAgent(reviewer, nil)
	r.task(worker, nil)
	r.waitReady(worker)
	r.grantConnect("watches-a", reviewer+"-acp-view")
	r.grantConnect("watches-b", worker+"-acp-view")
	for _, c := range []struct{ agent, person, run, logged string }{
		{reviewer, "watches-a", "served", "── run " + r.namespace + "/served ended: Succeeded (Completed)"},
		{worker, "watches-b", "tasked", "all is well"},
	} {
		t.Run(c.agent, func(t *testing.T) {
			r := &room{t: t, namespace: r.namespace, watched: r.watched}
			task := strings.Join([]string{"gate: " + r.tally(c.run), "say: the first words", "say: all is well"}, " ;; ")
			follows := r.hearth(binary, "", "run", c.agent, "--name", c.run, "-p", "task="+task, "--follow")
			r.running(c.run)
			attached := r.hearth(binary, c.person, "attach", c.run)
			attached.await(`── run ` + r.namespace + `/` + c.run + ` begins`)
			r.openTheGate(c.run)
			attached.exits(0)
			follows.exits(0)
			run := r.ended(c.run, shortly)
			assert.Equal(t, hearthv1.ReasonCompleted, run.Status.Reason, run.Status.Message)
			assert.Contains(t, attached.out.String(), "all is well")
			assert.Contains(t, follows.err.String(), "the first words", "the view of --follow is on stderr")
			require.NotNil(t, run.Status.Output)
			assert.Equal(t, strings.TrimSpace(run.Status.Output.Value), strings.TrimSpace(follows.out.String()), "the output is on stdout")
			if c.agent == worker {
				r.wait("Pod "+c.run+" to have ended", shortly, func(ctx context.Context) (bool, string, error) {
					var pod corev1.Pod
					err := suite.Client.Get(ctx, r.key(c.run), &pod)
					return err == nil && pod.Status.Phase == corev1.PodSucceeded, string(pod.Status.Phase), err
				})
			}

			logs := r.hearth(binary, c.person, "logs", c.run)
			logs.exits(0)
			assert.Contains(t, logs.out.String(), c.logged)
			assert.Equal(t, c.agent == worker, strings.Contains(logs.err.String(), "this is its log"), logs.err)
		})
	}
	stranger := r.hearth(binary, "stranger", "logs", "served")
	assert.Error(t, stranger.cmd.Wait())
	assert.Contains(t, stranger.err.String(), "forbidden")
}

// commandLine is cmd/hearth, built once for all cases.
func commandLine(t *testing.T) string {
	t.Helper()
	require.NoError(t, suite.buildCLI())
	return suite.cli
}

// process is the CLI at work.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err *heard
}

// hearth starts the CLI as a person, or as the administrator.
func (r *room) hearth(binary, person string, args ...string) *process {
	r.t.Helper()
	config, err := clientcmd.LoadFromFile(suite.Kubeconfig)
	require.NoError(r.t, err)
	if person != "" {
		for _, user := range config.AuthInfos {
			user.Impersonate = person
		}
	}
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	require.NoError(r.t, clientcmd.WriteToFile(*config, file))
	p := &process{t: r.t, out: &heard{}, err: &heard{}}
	p.cmd = exec.CommandContext(context.WithoutCancel(r.t.Context()), binary, append(args, "-n", r.namespace, "--kubeconfig", file)...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	require.NoError(r.t, p.cmd.Start())
	r.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *process) await(pattern string) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(p.t, func() bool { return re.MatchString(p.out.String()) }, shortly, 100*time.Millisecond, "it never said %s", pattern)
}

func (p *process) exits(code int) {
	p.t.Helper()
	late := time.AfterFunc(patiently, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait()
	require.Equal(p.t, code, p.cmd.ProcessState.ExitCode(), "%s\n%s", p.out, p.err)
}

// heard is what a process wrote so far.
type heard struct {
	mu  sync.Mutex
	all strings.Builder
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.String()
}
