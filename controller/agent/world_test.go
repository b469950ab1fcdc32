package agent_test

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// world is a room in which the controllers run with the rights of config/rbac.
type world struct {
	t *testing.T
	*room.Room
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, Room: room.New(t, server)}
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	require.NoError(t, w.Patch(t.Context(), restricted, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	mgr := w.Manager(server.Controller(t), room.Options())
	w.reconcile(mgr, room.Idle{})
	w.Start(mgr)
	return w
}

// reconcile has the manager keep Agents' standing runs, and these their Pods.
func (w *world) reconcile(mgr manager.Manager, loads agent.Loads) {
	w.t.Helper()
	require.NoError(w.t, (&agent.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Loads: loads, Events: mgr.GetEventRecorder("hearth"), Now: time.Now}).SetupWithManager(mgr))
	require.NoError(w.t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Random: rand.Reader}).SetupWithManager(mgr))
}

// uncached reads from the API server, which knows no index of the cache.
type uncached struct{ client.Client }

func (c uncached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	for i, o := range options {
		if _, indexed := o.(client.MatchingFields); indexed {
			options[i] = client.HasLabels{v1alpha1.LabelAgent}
		}
	}
	return c.Client.List(ctx, list, options...) //nolint:wrapcheck // a double
}

func fails(s *corev1.PodStatus) {
	s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "low on memory"
}

func is(r *v1alpha1.AgentRun, condition string, status metav1.ConditionStatus, reason string) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, condition)
	return c != nil && c.Status == status && c.Reason == reason
}

func (w *world) standing(ctx context.Context, agent string) []string {
	var runs v1alpha1.AgentRunList
	require.NoError(w.t, w.List(ctx, &runs, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelAgent: agent}))
	var alive []string
	for _, r := range runs.Items {
		if r.Status.CompletionTime == nil {
			alive = append(alive, r.Name)
		}
	}
	slices.Sort(alive)
	return alive
}

func (w *world) agentIs(name, condition string, status metav1.ConditionStatus, reason string) *v1alpha1.Agent {
	w.t.Helper()
	var a v1alpha1.Agent
	w.Eventually("Agent "+name+" "+condition+" "+reason, func(ctx context.Context) bool {
		require.NoError(w.t, w.Get(ctx, w.Key(name), &a))
		c := meta.FindStatusCondition(a.Status.Conditions, condition)
		return c != nil && c.Status == status && c.Reason == reason
	})
	return &a
}

func (w *world) change(a *v1alpha1.Agent, change func(*v1alpha1.Agent)) {
	w.t.Helper()
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(a), a))
	before := a.DeepCopy()
	change(a)
	require.NoError(w.t, w.Patch(w.t.Context(), a, client.MergeFrom(before)))
}
