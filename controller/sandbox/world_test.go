package sandbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
	double "github.com/hearthdev/hearth/test/sandbox"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(server.Main(m))
}

// world is a room in which the controllers run with the rights of config/rbac.
type world struct {
	t *testing.T
	*room.Room
	// looks are the Presence's: each value lets it look again.
	looks chan time.Time
	// failing has the double's passes fail.
	failing atomic.Bool
}

// newWorld has the kind and its controller's double, too.
func newWorld(t *testing.T) *world {
	t.Helper()
	require.NoError(t, double.Install(t.Context(), server.Admin(t)))
	w := bareWorld(t, nil)
	w.double()
	return w
}

// bareWorld has the kind or not, as the API server has. The Presence serves these namespaces; nil is all.
func bareWorld(t *testing.T, namespaces []string) *world {
	t.Helper()
	w := &world{t: t, Room: room.New(t, server), looks: make(chan time.Time)}
	if namespaces != nil {
		namespaces = append(namespaces, w.Namespace)
	}
	options := room.Options()
	options.Logger = logr.Discard()
	mgr := w.Manager(server.Controller(t), options)
	presence, err := sandbox.NewPresence(mgr, namespaces, pod.Selector(), func(time.Duration) <-chan time.Time { return w.looks }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, (&agent.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Loads: room.Idle{}, Events: mgr.GetEventRecorder("hearth"), Now: time.Now}).SetupWithManager(mgr))
	require.NoError(t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Random: rand.Reader, Sandboxes: presence}).SetupWithManager(mgr))
	w.Start(mgr)
	return w
}

// double starts the double of the Sandboxes' controller.
func (w *world) double() {
	w.t.Helper()
	mgr := w.Manager(server.Admin(w.t), ctrl.Options{Logger: logr.Discard()})
	fail := func(client.ObjectKey) error {
		if w.failing.Load() {
			return errors.New("not now")
		}
		return nil
	}
	require.NoError(w.t, (&double.Double{Client: w.Client, Collect: true, Fail: fail}).SetupWithManager(mgr))
	w.Start(mgr)
}

// agent makes an Agent of backend Sandbox. Its Pods are bound to a node, so that a deleted one terminates until kubelet is done.
func (w *world) agent(name string, changes ...func(*v1alpha1.Agent)) {
	w.t.Helper()
	w.Agent(name, append([]func(*v1alpha1.Agent){func(a *v1alpha1.Agent) {
		a.Spec.Backend, a.Spec.Template.Spec.NodeName = v1alpha1.BackendSandbox, "node1"
	}}, changes...)...)
}

// oneShot makes a run of such an Agent of mode Task.
func (w *world) oneShot(name string) {
	w.t.Helper()
	w.OneShot(name, func(r *v1alpha1.AgentRun) {
		r.Spec.Backend, r.Spec.Template.Spec.NodeName = v1alpha1.BackendSandbox, "node1"
	})
}

func (w *world) theSandbox(name string) *sandbox.Sandbox {
	w.t.Helper()
	var s sandbox.Sandbox
	w.Eventually("Sandbox "+name, func(ctx context.Context) bool { return w.Get(ctx, w.Key(name), &s) == nil })
	return &s
}

func acpSays(r *v1alpha1.AgentRun) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionACPReady); c != nil {
		return c.Message
	}
	return ""
}

// waitsBecause holds for a run that waits for its Pod with these words.
func waitsBecause(message string) func(*v1alpha1.AgentRun) bool {
	return func(r *v1alpha1.AgentRun) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.AgentRunConditionSucceeded)
		return c != nil && c.Reason == v1alpha1.ReasonPodNotRunning && c.Message == message
	}
}
