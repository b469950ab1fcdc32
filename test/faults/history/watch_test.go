package history

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

// world is an API server in memory whose watches a test can make fail.
func world(t *testing.T, watched func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error)) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, hearthv1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&hearthv1.AgentRun{}).
		WithInterceptorFuncs(interceptor.Funcs{Watch: watched}).Build()
}

func aRun(name string) *hearthv1.AgentRun {
	r := &hearthv1.AgentRun{}
	r.Name, r.Namespace, r.UID = name, "ns", types.UID("uid-"+name)
	r.Spec.AgentRef.Name = "reviewer"
	return r
}

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

func TestTheWatcherSeesAllFromTheStart(t *testing.T) {
	c := server.Client(t)
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}))
	require.NoError(t, c.Create(t.Context(), aRun("before")))
	w, err := Watch(t.Context(), server.Admin(t), "ns")
	require.NoError(t, err)
	defer w.Stop()
	run := aRun("during")
	require.NoError(t, c.Create(t.Context(), run))
	run.Status.Phase = hearthv1.PhasePending
	require.NoError(t, c.Status().Update(t.Context(), run))
	require.NoError(t, w.Settle(t.Context()))
	require.NoError(t, c.Delete(t.Context(), run))
	require.NoError(t, w.Settle(t.Context()))

	var seen []string
	for _, v := range w.Versions() {
		seen = append(seen, string(v.Type)+" "+v.Run.Name+" "+string(v.Run.Status.Phase))
	}
	assert.Equal(t, []string{"ADDED before ", "ADDED during ", "MODIFIED during Pending", "DELETED during Pending"}, seen)
	assert.NoError(t, w.Err())
}

// A watch that ends is opened again at the last version that was seen, so that nothing between is missed.
func TestAWatchThatEndsGoesOnWhereItWas(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var opened atomic.Int32
	from := make(chan string, 8)
	c := world(t, func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
		all := &client.ListOptions{}
		all.ApplyOptions(o)
		from <- all.Raw.ResourceVersion
		switch opened.Add(1) {
		case 1:
			return nil, errors.New("connection refused")
		case 2:
			ended := watch.NewFake()
			seen := aRun("seen")
			seen.ResourceVersion = "4711"
			go func() { ended.Add(seen); ended.Stop() }()
			return ended, nil
		default:
			return watch.NewFake(), nil
		}
	})
	w, err := follow(t.Context(), c, "ns")
	require.NoError(t, err)
	defer w.Stop()
	first, again, later := <-from, <-from, <-from
	assert.Equal(t, first, again)
	assert.Equal(t, "4711", later)
	assert.NoError(t, w.Err())
	require.Len(t, w.Versions(), 1)
}

// What was compacted away is an error: a history with a hole proves nothing.
func TestAGapIsAnError(t *testing.T) {
	for name, gone := range map[string]func() (watch.Interface, error){
		"told as the watch opens": func() (watch.Interface, error) { return nil, apierrors.NewResourceExpired("too old") },
		"told in the watch": func() (watch.Interface, error) {
			f := watch.NewFake()
			status := apierrors.NewResourceExpired("too old").Status()
			go f.Error(&status)
			return f, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := world(t, func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				return gone()
			})
			w, err := follow(t.Context(), c, "ns")
			require.NoError(t, err)
			defer w.Stop()
			require.NoError(t, c.Create(t.Context(), aRun("missed")))
			assert.ErrorIs(t, w.Settle(t.Context()), ErrGap)
		})
	}
}

// A watcher that is behind says so; it does not pass for one that has seen all.
func TestSettleWaitsForWhatIsStored(t *testing.T) {
	c := world(t, func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
		return watch.NewFake(), nil
	})
	run := aRun("stays")
	require.NoError(t, c.Create(t.Context(), run))
	w, err := follow(t.Context(), c, "ns")
	require.NoError(t, err)
	defer w.Stop()
	require.NoError(t, w.Settle(t.Context()))
	run.Status.Phase = hearthv1.PhasePending
	require.NoError(t, c.Status().Update(t.Context(), run))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, w.Settle(ctx), context.DeadlineExceeded)
}
