package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// LookEvery is how often the API server is asked whether it has the kind.
	LookEvery = 10 * time.Second
	// lookTimeout bounds one such question.
	lookTimeout = 5 * time.Second
)

// Missing is what a run waits with while the API server has no Sandboxes.
const Missing = "the API server has no Sandbox of agents.x-k8s.io/v1beta1: install agent-sandbox, or set the Agent's backend to Pod"

// +kubebuilder:rbac:groups=agents.x-k8s.io,resources=sandboxes,verbs=get;list;watch;create;delete

// Presence finds out by discovery whether the API server has the kind, and while it has keeps a cache of the Sandboxes with our
// label, whose events wake the runs of their names. A manager's own cache cannot do that: it neither starts with a kind that is
// missing nor ends a watch on one that was removed. It is a leader's runnable.
type Presence struct {
	served   func(context.Context) (bool, error)
	newCache func() (cache.Cache, error)
	live     client.Reader
	after    func(time.Duration) <-chan time.Time
	log      *slog.Logger

	mu     sync.Mutex
	absent bool        // the last answer was no
	synced func() bool // set while there is a cache
	cached client.Reader
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewPresence adds a Presence to the manager, for the Sandboxes with these labels in these namespaces (none means all). The manager's scheme must have the types.
// After is time.After.
func NewPresence(mgr manager.Manager, namespaces []string, only labels.Selector, after func(time.Duration) <-chan time.Time, log *slog.Logger) (*Presence, error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("ask for Sandboxes: %w", err)
	}
	p := &Presence{live: mgr.GetAPIReader(), after: after, log: log}
	p.served = func(ctx context.Context) (bool, error) {
		list, err := asks.ServerResourcesForGroupVersionWithContext(ctx, GroupVersion.String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("ask the API server for %s: %w", GroupVersion, err)
		}
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == Resource }), nil
	}
	p.newCache = func() (cache.Cache, error) {
		return cache.New(mgr.GetConfig(), cacheOptions(mgr, namespaces, only))
	}
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("look for Sandboxes: %w", err)
	}
	return p, nil
}

// cacheOptions restrict the cache to Sandboxes with our labels, without the template that nobody reads again.
func cacheOptions(mgr manager.Manager, namespaces []string, only labels.Selector) cache.Options {
	o := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: only, DefaultTransform: trim,
	}
	for _, namespace := range namespaces {
		if o.DefaultNamespaces == nil {
			o.DefaultNamespaces = map[string]cache.Config{}
		}
		o.DefaultNamespaces[namespace] = cache.Config{}
	}
	return o
}

func trim(object any) (any, error) {
	if s, ok := object.(*Sandbox); ok {
		s.ManagedFields, s.Spec = nil, Spec{}
	}
	return object, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader acts on runs.
func (p *Presence) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It ends with ctx and never with an error: without Sandboxes everything else goes on.
func (p *Presence) Start(ctx context.Context) error {
	stop := func() {}
	for {
		stop = p.look(ctx, stop)
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-p.after(LookEvery):
		}
	}
}

// look asks once, and starts or ends the cache. A question that failed changes nothing.
func (p *Presence) look(ctx context.Context, stop func()) func() {
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	served, err := p.served(asking)
	cancel()
	switch was := p.watching(); {
	case err != nil:
		if ctx.Err() == nil {
			p.log.Warn("look for Sandboxes", "cause", err)
		}
	case served && !was:
		p.say(true)
		started, err := p.watch(ctx)
		if err != nil {
			p.log.Warn("watch Sandboxes", "cause", err)
			return stop
		}
		p.log.Info("the API server has Sandboxes", "version", GroupVersion.String())
		return started
	case !served && was:
		p.log.Warn("the API server has no Sandboxes any more", "version", GroupVersion.String())
		p.say(false)
		p.wakeAll(ctx)
		stop()
		return func() {}
	case !served:
		p.say(false)
	}
	return stop
}

func (p *Presence) watching() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cached != nil
}

func (p *Presence) say(present bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.absent = !present
}

// watch starts a cache, and returns what ends it. Until it has synced, reads go to the API server, so nothing waits for it.
func (p *Presence) watch(ctx context.Context) (stop func(), err error) {
	c, err := p.newCache()
	if err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	informer, err := c.GetInformer(ctx, &Sandbox{}, cache.BlockUntilSynced(false))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("make the informer: %w", err)
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: p.wake, UpdateFunc: func(_, object any) { p.wake(object) }, DeleteFunc: p.wake,
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listen to the informer: %w", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := c.Start(ctx); err != nil {
			p.log.Warn("the cache of Sandboxes ended", "cause", err)
		}
	}()
	p.mu.Lock()
	p.cached, p.synced = c, registered.HasSynced
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.cached, p.synced = nil, nil
		p.mu.Unlock()
		cancel()
		<-over
	}, nil
}

// Source is for the run controller: a Sandbox has its run's name.
func (p *Presence) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queue = queue
		return nil
	})
}

// wake adds the Sandbox's run to the queue. What comes before the controller started is not lost: it looks at every run then.
func (p *Presence) wake(object any) {
	key, err := toolscache.DeletionHandlingObjectToName(object)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.queue != nil {
		p.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: key.Name}})
	}
}

// wakeAll wakes the runs of all Sandboxes that were known last: with the kind they went away, and not each was told of.
func (p *Presence) wakeAll(ctx context.Context) {
	p.mu.Lock()
	known := p.cached
	p.mu.Unlock()
	var all SandboxList
	if err := known.List(ctx, &all); err != nil {
		p.log.Warn("list the Sandboxes that were known", "cause", err)
	}
	for i := range all.Items {
		p.wake(&all.Items[i])
	}
}

// Absent tells whether the API server said, when it was asked last, that it has no such kind. Before the first answer it is false.
func (p *Presence) Absent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent
}

// Get reads a Sandbox, from the cache once it has synced. It is nil where there is none, which only Live may call gone.
func (p *Presence) Get(ctx context.Context, key client.ObjectKey) (*Sandbox, error) {
	p.mu.Lock()
	from, absent := p.live, p.absent
	if p.synced != nil && p.synced() {
		from = p.cached
	}
	p.mu.Unlock()
	if absent {
		return nil, ErrNoKind
	}
	return get(ctx, from, key)
}

// Live reads a Sandbox from the API server. It is nil where there is none, and ErrNoKind where there is no such kind.
func (p *Presence) Live(ctx context.Context, key client.ObjectKey) (*Sandbox, error) {
	return get(ctx, p.live, key)
}

// ErrNoKind: the API server has no such kind.
var ErrNoKind = errors.New("no such kind")

func get(ctx context.Context, from client.Reader, key client.ObjectKey) (*Sandbox, error) {
	var s Sandbox
	err := Told(from.Get(ctx, key, &s))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Sandbox: %w", err)
	default:
		return &s, nil
	}
}

// Told is err, or ErrNoKind if that is what a request about Sandboxes failed for: the client does not know the kind, or it was
// removed and a path that is none answered.
func Told(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return ErrNoKind
	}
	return err
}
