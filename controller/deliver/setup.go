package deliver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/delivery/client"
)

const (
	// minRetry and maxRetry bound the waits of one key after errors. They are per key: there is no shared bucket.
	minRetry, maxRetry = 10 * time.Millisecond, time.Minute
	// assigners, carriers and openers are how many keys of each kind are worked on at once.
	assigners, carriers, openers = 8, 32, 16
)

// Options of SetupWithManager. Links, Now and Log are required.
type Options struct {
	Links Links
	Now   func() time.Time
	Log   *slog.Logger
	// Random is the source of challenges and of this process's name; crypto/rand by default.
	Random io.Reader
	// Timeouts of the Links; zero values are their defaults.
	Timeouts client.Timeouts
	// Spans are those of the runs; nil makes none.
	Spans *trace.Spans
	// ReattachWithin is how long a run that was in flight at the start waits, at most, for what its target holds: 10 s by default.
	ReattachWithin time.Duration
}

// SetupWithManager adds the reconcilers, their indexes, and the closing of the Links. The manager's cache should hold Pods as
// pod.CacheOptions says and AgentRuns as Transform leaves them. What it gives tells the controller of standing runs what they hold.
func SetupWithManager(mgr ctrl.Manager, o Options) (*Loads, error) {
	if o.Links == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("deliver: expected links, a clock and a logger")
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.ReattachWithin <= 0 {
		o.ReattachWithin = reattachWithin
	}
	self, err := challenge.New(o.Random) // 43 random characters serve as a name as well
	if err != nil {
		return nil, fmt.Errorf("deliver: name this process: %w", err)
	}
	if err := addIndexes(mgr); err != nil {
		return nil, err
	}
	c := &courier{
		kube: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("hearth-deliver"), links: o.Links, self: self,
		now: o.Now, random: o.Random, log: o.Log, limits: o.Timeouts, spans: o.Spans, reattach: o.ReattachWithin, newest: newNewest(), memory: newMemory(), open: map[string]place{},
		standing: waker{delay: gathered}, passes: newPasses(), queues: newQueues(),
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer metrics.Lead(c.state)() // runs on the leader alone, once the caches are filled
		<-ctx.Done()
		o.Links.Close()
		return nil
	})); err != nil {
		return nil, fmt.Errorf("deliver: %w", err)
	}
	for _, setup := range []func(ctrl.Manager, *courier) error{setupAssign, setupRuns, setupPods} {
		if err := setup(mgr, c); err != nil {
			return nil, fmt.Errorf("deliver: %w", err)
		}
	}
	return &Loads{c}, nil
}

func setupAssign(mgr ctrl.Manager, c *courier) error {
	return ctrl.NewControllerManagedBy(mgr).Named("deliver-assign").
		For(&hearthv1.Agent{}).
		Watches(&hearthv1.AgentRun{}, handler.EnqueueRequestsFromMapFunc(toAgent), withPredicate(needsAssign())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(podToAgent)).
		WatchesRawSource(wakes(&c.agents)).
		WithOptions(controllerOptions(assigners)).
		Complete(assignReconciler{c})
}

func setupRuns(mgr ctrl.Manager, c *courier) error {
	return ctrl.NewControllerManagedBy(mgr).Named("deliver-run").
		Watches(&hearthv1.AgentRun{}, c.runEvents(), withPredicate(predicate.NewPredicateFuncs(isDelivered))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.podToRuns), withPredicate(notInitial())).
		WatchesRawSource(wakes(&c.runs)).
		WithOptions(controllerOptions(carriers)).
		Complete(runReconciler{c})
}

func setupPods(mgr ctrl.Manager, c *courier) error {
	standing := predicate.NewPredicateFuncs(func(o kube.Object) bool { return !isDelivered(o) })
	return ctrl.NewControllerManagedBy(mgr).Named("deliver-pods").
		For(&corev1.Pod{}).
		Watches(&hearthv1.AgentRun{}, &handler.EnqueueRequestForObject{}, withPredicate(standing)). // a Pod has its run's name
		WatchesRawSource(wakes(&c.pods)).
		WithOptions(controllerOptions(openers)).
		Complete(podReconciler{c})
}

func wakes(w *waker) source.Source { return source.Func(w.Start) }

func controllerOptions(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, maxRetry),
	}
}
