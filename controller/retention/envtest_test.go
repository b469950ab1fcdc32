package retention

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// stored stores a run that has ended.
func stored(t *testing.T, c client.Client, run *v1alpha1.AgentRun) *v1alpha1.AgentRun {
	t.Helper()
	status := run.Status
	run.UID, run.ResourceVersion = "", ""
	require.NoError(t, c.Create(t.Context(), run))
	run.Status = status
	require.NoError(t, c.Status().Update(t.Context(), run))
	return run
}

// stale reads what a cache shows that is behind.
type stale struct {
	client.Client
	shows *v1alpha1.AgentRun
}

func (s stale) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if run, ok := into.(*v1alpha1.AgentRun); ok {
		s.shows.DeepCopyInto(run)
		return nil
	}
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("agents").GroupResource(), "reviewer")
}

// R32; SPEC.md, Retention: a record goes when its time is over and not before, with the rights of config/rbac; who watches has seen
// it; and a delete that comes from a cache which is behind hits neither a later version nor another run of that name.
func TestARecordGoesWhenItsTimeIsOver(t *testing.T) {
	c, namespace := server.ControllerClient(t), server.Namespace(t)
	admin, err := client.NewWithWatch(server.Admin(t), client.Options{Scheme: apiserver.Scheme(t)})
	require.NoError(t, err)
	seen, err := admin.Watch(t.Context(), &v1alpha1.AgentRunList{}, client.InNamespace(namespace))
	require.NoError(t, err)
	defer seen.Stop()
	in := func(r *v1alpha1.AgentRun) { r.Namespace = namespace; r.Spec.TTLSecondsAfterFinished = ptr.To[int64](0) }
	at := end.Add(-time.Nanosecond)
	look := func(c client.Client, run *v1alpha1.AgentRun) ctrl.Result {
		t.Helper()
		result, err := (&Reconciler{Client: c, Now: func() time.Time { return at }}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(run)})
		require.NoError(t, err)
		return result
	}
	there := func(run *v1alpha1.AgentRun) bool {
		t.Helper()
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(run), &v1alpha1.AgentRun{})
		require.NoError(t, client.IgnoreNotFound(err))
		return err == nil
	}

	run := stored(t, admin, record(in, oneShot))
	assert.Equal(t, time.Nanosecond, look(c, run).RequeueAfter, "exactly then")
	assert.True(t, there(run))
	at = end
	behind := run.DeepCopy()
	run.Labels = map[string]string{"keep": "me"}
	require.NoError(t, admin.Update(t.Context(), run))
	assert.Equal(t, lookSoon, look(stale{c, behind}, run).RequeueAfter)
	assert.True(t, there(run), "another version than the one that was looked at")
	behind = run.DeepCopy()
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(run), behind))
	require.NoError(t, admin.Delete(t.Context(), behind.DeepCopy()))
	again := record(in, oneShot)
	again.Status = v1alpha1.AgentRunStatus{}
	again = stored(t, admin, again)
	assert.Equal(t, lookSoon, look(stale{c, behind}, run).RequeueAfter)
	assert.True(t, there(again), "another run of that name")
	again.Status = record().Status
	require.NoError(t, admin.Status().Update(t.Context(), again))
	assert.Zero(t, look(c, again))
	assert.False(t, there(again))
	assert.Zero(t, look(c, again), "gone is as good")

	standing := stored(t, admin, record(in, oneShot, func(r *v1alpha1.AgentRun) {
		r.Name, r.Annotations = "reviewer-1", map[string]string{v1alpha1.AnnotationGeneration: "1"}
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Agent", Name: "reviewer", UID: "agent-uid", Controller: ptr.To(true)}}
	}))
	assert.Zero(t, look(c, standing))
	assert.True(t, there(standing), "its Agent keeps those")

	ended := false
	for event := range seen.ResultChan() {
		r, ok := event.Object.(*v1alpha1.AgentRun)
		require.True(t, ok)
		if r.UID != again.UID {
			continue
		}
		if event.Type == watch.Deleted {
			break
		}
		ended = ended || r.Ended()
	}
	assert.True(t, ended, "who watches has seen the record before it went")
}
