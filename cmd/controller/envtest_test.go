package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/exposition"
)

var server = apiserver.New(apiserver.Options{Audit: true})

const reexec = "HEARTH_TEST_CONTROLLER"

// TestMain is also the controller itself: a test starts this binary again with its flags, so that signals and exit codes are real.
func TestMain(m *testing.M) {
	if os.Getenv(reexec) != "" {
		main()
		return
	}
	if node.Asked() {
		os.Exit(node.Main())
	}
	os.Exit(server.Main(m))
}

// process is a controller process with the rights of config/rbac.
type process struct {
	*exec.Cmd
	stderr  *bytes.Buffer
	probes  string
	metrics string
	webhook int
}

func start(t *testing.T, kubeconfig string, flags ...string) *process {
	t.Helper()
	return startAs(t, os.Args[0], kubeconfig, flags...)
}

// startAs starts one that calls itself by a name, also where the API server is asked.
func startAs(t *testing.T, name, kubeconfig string, flags ...string) *process {
	t.Helper()
	p := &process{stderr: &bytes.Buffer{}, probes: fmt.Sprintf("127.0.0.1:%d", freePort(t)), metrics: fmt.Sprintf("127.0.0.1:%d", freePort(t)), webhook: freePort(t)}
	p.Cmd = exec.CommandContext(t.Context(), os.Args[0], append(flags, "--metrics-bind-address="+p.metrics, "--health-probe-bind-address="+p.probes, fmt.Sprintf("--webhook-port=%d", p.webhook))...) //nolint:gosec // this binary
	p.Args[0] = name
	p.Env = append(os.Environ(), reexec+"=1", "KUBECONFIG="+kubeconfig)
	p.Stderr = p.stderr
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
		if t.Failed() {
			t.Log(p.stderr.String())
		}
	})
	return p
}

func (p *process) ready(t *testing.T) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.probes+"/readyz", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// scrape is what Prometheus gets of a process.
func (p *process) scrape(t *testing.T) string { return fetch(t, p.metrics, "/metrics") }

