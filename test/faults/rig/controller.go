package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/internal/crashpoint"
)

// leaseName is the controllers' lease in their own namespace, which in a World is the served one.
const leaseName = "hearth-controller"

// Controller is a controller process that serves the World's namespace. Its rights are those of config/namespaced.
type Controller struct {
	world            *World
	process          *process
	frozen           atomic.Bool
	metrics, healthz string
}

// Controller starts one more. The flags come after the rig's own, and so win over them.
func (w *World) Controller(flags ...string) *Controller {
	w.t.Helper()
	c, err := w.startController(flags)
	require.NoError(w.t, err)
	return c
}

func (w *World) startController(flags []string) (*Controller, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	c := &Controller{world: w}
	dir := filepath.Join(w.dir, fmt.Sprintf("c%d", w.started))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start a controller: %w", err)
	}
	socket, err := asks(w.ctx, dir, func(h *Hit) { h.Controller, h.process = c, c.running() }, &w.points)
	if err != nil {
		return nil, err
	}
	ip, err := address(w.ctx, metricsPort, healthPort)
	if err != nil {
		return nil, err
	}
	c.metrics, c.healthz = at(ip, metricsPort), at(ip, healthPort)
	port, err := freePort(w.ctx)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--namespaces=" + w.Namespace, "--namespace=" + w.Namespace, "--metrics-bind-address=" + c.metrics,
		"--health-probe-bind-address=" + c.healthz, "--webhook-port=" + strconv.Itoa(port)}, flags...)
	env := append(append(os.Environ(), w.options.Env...), "KUBECONFIG="+w.kubeconfig, socketVariable+"="+socket)
	if c.process, err = startProcess(env, 0, &output{}, w.built.controller, args...); err != nil {
		return nil, fmt.Errorf("start a controller: %w", err)
	}
	w.controllers = append(w.controllers, c)
	return c, nil
}

// running is the process, which is set once it was started.
func (c *Controller) running() *process {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.process
}

// Hold stops the next of the World's controllers that reaches the point.
func (w *World) Hold(p crashpoint.Point) *Hold { return w.points.hold(w.t, p) }

// Reached is how often controllers came to a point.
func (w *World) Reached(p crashpoint.Point) int { return w.points.count(p) }

// PID is the process's number.
func (c *Controller) PID() int { return c.process.pid() }

// Alive tells whether the process has not ended.
func (c *Controller) Alive() bool { return !c.process.over() }

// Kill is SIGKILL. What it held of the lease is taken away as if its time were over, so that no test waits for that.
func (c *Controller) Kill() {
	c.process.kill()
	c.ended()
}

// Stop is SIGTERM, and waits for the end.
func (c *Controller) Stop() {
	c.process.signal(syscall.SIGTERM)
	c.process.wait(c.world.t)
}

// Freeze stops the process's time with SIGSTOP; Thaw lets it go on.
func (c *Controller) Freeze() {
	c.frozen.Store(true)
	c.process.signal(syscall.SIGSTOP)
}

// Thaw ends a Freeze.
func (c *Controller) Thaw() {
	c.process.signal(syscall.SIGCONT)
	c.frozen.Store(false)
}

// Wait waits until the process has ended by itself.
func (c *Controller) Wait() { c.process.wait(c.world.t) }

// Log is what the process said.
func (c *Controller) Log() string { return c.process.log.String() }

// ended is for a process that was killed: unless another one may hold the lease, it is removed.
func (c *Controller) ended() {
	w := c.world
	if w.options.KeepLease {
		return
	}
	w.mu.Lock()
	alive := 0
	for _, other := range w.controllers {
		if other.Alive() {
			alive++
		}
	}
	w.mu.Unlock()
	if alive == 0 {
		w.DropLease()
	}
}

// DropLease takes the lease from whoever has it: the next controller that looks becomes the leader.
func (w *World) DropLease() {
	w.t.Helper()
	require.NoError(w.t, w.dropLease())
}

func (w *World) dropLease() error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: leaseName}}
	return client.IgnoreNotFound(w.Admin.Delete(w.ctx, lease))
}

func (w *World) restart(flags []string) error {
	if err := w.dropLease(); err != nil {
		return err
	}
	_, err := w.startController(flags)
	return err
}

// Leader is the identity of the lease's holder, "" where there is none.
func (w *World) Leader() string {
	w.t.Helper()
	var lease coordinationv1.Lease
	err := w.Admin.Get(w.ctx, client.ObjectKey{Namespace: w.Namespace, Name: leaseName}, &lease)
	require.NoError(w.t, client.IgnoreNotFound(err))
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// Metrics is the text of the process's metrics; "" if it does not answer.
func (c *Controller) Metrics() string {
	request, err := http.NewRequestWithContext(c.world.ctx, http.MethodGet, "http://"+c.metrics+"/metrics", nil)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics))
	if err != nil {
		return ""
	}
	return string(text)
}

const maxMetrics = 8 << 20

// Supervise keeps one controller running until the test's end, or until stop is called: when one ends, another is started.
func (w *World) Supervise(flags ...string) (stop func()) {
	w.t.Helper()
	w.Controller(flags...)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			w.mu.Lock()
			c := w.controllers[len(w.controllers)-1]
			w.mu.Unlock()
			select {
			case <-over:
				return
			case <-w.ctx.Done():
				return
			case <-c.process.done:
				if w.ctx.Err() != nil {
					return
				}
				if err := w.restart(flags); err != nil {
					w.t.Errorf("the supervised controller: %v", err)
					return
				}
			}
		}
	}()
	return func() { close(over); <-done }
}

const metricsPort, healthPort = 8080, 8081

// ports are for listeners of all addresses: below those that the kernel gives to connections, and which another process may get.
var ports struct {
	sync.Mutex
	next int
}

const firstPort, portCount = 20_000, 10_000

func freePort(ctx context.Context) (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range portCount {
		port := firstPort + (os.Getpid()*97+ports.next)%portCount
		ports.next++
		if !taken(ctx, "", port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port: all of %d are in use", portCount)
}
