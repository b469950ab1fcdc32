package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/webhooks"
)

// asHearth has this test's own program be hearth, as cmd/hearth is it.
const asHearth = "TEST_AS_HEARTH"

// patience bounds what a test waits for.
const patience = 60 * time.Second

var server = apiserver.New(apiserver.Options{Webhooks: true})

func TestMain(m *testing.M) {
	if os.Getenv(asHearth) == "" {
		os.Exit(server.Main(tests{m}))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	env := kube.New(os.Args[0], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	os.Exit(cli.Run(ctx, env, os.Args[1:]))
}

// world is a namespace with an Agent, and a directory with the program under both of its names.
type world struct {
	t                 *testing.T
	namespace         string
	admin, controller client.Client
	bin, kubeconfig   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	served.once.Do(func() { served.stop = webhooks.Start(t, server, admission.Options{}, nil) })
	w := &world{t: t, namespace: server.Namespace(t), admin: server.Client(t), controller: server.ControllerClient(t), bin: t.TempDir(),
		kubeconfig: apiserver.Kubeconfig(t, server.Admin(t))}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"hearth", "kubectl-hearth"} {
		require.NoError(t, os.Symlink(self, filepath.Join(w.bin, name)))
	}
	require.NoError(t, os.Symlink(filepath.Join(os.Getenv(apiserver.AssetsEnv), "kubectl"), filepath.Join(w.bin, "kubectl")))
	w.agent("reviewer", func(*hearthv1.Agent) {})
	return w
}

// served is admission, which runs for all tests.
var served struct {
	once sync.Once
	stop func() error
}

// tests are the tests and the end of what they share.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if served.stop == nil {
		return code
	}
	if err := served.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the webhooks:", err)
		return max(code, 1)
	}
	return code
}

func (w *world) agent(name string, change func(*hearthv1.Agent)) {
	w.t.Helper()
	a := &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: hearthv1.AgentSpec{
			GoalTemplate: "Review ${change} for ${concern}.",
			Parameters:   []hearthv1.Parameter{{Name: "change", Description: "what to review"}, {Name: "concern", Default: ptr.To("correctness")}},
			Runtime:      hearthv1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &hearthv1.DeliveryRuntime{}},
			Template:     corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
		},
	}
	change(a)
	require.NoError(w.t, w.admin.Create(w.t.Context(), a))
}

// process is hearth, as it runs.
type process struct {
	*exec.Cmd
	t        *testing.T
	out, err *buffer
}

// command is a program of the world's directory in an environment of its own.
func (w *world) command(name string, args ...string) *process {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, filepath.Join(w.bin, name), args...)
	c.Env = []string{asHearth + "=1", "PATH=" + w.bin + ":/usr/bin:/bin", "HOME=" + w.bin, "KUBECONFIG=" + w.kubeconfig, "TERM=xterm"}
	p := &process{Cmd: c, t: w.t, out: &buffer{}, err: &buffer{}}
	c.Stdout, c.Stderr = p.out, p.err
	return p
}

// hearth begins a command line in the world's namespace.
func (w *world) hearth(args ...string) *process {
	w.t.Helper()
	p := w.command("hearth", append(args, "-n", w.namespace)...)
	require.NoError(w.t, p.Start())
	return p
}

// exits waits for the end, and wants an exit code.
func (p *process) exits(code int) *process {
	p.t.Helper()
	_ = p.Wait() // the code says it
	require.Equal(p.t, code, p.ProcessState.ExitCode(), "stdout: %s\nstderr: %s", p.out, p.err)
	return p
}

// says waits until stderr has a text.
func (p *process) says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.err.String(), text) }, patience, 10*time.Millisecond, "%q in %s", text, p.err)
}

// run is the one run of the namespace, when it is there.
func (w *world) run() *hearthv1.AgentRun {
	w.t.Helper()
	var runs hearthv1.AgentRunList
	require.Eventually(w.t, func() bool {
		return w.admin.List(w.t.Context(), &runs, client.InNamespace(w.namespace)) == nil && len(runs.Items) == 1
	}, patience, 20*time.Millisecond)
	return &runs.Items[0]
}

// named reads a run.
func (w *world) named(name string) *hearthv1.AgentRun {
	w.t.Helper()
	var run hearthv1.AgentRun
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &run))
	return &run
}

// plays writes a status, as the controller does.
func (w *world) plays(run *hearthv1.AgentRun, phase hearthv1.Phase, reason, message string, changes ...func(*hearthv1.AgentRunStatus)) {
	w.t.Helper()
	run = w.named(run.Name)
	status := metav1.ConditionUnknown
	switch phase {
	case hearthv1.PhaseSucceeded:
		status = metav1.ConditionTrue
	case hearthv1.PhaseFailed:
		status = metav1.ConditionFalse
	case hearthv1.PhasePending, hearthv1.PhaseRunning:
	}
	run.Status.Phase = phase
	run.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
	for _, change := range changes {
		change(&run.Status)
	}
	require.NoError(w.t, w.controller.Status().Update(w.t.Context(), run))
}

// ended is what a record has.
func ended(output string) func(*hearthv1.AgentRunStatus) {
	return func(s *hearthv1.AgentRunStatus) {
		now := metav1.NowMicro()
		s.StartTime, s.CompletionTime, s.RecordedAt = &now, &now, &now
		s.Reason, s.Message = s.Conditions[0].Reason, s.Conditions[0].Message
		if output != "" {
			s.Output = &hearthv1.Output{MediaType: "text/plain", Value: output}
		}
	}
}

// made makes a run without the program.
func (w *world) made(name string) *hearthv1.AgentRun {
	w.t.Helper()
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: "reviewer"}, Parameters: map[string]string{"change": "PR 17"}}}
	require.NoError(w.t, w.admin.Create(w.t.Context(), run))
	return run
}

// buffer is what a process wrote, while it writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
