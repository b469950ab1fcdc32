package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	leaseName  = "hearth-controller"
	maxMetrics = 16 << 20
)

// Controller is a controller process.
type Controller struct {
	// Metrics, Probes and Pprof are host:port. Pprof is empty unless Options.Profiles is set.
	Metrics, Probes, Pprof string

	process *process
}

// memoryLimit is what the installation's container gives it (config/manager).
const memoryLimit = "GOMEMLIMIT=512MiB"

// PID is its process number.
func (c *Controller) PID() int { return c.process.pid() }

// Done is closed when the process has ended.
func (c *Controller) Done() <-chan struct{} { return c.process.done }

// Controller is the one that runs, nil after KillController.
func (r *Rig) Controller() *Controller { return r.controller }

func (r *Rig) build(ctx context.Context) (string, error) {
	program := r.path("controller")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/controller")
	build.Dir, build.Env = r.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the controller: %w: %s", err, out)
	}
	return program, nil
}

// StartController starts the controller and returns when it leads and its webhooks are ready.
func (r *Rig) StartController(ctx context.Context) (*Controller, error) {
	if r.controller != nil {
		return nil, errors.New("start the controller: one runs already")
	}
	c := &Controller{}
	addresses := []*string{&c.Metrics, &c.Probes}
	if r.options.Profiles {
		addresses = append(addresses, &c.Pprof)
	}
	for _, a := range addresses {
		var err error
		if *a, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	args := []string{"--metrics-bind-address=" + c.Metrics, "--health-probe-bind-address=" + c.Probes, fmt.Sprintf("--webhook-port=%d", r.port)}
	if r.options.Profiles {
		args = append(args, "--pprof-bind-address="+c.Pprof)
	}
	r.starts++
	var err error
	c.process, err = run(r.path(fmt.Sprintf("controller-%d.log", r.starts)), []string{"KUBECONFIG=" + r.kubeconfig, memoryLimit}, r.program, append(args, r.options.Controller...)...)
	if err != nil {
		return nil, err
	}
	r.controller = c
	if r.options.Started != nil {
		r.options.Started(r)
	}
	err = r.looking(ctx, startTick, "the controller to lead", func() bool {
		return c.process.over() || get(ctx, "http://"+c.Probes+"/readyz", nil) == nil && c.leads(ctx)
	})
	if err == nil && c.process.over() {
		err = fmt.Errorf("the controller ended: %s", tail(c.process.log))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// KillController ends it with SIGKILL, if one runs.
func (r *Rig) KillController() {
	if r.controller != nil {
		r.controller.process.kill()
		r.controller = nil
	}
}

// DropLease takes the lease from a controller that was killed, so that the next one need not wait until it has run out.
func (r *Rig) DropLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leaseName}}
	if err := r.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("drop the lease: %w", err)
	}
	return nil
}

// leads tells by its own metrics whether it is the leader.
func (c *Controller) leads(ctx context.Context) bool {
	var text bytes.Buffer
	return get(ctx, "http://"+c.Metrics+"/metrics", &text) == nil && bytes.Contains(text.Bytes(), []byte(`leader_election_master_status{name="`+leaseName+`"} 1`))
}

// get reads an address, into out where one is given.
func get(ctx context.Context, url string, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return do(request, out)
}

func do(request *http.Request, out io.Writer) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s %s: %s", request.Method, request.URL, response.Status)
	}
	if out == nil {
		out = io.Discard
	}
	_, err = io.Copy(out, io.LimitReader(response.Body, maxMetrics))
	return err
}
