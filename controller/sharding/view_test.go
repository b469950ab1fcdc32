package sharding

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
)

func agent(name, of string) *v1alpha1.Agent {
	a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	if of != "" {
		a.Labels = map[string]string{v1alpha1.LabelShard: of}
	}
	return a
}

func agents(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "work", Labels: map[string]string{v1alpha1.LabelShard: "green"}}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(agent("blue", "blue"), agent("green", "green"), agent("plain", ""), run).Build()
}

// whole is a manager that sees everything.
type whole struct {
	manager.Manager
	client client.Client
	cache  cache.Cache
}

func (w whole) GetClient() client.Client    { return w.client }
func (w whole) GetAPIReader() client.Reader { return w.client }
func (w whole) GetCache() cache.Cache       { return w.cache }

// informers is a cache with one informer.
type informers struct {
	cache.Cache
	informer cache.Informer
	reader   client.Reader
}

func (i informers) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return i.reader.Get(ctx, key, o, opts...)
}

func (i informers) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return i.reader.List(ctx, list, opts...)
}

func (i informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i.informer, nil
}

// listened is an informer that says nothing by itself.
type listened struct {
	cache.Informer
	handlers *[]toolscache.ResourceEventHandler
}

func (l listened) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	*l.handlers = append(*l.handlers, h)
	return nil, nil
}

func (l listened) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return l.AddEventHandler(h)
}

func (l listened) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return l.AddEventHandler(h)
}

// SPEC.md, Shards: to the reconcilers an Agent of another shard is not there, however they look.
func TestAnAgentOfAnotherShardIsNotThere(t *testing.T) {
	ctx, c := t.Context(), agents(t)
	v := View(whole{client: c, cache: informers{reader: c}}, shard.Of("green").Without())
	for name, r := range map[string]client.Reader{"client": v.GetClient(), "API server": v.GetAPIReader(), "cache": v.GetCache()} {
		for _, here := range []string{"blue", "plain"} {
			var a v1alpha1.Agent
			require.NoError(t, r.Get(ctx, client.ObjectKey{Namespace: "team", Name: here}, &a), name)
			assert.Equal(t, here, a.Name, name)
		}
		var a v1alpha1.Agent
		err := r.Get(ctx, client.ObjectKey{Namespace: "team", Name: "green"}, &a)
		assert.True(t, apierrors.IsNotFound(err), "%s: %v", name, err)
		assert.Empty(t, a, "%s: nothing of it is seen", name)
		assert.True(t, apierrors.IsNotFound(r.Get(ctx, client.ObjectKey{Namespace: "team", Name: "none"}, &a)), name)

		var list v1alpha1.AgentList
		require.NoError(t, r.List(ctx, &list), name)
		assert.Len(t, list.Items, 2, name)
		var runs v1alpha1.AgentRunList
		require.NoError(t, r.List(ctx, &runs), name)
		assert.Len(t, runs.Items, 1, "%s: of the rest the API server's selector decides, and a live read sees all", name)
		require.NoError(t, r.Get(ctx, client.ObjectKey{Namespace: "team", Name: "work"}, &runs.Items[0]), name)
	}
	all := whole{client: c}
	assert.Equal(t, all, View(all, shard.All()), "a controller of every Agent sees what there is")
}

func TestNoEventTellsOfAnAgentOfAnotherShard(t *testing.T) {
	var handlers []toolscache.ResourceEventHandler
	v := View(whole{cache: informers{informer: listened{handlers: &handlers}}}, shard.Of("blue"))
	var heard []string
	listen := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { heard = append(heard, "add "+o.(client.Object).GetName()) },
		UpdateFunc: func(_, o any) { heard = append(heard, "update "+o.(client.Object).GetName()) },
		DeleteFunc: func(o any) {
			if last, gone := o.(toolscache.DeletedFinalStateUnknown); gone {
				o = last.Obj
			}
			heard = append(heard, "delete "+o.(client.Object).GetName())
		},
	}
	i, err := v.GetCache().GetInformer(t.Context(), &v1alpha1.Agent{})
	require.NoError(t, err)
	_, err = i.AddEventHandler(listen)
	require.NoError(t, err)
	_, err = i.AddEventHandlerWithOptions(listen, toolscache.HandlerOptions{})
	require.NoError(t, err)
	_, err = i.AddEventHandlerWithResyncPeriod(listen, time.Hour)
	require.NoError(t, err)
	require.Len(t, handlers, 3)
	for _, h := range handlers {
		heard = nil
		for _, a := range []*v1alpha1.Agent{agent("blue", "blue"), agent("green", "green"), agent("plain", "")} {
			h.OnAdd(a, false)
			h.OnUpdate(a, a)
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "team/" + a.Name, Obj: a})
		}
		assert.Equal(t, []string{"add blue", "update blue", "delete blue"}, heard)
	}
	other, err := v.GetCache().GetInformer(t.Context(), &v1alpha1.AgentRun{})
	require.NoError(t, err)
	assert.Equal(t, listened{handlers: &handlers}, other, "other kinds are selected by the API server")
}
