package apifault_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/faults/apifault"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

const soon = 30 * time.Second

// world is a proxy, a client through it and one of its own namespace, and one that goes straight.
type world struct {
	*apifault.API
	through, straight client.Client
	namespace         string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	a, err := apifault.New(server.Admin(t))
	require.NoError(t, err)
	t.Cleanup(a.Close)
	through, err := client.New(a.Config(), client.Options{})
	require.NoError(t, err)
	return &world{API: a, through: through, straight: server.Client(t), namespace: server.Namespace(t)}
}

func (w *world) named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

func (w *world) exists(t *testing.T, name string) bool {
	t.Helper()
	err := w.straight.Get(t.Context(), client.ObjectKeyFromObject(w.named(name)), w.named(name))
	require.NoError(t, client.IgnoreNotFound(err))
	return err == nil
}

// cache starts an informer cache through the proxy; it is stopped with the test.
func (w *world) cache(t *testing.T) cache.Cache {
	t.Helper()
	c, err := cache.New(w.Config(), cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	_, err = c.GetInformer(t.Context(), &corev1.ConfigMap{})
	require.NoError(t, err)
	return c
}

func names(t *testing.T, r client.Reader, namespace string) string {
	t.Helper()
	var all corev1.ConfigMapList
	require.NoError(t, r.List(t.Context(), &all, client.InNamespace(namespace)))
	var found []string
	for _, c := range all.Items {
		found = append(found, c.Name)
	}
	return strings.Join(found, " ")
}

func TestAnAPIServerBehindItIsTheSameByFileAndInProcess(t *testing.T) {
	w := newWorld(t)
	path, err := w.Kubeconfig(t.TempDir())
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	other, err := client.New(config, client.Options{})
	require.NoError(t, err)
	require.NoError(t, other.Create(t.Context(), w.named("a")))
	assert.True(t, w.exists(t, "a"))
	require.NoError(t, w.through.Delete(t.Context(), w.named("a")))
	assert.False(t, w.exists(t, "a"))
	assert.Equal(t, 1, w.Count(apifault.Match{Verbs: []string{"create"}, Resource: "configmaps", Subresource: apifault.None, Namespace: w.namespace}))
	last := w.Requests()[len(w.Requests())-1]
	assert.Equal(t, []any{"delete", "configmaps", w.namespace, "a", 200}, []any{last.Verb, last.Resource, last.Namespace, last.Name, last.Status})
}

func TestFailuresAreThoseOfAnAPIServer(t *testing.T) {
	w := newWorld(t)
	made := w.named("a")
	require.NoError(t, w.straight.Create(t.Context(), made))
	for code, is := range map[int]func(error) bool{409: apierrors.IsConflict, 500: apierrors.IsInternalError, 504: apierrors.IsTimeout} {
		rule := w.On(apifault.Match{Verbs: []string{"update"}, Resource: "configmaps", Name: "a"}).Fail(code, 2)
		for range 2 {
			err := w.through.Update(t.Context(), made.DeepCopy())
			assert.True(t, is(err), "%d: %v", code, err)
		}
		require.NoError(t, w.through.Update(t.Context(), made), "a third time is not meant")
		assert.Equal(t, 2, rule.Hits())
	}
	always := w.On(apifault.Match{Resource: "configmaps", Body: func(b []byte) bool { return strings.Contains(string(b), "secret-word") }}).Fail(500, apifault.Always)
	assert.Error(t, w.through.Create(t.Context(), w.named("secret-word")))
	assert.NoError(t, w.through.Create(t.Context(), w.named("b")))
	always.Remove()
	assert.NoError(t, w.through.Create(t.Context(), w.named("secret-word")))
}

func TestWhatIsCommittedIsDoneThoughTheCallerIsToldOtherwise(t *testing.T) {
	w := newWorld(t)
	w.On(apifault.Match{Verbs: []string{"create"}, Name: ""}).Commit(504, 1)
	assert.True(t, apierrors.IsTimeout(w.through.Create(t.Context(), w.named("a"))))
	assert.True(t, w.exists(t, "a"))

	rule := w.On(apifault.Match{Verbs: []string{"create"}}).Drop(1)
	assert.ErrorContains(t, w.through.Create(t.Context(), w.named("b")), "connection reset")
	assert.True(t, w.exists(t, "b"))
	assert.Equal(t, 1, rule.Hits())

	w.On(apifault.Match{Verbs: []string{"create"}}).Commit(504, 1)
	assert.True(t, apierrors.IsAlreadyExists(w.through.Create(t.Context(), w.named("b"))), "what the API server refuses is its own answer")
}

func TestDelaysAddUp(t *testing.T) {
	w := newWorld(t)
	rule := w.On(apifault.Match{Resource: "configmaps"}).Delay(40 * time.Millisecond)
	w.On(apifault.Match{Resource: "configmaps", Verbs: []string{"list"}}).Delay(40 * time.Millisecond)
	from := time.Now()
	names(t, w.through, w.namespace)
	assert.GreaterOrEqual(t, time.Since(from), 80*time.Millisecond)
	assert.Equal(t, 1, rule.Hits())
}

func TestHeldWatchesKeepCachesAsTheyWereAndLoseNothing(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.straight.Create(t.Context(), w.named("a")))
	c := w.cache(t)
	before := names(t, c, w.namespace)
	assert.Contains(t, before, "a")
	w.HoldWatches("configmaps")
	for _, name := range []string{"b", "c"} {
		require.NoError(t, w.straight.Create(t.Context(), w.named(name)))
	}
	require.NoError(t, w.straight.Delete(t.Context(), w.named("b")))
	assert.Never(t, func() bool { return names(t, c, w.namespace) != before }, 200*time.Millisecond, 20*time.Millisecond)
	w.ReleaseWatches()
	assert.Eventually(t, func() bool { return names(t, c, w.namespace) == "a c" }, soon, 5*time.Millisecond)
}

func TestAStaleListIsWhatANewCacheBeginsWith(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.straight.Create(t.Context(), w.named("a")))
	require.ErrorContains(t, w.Stale(t.Context(), "configmaps"), "nobody has listed")
	names(t, w.through, w.namespace)
	require.NoError(t, w.Stale(t.Context(), "configmaps"))
	w.HoldWatches("configmaps")
	require.NoError(t, w.straight.Create(t.Context(), w.named("b")))
	c := w.cache(t)
	assert.Equal(t, "a", names(t, c, w.namespace))
	assert.Equal(t, "a", names(t, w.through, w.namespace))
	assert.NoError(t, w.through.Get(t.Context(), client.ObjectKeyFromObject(w.named("b")), w.named("b")), "a live read is live")
	w.ReleaseWatches()
	assert.Eventually(t, func() bool { return names(t, c, w.namespace) == "a b" }, soon, 5*time.Millisecond)
	w.Fresh()
	assert.Equal(t, "a b", names(t, w.through, w.namespace))
}

func TestAnAPIServerThatIsDownIsFoundAgain(t *testing.T) {
	w := newWorld(t)
	c := w.cache(t)
	assert.Empty(t, names(t, c, w.namespace))
	w.Down()
	assert.ErrorContains(t, w.through.Create(t.Context(), w.named("a")), "refused")
	require.NoError(t, w.straight.Create(t.Context(), w.named("b")))
	w.Up()
	assert.Eventually(t, func() bool { return names(t, c, w.namespace) == "b" }, soon, 5*time.Millisecond)
}
