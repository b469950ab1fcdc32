// Package apiserver runs a real etcd and kube-apiserver for tests, with Hearth's CRDs, RBAC and, when asked for, its webhook
// configurations pointing at a webhook server inside the test. One server serves all tests of a package:
//
//	var server = apiserver.New(apiserver.Options{Webhooks: true})
//
//	func TestMain(m *testing.M) { os.Exit(server.Main(m)) }
//
// It starts with the first test that asks for it, so pure tests need no binaries.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hearthdev/hearth/test/exposition"
)

// AssetsEnv names the directory with etcd and kube-apiserver.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// Options says what the server has beside the CRDs and RBAC.
type Options struct {
	// Webhooks installs config/webhook, pointing at Server.Webhook. Something must serve there, or every write is refused.
	Webhooks bool
	// Bare leaves out everything of ours, CRDs and RBAC too: the test installs them as a person does.
	Bare bool
	// Audit keeps the API server's audit log, for Server.Audit.
	Audit bool
}

// Webhook is where the API server calls the webhooks of a test, and the directory with the certificate to serve there.
type Webhook struct {
	Host    string
	Port    int
	CertDir string
}

// Server is a kube-apiserver with its etcd.
type Server struct {
	options Options
	once    sync.Once
	env     *envtest.Environment
	config  *rest.Config
	scratch string // what the server reads and writes beside its own
	err     error
}

// startTimeout bounds the start of etcd and of the API server, each.
const startTimeout = 2 * time.Minute

// New describes a server; nothing runs yet.
func New(o Options) *Server { return &Server{options: o} }

// Main runs a package's tests and stops the server if one of them started it. It returns the exit code.
func (s *Server) Main(m interface{ Run() int }) int {
	code := m.Run()
	if err := exposition.KeepRegistry(metrics.Registry, "end"); err != nil {
		fmt.Fprintln(os.Stderr, "keep what was exposed:", err)
		code = max(code, 1)
	}
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test API server:", err)
		return max(code, 1)
	}
	return code
}

func (s *Server) stop() error {
	if s.env == nil {
		return nil
	}
	return errors.Join(s.env.Stop(), os.RemoveAll(s.scratch))
}

// ForTest is a server for one test; it is stopped with it.
func ForTest(t testing.TB, o Options) *Server {
	t.Helper()
	s := New(o)
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop the test API server: %v", err)
		}
	})
	return s
}

// Admin is the configuration of a cluster administrator, with client throttling off. It starts the server when none runs; a
// server that cannot start fails the test, and never skips it.
func (s *Server) Admin(t testing.TB) *rest.Config {
	t.Helper()
	s.once.Do(func() { s.err = s.start(t.Context()) })
	if s.err != nil {
		t.Fatalf("the test API server: %v", s.err)
	}
	return rest.CopyConfig(s.config)
}

// Webhook is where a test with Options.Webhooks serves them.
func (s *Server) Webhook(t testing.TB) Webhook {
	t.Helper()
	s.Admin(t)
	w := s.env.WebhookInstallOptions
	return Webhook{Host: w.LocalServingHost, Port: w.LocalServingPort, CertDir: w.LocalServingCertDir}
}

func (s *Server) start(ctx context.Context) error {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	assets, err := assets(os.Getenv(AssetsEnv))
	if err != nil {
		return err
	}
	root, err := Root()
	if err != nil {
		return err
	}
	existing := false
	s.env = &envtest.Environment{
		UseExistingCluster:    &existing,
		BinaryAssetsDirectory: assets,
		ErrorIfCRDPathMissing: true,
		// A busy machine needs longer than the 20 s after which envtest would start over.
		ControlPlaneStartTimeout: startTimeout,
	}
	if s.scratch, err = os.MkdirTemp("", "apiserver-"); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if s.options.Audit {
		if err := s.keepAudit(); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	if !s.options.Bare {
		s.env.CRDDirectoryPaths = []string{filepath.Join(root, "config", "crd")}
	}
	if s.options.Webhooks {
		s.env.WebhookInstallOptions.Paths = []string{filepath.Join(root, "config", "webhook", "webhooks.yaml")}
	}
	if s.config, err = s.env.Start(); err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), s.env.Stop())
	}
	s.config.QPS = -1
	if s.options.Bare {
		return nil
	}
	return Apply(ctx, s.config, filepath.Join(root, "config", "rbac"))
}

// assets checks the directory beforehand, because a missing binary otherwise shows as a failed start of something else.
func assets(dir string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("%s is not set: run `make envtest-assets` and set it to the directory that is printed (`make test` does both)", AssetsEnv)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil { //nolint:gosec // the tester's own directory
			return "", fmt.Errorf("%s=%s has no %s: run `make envtest-assets` and set it to the directory that is printed: %w", AssetsEnv, dir, name, err)
		}
	}
	return dir, nil
}

// Root is the repository's root directory: the nearest one upwards with the module's go.mod. Tests run in their package's folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find the repository: no go.mod above the working directory")
		}
	}
}