func fetch(t *testing.T, address, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func holder(ctx context.Context, t *testing.T, c client.Client) string {
	t.Helper()
	var lease coordinationv1.Lease
	require.NoError(t, client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Namespace: "hearth-system", Name: shard.LeaseName}, &lease)))
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// The binary as it is installed: its own rights only, certificates that it makes itself, webhooks that the API server calls by
// TLS, two replicas of which one leads, and a lease that is given up at SIGTERM.
func TestTheBinaryRunsWithItsOwnRightsAndGivesItsLeaseUp(t *testing.T) {
	admin, ctx := server.Client(t), t.Context()
	root, err := apiserver.Root()
	require.NoError(t, err)
	file := apiserver.Kubeconfig(t, server.Controller(t))

	pages := []string{fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	first := start(t, file, "--page-bind-address="+pages[0])
	require.Eventually(t, func() bool { return holder(ctx, t, admin) != "" }, patiently, 50*time.Millisecond)
	assert.False(t, first.ready(t), "not ready without its certificate")
	require.NoError(t, apiserver.Apply(ctx, server.Admin(t), filepath.Join(root, "config", "webhook")))
	require.Eventually(t, func() bool { return first.ready(t) }, patiently, 50*time.Millisecond)
	profiles := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	second := start(t, file, "--page-bind-address="+pages[1], "--pprof-bind-address="+profiles)
	require.Eventually(t, func() bool { return second.ready(t) }, patiently, 50*time.Millisecond, "every replica serves admission")

	someone := server.ClientAsGroup(t, "someone", "system:masters")
	for _, p := range []*process{first, second} {
		reach(t, admin, p.webhook)
		require.Eventually(t, func() bool { // the API server takes a moment to see where they are
			err := someone.Create(ctx, &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"},
				Spec: v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "nobody"}}}, client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), "[MissingAgent]")
		}, patiently, 50*time.Millisecond)
	}
	said, err := ask(t, server.As(t, "someone", "system:masters"), "default")
	require.NoError(t, err)
	assert.Contains(t, said, "hearth.dev/v1alpha1 is served, and admission answers:")
	_, err = ask(t, server.Controller(t), "default")
	require.ErrorContains(t, err, "was admitted", "who passes without a call has not asked admission")

	assert.Contains(t, fetch(t, pages[0], "/"), "which leads")
	assert.Contains(t, fetch(t, pages[1], "/"), "which stands by", "every replica serves the page")
	assert.Contains(t, fetch(t, profiles, "/debug/pprof/"), "goroutine", "where it was asked for")

	before := holder(ctx, t, admin)
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.NoError(t, first.Wait(), "a clean end is exit code 0")
	require.NotEqual(t, before, holder(ctx, t, admin), "the lease was given up: nobody waits until it runs out")
	require.Eventually(t, func() bool { h := holder(ctx, t, admin); return h != "" && h != before }, patiently, 50*time.Millisecond)

	// What the second one does now, it does with the first one's certificate and as the leader.
	require.NoError(t, someone.Create(ctx, reviewer("default")))
	require.Eventually(t, func() bool {
		return admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "reviewer-1"}, &corev1.Pod{}) == nil
	}, patiently, 50*time.Millisecond)
	listen(t, admin, "default", "reviewer-1")
	require.Eventually(t, func() bool { // its Secret is read when its Link opens
		return slices.ContainsFunc(server.Audit(t, apiserver.ControllerUser), func(r apiserver.Request) bool {
			return r.Resource == "secrets" && r.Namespace == "default" && r.Verb == "get"
		})
	}, patiently, 50*time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(second.scrape(t), "hearth_targets{") }, patiently, 50*time.Millisecond)
	leads := second.scrape(t)
	assert.Contains(t, leads, `leader_election_master_status{name="`+shard.LeaseName+`"} 1`)
	require.NoError(t, exposition.Keep("controller-leads", leads))
	require.Eventually(t, func() bool {
		text := fetch(t, pages[1], "/")
		return strings.Contains(text, "which leads") && strings.Contains(text, `href="/agents/default/reviewer"`) && strings.Contains(text, `href="/runs/default/reviewer-1"`)
	}, patiently, 50*time.Millisecond)
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.NoError(t, second.Wait())
	_, err = ask(t, server.As(t, "someone", "system:masters"), "default")
	require.ErrorContains(t, err, "check: admission does not answer")
	for _, p := range []*process{first, second} {
		assert.NotContains(t, strings.ToLower(p.stderr.String()), "forbidden", "least rights are enough")
	}
	onlyWhatItMay(t, server.Audit(t, apiserver.ControllerUser))
}

// ask is `controller check`, as helm test runs it.
func ask(t *testing.T, user *rest.Config, namespace string) (string, error) {
	t.Helper()
	var said bytes.Buffer
	err := answers(t.Context(), user, namespace, &said)
	return said.String(), err
}

// reach makes the webhooks' Service mean a port of this machine. The name in the certificate stays the Service's.
func reach(t *testing.T, admin client.Client, port int) {
	t.Helper()
	ctx, at := t.Context(), ptr.To(int32(port)) //nolint:gosec // a port
	service := &corev1.Service{}
	require.NoError(t, admin.Get(ctx, client.ObjectKey{Namespace: "hearth-system", Name: webhookService}, service))
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	require.NoError(t, admin.Update(ctx, service))
	var m admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, admin.Get(ctx, client.ObjectKey{Name: webhookConfiguration}, &m))
	m.Webhooks[0].ClientConfig.Service.Port = at
	require.NoError(t, admin.Update(ctx, &m))
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, admin.Get(ctx, client.ObjectKey{Name: webhookConfiguration}, &v))
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig.Service.Port = at
	}
	require.NoError(t, admin.Update(ctx, &v))
}
