package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/webhooks"
)

const (
	allInOneManager = "system:kube-controller-manager"
	theirName       = "hearth-admission" // of the webhook configurations, whose certificate authority a controller keeps
	ourName         = "rig-admission"
)

// server is the one API server of the test process.
var server = apiserver.New(apiserver.Options{Webhooks: true})

// cluster is what stands beside the API server for all Worlds.
type cluster struct {
	once    sync.Once
	unserve func() error // ends admission
	manager *exec.Cmd
	err     error
}

var shared cluster

// AdmissionSpans are those that admission makes, which runs in the test process; set before the first World.
var AdmissionSpans *trace.Spans

// Main runs a package's tests and then ends what they shared. It returns the exit code.
func Main(m *testing.M) int {
	code := server.Main(stopping{m})
	_ = os.RemoveAll(built)
	return code
}

// stopping ends what talks to the API server before the server ends.
type stopping struct{ m *testing.M }

// Run implements what apiserver.Server.Main needs of a testing.M.
func (s stopping) Run() int {
	code := s.m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test cluster:", err)
		return max(code, 1)
	}
	return code
}

func (c *cluster) stop() error {
	var errs []error
	if c.manager != nil {
		_ = c.manager.Process.Kill()
		_ = c.manager.Wait()
	}
	if c.unserve != nil {
		errs = append(errs, c.unserve())
	}
	return errors.Join(errs...)
}

// start serves admission inside the test process, so that runs can be created while every controller is dead, and starts the
// cluster's own controllers for garbage and namespaces.
func (c *cluster) start(t testing.TB) {
	t.Helper()
	server.Admin(t)
	c.once.Do(func() {
		c.err = errors.New("the test cluster did not start: an earlier test says why") // where one ends in the middle
		c.err = c.run(t)
	})
	require.NoError(t, c.err)
}

func (c *cluster) run(t testing.TB) error {
	if err := rename(t.Context(), server.Client(t)); err != nil {
		return err
	}
	c.unserve = webhooks.Start(t, server, admission.Options{Spans: AdmissionSpans, Now: time.Now}, nil)
	return c.collect(t)
}

// rename takes the webhook configurations out of the controllers' reach: each would write its own certificate authority there.
func rename(ctx context.Context, admin client.Client) error {
	var m admissionregistrationv1.MutatingWebhookConfiguration
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	for _, o := range []client.Object{&m, &v} {
		if err := admin.Get(ctx, client.ObjectKey{Name: theirName}, o); err != nil {
			return fmt.Errorf("admission: %w", err)
		}
		renamed := o.DeepCopyObject().(client.Object)
		renamed.SetName(ourName)
		renamed.SetResourceVersion("")
		renamed.SetUID("")
		renamed.SetCreationTimestamp(metav1.Time{})
		if err := admin.Create(ctx, renamed); err != nil {
			return fmt.Errorf("admission: %w", err)
		}
		if err := admin.Delete(ctx, o); err != nil {
			return fmt.Errorf("admission: %w", err)
		}
	}
	return nil
}

// collect starts the real kube-controller-manager with two of its controllers.
func (c *cluster) collect(t testing.TB) error {
	binary := filepath.Join(os.Getenv(apiserver.AssetsEnv), "kube-controller-manager")
	c.manager = exec.CommandContext(context.Background(), binary, //nolint:gosec // of the tester's own assets
		"--kubeconfig="+apiserver.Kubeconfig(t, server.As(t, allInOneManager, "system:masters")),
		"--controllers=garbage-collector-controller,namespace-controller", "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000", "--cert-dir="+t.TempDir())
	c.manager.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.manager.Start(); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	return nil
}

// patience is how long anything may take that must come; tick is how often it is looked for.
const (
	patience = 90 * time.Second
	tick     = 50 * time.Millisecond
)
