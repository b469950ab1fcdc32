package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	reopenAfter = 100 * time.Millisecond // before a watch that ended is opened again
	lookEvery   = 20 * time.Millisecond  // how often Settle compares
)

// ErrGap: the API server does not have all versions any more, so that nothing is proven.
var ErrGap = errors.New("versions are missing from the history")

// Watcher collects all versions of a namespace's runs from its start to its Stop.
type Watcher struct {
	client    client.WithWatch
	namespace string
	stop      context.CancelFunc
	done      chan struct{}

	mu       sync.Mutex
	version  string // the last one seen, where a new watch begins
	versions []Version
	last     map[types.UID]*hearthv1.AgentRun
	gone     map[types.UID]bool
	err      error
}

// Watch begins with a list, then follows. Stop ends it.
func Watch(ctx context.Context, config *rest.Config, namespace string) (*Watcher, error) {
	scheme := runtime.NewScheme()
	if err := hearthv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", namespace, err)
	}
	return follow(ctx, c, namespace)
}

func follow(ctx context.Context, c client.WithWatch, namespace string) (*Watcher, error) {
	var list hearthv1.AgentRunList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("history of %s: list: %w", namespace, err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &Watcher{
		client: c, namespace: namespace, stop: stop, done: make(chan struct{}), version: list.ResourceVersion,
		last: map[types.UID]*hearthv1.AgentRun{}, gone: map[types.UID]bool{},
	}
	for i := range list.Items {
		w.add(watch.Added, &list.Items[i])
	}
	go w.run(ctx)
	return w, nil
}

// Stop ends the watch and waits for it.
func (w *Watcher) Stop() {
	w.stop()
	<-w.done
}

// Versions is all that was seen up to now, in order.
func (w *Watcher) Versions() []Version {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.versions)
}

// Err is ErrGap if versions were missed: what the others prove is then not the whole.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Settle waits until the watcher has seen all that the API server has now; the context bounds it.
func (w *Watcher) Settle(ctx context.Context) error {
	var list hearthv1.AgentRunList
	if err := w.client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		return fmt.Errorf("history of %s: list: %w", w.namespace, err)
	}
	for {
		if err := w.Err(); err != nil {
			return err
		}
		if w.has(&list) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("history of %s is behind the API server: %w", w.namespace, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

// has tells whether everything that the list shows was seen, and the end of everything that it does not show.
func (w *Watcher) has(list *hearthv1.AgentRunList) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	listed := map[types.UID]bool{}
	for i := range list.Items {
		run := &list.Items[i]
		listed[run.UID] = true
		if last := w.last[run.UID]; !w.gone[run.UID] && (last == nil || older(last.ResourceVersion, run.ResourceVersion)) {
			return false
		}
	}
	for uid, last := range w.last {
		if !listed[uid] && !w.gone[uid] && !older(list.ResourceVersion, last.ResourceVersion) {
			return false
		}
	}
	return true
}

// older compares resource versions, which are numbers of one etcd; none at all is older than any.
func older(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errB == nil && (a == "" || errA == nil && x < y)
}

func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil && w.Err() == nil {
		w.once(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(reopenAfter):
		}
	}
}

// once follows one watch to its end, from the last version seen.
func (w *Watcher) once(ctx context.Context) {
	w.mu.Lock()
	from := w.version
	w.mu.Unlock()
	events, err := w.client.Watch(ctx, &hearthv1.AgentRunList{}, client.InNamespace(w.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true}})
	if err != nil {
		w.failed(err)
		return
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events.ResultChan():
			if !open {
				return
			}
			if e.Type == watch.Error {
				w.failed(apierrors.FromObject(e.Object))
				return
			}
			if run, ok := e.Object.(*hearthv1.AgentRun); ok {
				w.add(e.Type, run)
			}
		}
	}
}

// failed keeps an error that means a gap; any other is a watch to open again.
func (w *Watcher) failed(err error) {
	if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = fmt.Errorf("history of %s from version %s: %w: %w", w.namespace, w.version, ErrGap, err)
	}
}

// add keeps a version. What is equal to the version before shares its memory.
func (w *Watcher) add(kind watch.EventType, run *hearthv1.AgentRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if older(w.version, run.ResourceVersion) {
		w.version = run.ResourceVersion
	}
	if kind == watch.Bookmark {
		return
	}
	run.ManagedFields = nil
	if last := w.last[run.UID]; last != nil {
		if equality.Semantic.DeepEqual(last.Spec, run.Spec) {
			run.Spec = last.Spec
		}
		if equality.Semantic.DeepEqual(last.Status, run.Status) {
			run.Status = last.Status
		}
	}
	w.last[run.UID], w.gone[run.UID] = run, kind == watch.Deleted
	w.versions = append(w.versions, Version{Type: kind, At: time.Now(), Run: run})
}
