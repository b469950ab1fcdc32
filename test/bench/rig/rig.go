// Package rig runs what the benchmarks measure, each part as a process of its own: etcd and kube-apiserver, the controller with its
// webhooks and with no more rights than its ServiceAccount has, and the stand-in for kubelet and the harnesses
// (test/bench/node). That one is the calling program again, so its main begins with node.Asked and node.Main.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/bench/node"
)

const (
	patience = 2 * time.Minute // for one part to start, or one condition to come true
	tick     = 20 * time.Millisecond
	// startTick is how often it looks whether a controller that starts leads: each look is a handshake with its webhooks and a scrape.
	startTick = 100 * time.Millisecond
)

// Options of a Rig; the zero value is right for most.
type Options struct {
	// Etcd and APIServer are flags beside the rig's own, without their dashes.
	Etcd, APIServer map[string]string
	// NoFsync has etcd not wait for its disk. A real one does, and so does the rig unless told otherwise.
	NoFsync bool
	// Controller are flags beside the rig's own, as they are written.
	Controller []string
	// Profiles has the controller serve Go's profiles, see Controller.Pprof.
	Profiles bool
	// Started is called as soon as a controller's process was started, which is Rig.Controller then; nil is not.
	Started func(*Rig)
}

// Rig is all that runs.
type Rig struct {
	// Config is the administrator's, with client throttling off. The controller's webhooks are called for what it writes.
	Config *rest.Config
	// Client is the administrator's, without a cache.
	Client client.Client
	// Kubeconfig is a file with Config, for programs.
	Kubeconfig string
	// Dir has the logs and the data of all processes; Stop removes it.
	Dir string
	// Node stands in for kubelet and the harnesses.
	Node *node.Node
	// APIServer and Etcd are process numbers.
	APIServer, Etcd int

	options    Options
	env        *envtest.Environment
	root       string // of the repository
	controller *Controller
	program    string // the controller's
	kubeconfig string // the controller's
	port       int    // of its webhooks
	starts     int    // of controllers
	nodeLog    *os.File
}

// Scheme has the built-in types and ours.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), hearthv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("the rig's types: %w", err)
	}
	return scheme, nil
}

// Start starts everything and returns when a run would be admitted. What has been started when something fails is stopped.
func Start(ctx context.Context, o Options) (*Rig, error) {
	r := &Rig{options: o}
	err := r.start(ctx)
	if err == nil {
		return r, nil
	}
	return nil, errors.Join(fmt.Errorf("start the rig: %w", err), r.Stop())
}

func (r *Rig) start(ctx context.Context) (err error) {
	ctrl.SetLogger(logr.Discard())
	if r.root, err = apiserver.Root(); err != nil {
		return err
	}
	if r.Dir, err = os.MkdirTemp("", "hearth-bench-"); err != nil {
		return err
	}
	if err := r.startAPI(ctx); err != nil {
		return err
	}
	if err := r.install(ctx); err != nil {
		return err
	}
	if r.program, err = r.build(ctx); err != nil {
		return err
	}
	if err := r.startNode(ctx); err != nil {
		return err
	}
	if _, err := r.StartController(ctx); err != nil {
		return err
	}
	return r.until(ctx, "admission to answer", func() bool { return r.admits(ctx) })
}

func (r *Rig) startNode(ctx context.Context) (err error) {
	if err := os.Mkdir(r.path("journals"), 0o700); err != nil {
		return err
	}
	if r.nodeLog, err = os.Create(r.path("node.log")); err != nil {
		return err
	}
	r.Node, err = node.Spawn(ctx, node.Options{Kubeconfig: r.Kubeconfig, Dir: r.path("journals"), Log: r.nodeLog})
	return err
}

// Stop ends everything that was started.
func (r *Rig) Stop() error {
	var errs []error
	r.KillController()
	if r.Node != nil {
		errs = append(errs, r.Node.Close(), r.nodeLog.Close())
	}
	if r.env != nil {
		errs = append(errs, r.env.Stop())
	}
	if r.Dir != "" {
		errs = append(errs, os.RemoveAll(r.Dir))
	}
	return errors.Join(errs...)
}

// Namespace makes a namespace.
func (r *Rig) Namespace(ctx context.Context, name string) error {
	if err := r.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("make a namespace: %w", err)
	}
	return nil
}

// until waits for a condition.
func (r *Rig) until(ctx context.Context, what string, holds func() bool) error {
	return r.looking(ctx, tick, what, holds)
}

// looking waits for a condition, and looks so often.
func (r *Rig) looking(ctx context.Context, every time.Duration, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ticker := time.NewTicker(every); ; {
		if holds() {
			ticker.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			ticker.Stop()
			return fmt.Errorf("waited %v for %s, in vain: %w\n%s", patience, what, ctx.Err(), r.Logs())
		case <-ticker.C:
		}
	}
}

// Logs are the ends of what controller and nodes said, for whoever has to find out why something failed.
func (r *Rig) Logs() string {
	text := ""
	if r.controller != nil {
		text += "controller: " + tail(r.controller.process.log)
	}
	if r.nodeLog != nil {
		text += "node: " + tail(r.nodeLog.Name())
	}
	return text
}

func (r *Rig) path(name string) string { return filepath.Join(r.Dir, name) }
