// Package sharding lets several controllers divide the Agents among them (SPEC.md, Shards): what one of them sees, and how it keeps out of
// the others' way.
package sharding

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
)

// View is the manager as the reconcilers are to see it: an Agent of another shard is not there, in the cache, in the API server or in
// events, so none of them can work for one. Admission, which serves all, is given the manager itself.
func View(mgr manager.Manager, own shard.Set) manager.Manager {
	if own.Everything() {
		return mgr
	}
	return view{mgr, own}
}

type view struct {
	manager.Manager
	own shard.Set
}

func (v view) GetClient() client.Client {
	c := v.Manager.GetClient()
	return filteredClient{c, reader{c, v.own}}
}

func (v view) GetAPIReader() client.Reader { return reader{v.Manager.GetAPIReader(), v.own} }

func (v view) GetCache() cache.Cache {
	c := v.Manager.GetCache()
	return filteredCache{c, reader{c, v.own}}
}

// reader does not find Agents of other shards.
type reader struct {
	from client.Reader
	own  shard.Set
}

func (r reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if err := r.from.Get(ctx, key, object, opts...); err != nil {
		return err //nolint:wrapcheck // it is a reader, too
	}
	agent, ok := object.(*v1alpha1.Agent)
	if !ok || r.own.Has(agent.Labels) {
		return nil
	}
	*agent = v1alpha1.Agent{}
	return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "agents"}, key.Name)
}

func (r reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := r.from.List(ctx, list, opts...); err != nil {
		return err //nolint:wrapcheck // it is a reader, too
	}
	if agents, ok := list.(*v1alpha1.AgentList); ok {
		agents.Items = slices.DeleteFunc(agents.Items, func(a v1alpha1.Agent) bool { return !r.own.Has(a.Labels) })
	}
	return nil
}

type filteredClient struct {
	client.Client
	reader reader
}

func (c filteredClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, object, opts...)
}

func (c filteredClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

type filteredCache struct {
	cache.Cache
	reader reader
}

func (c filteredCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, object, opts...)
}

func (c filteredCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

func (c filteredCache) GetInformer(ctx context.Context, object client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.Cache.GetInformer(ctx, object, opts...)
	if _, ok := object.(*v1alpha1.Agent); err != nil || !ok {
		return i, err //nolint:wrapcheck // it is a cache, too
	}
	return informer{i, c.reader.own}, nil
}

// informer tells of the Agents of some shards.
type informer struct {
	cache.Informer
	own shard.Set
}

func (i informer) only(handler toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return toolscache.FilteringResourceEventHandler{Handler: handler, FilterFunc: func(object any) bool {
		if last, gone := object.(toolscache.DeletedFinalStateUnknown); gone {
			object = last.Obj
		}
		agent, ok := object.(*v1alpha1.Agent)
		return !ok || i.own.Has(agent.Labels)
	}}
}

func (i informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(i.only(handler)) //nolint:wrapcheck // it is an informer, too
}

func (i informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithResyncPeriod(i.only(handler), resync) //nolint:wrapcheck // it is an informer, too
}

func (i informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(i.only(handler), o) //nolint:wrapcheck // it is an informer, too
}
