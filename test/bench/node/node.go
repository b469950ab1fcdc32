package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	controllerpod "github.com/hearthdev/hearth/controller/pod"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// booting is how many harnesses start at once.
const booting = 8

// node does what kubelet does, for the Pods that the controller made.
type node struct {
	kube     client.Client
	dir      string
	book     *book
	released *gates
	lists    lists
	slots    chan struct{}
	work     sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*pod
	next int // of the addresses
}

// newNode serves an API server's Pods from a directory.
func newNode(config *rest.Config, dir string) (*node, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	kube, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return &node{kube: kube, dir: dir, book: newBook(), released: &gates{all: map[string]chan struct{}{}}, slots: make(chan struct{}, booting),
		pods: map[types.UID]*pod{}}, nil
}

// watch looks at Pods until ctx ends, and then ends what runs.
func (n *node) watch(ctx context.Context, config *rest.Config) error {
	watched, err := cache.New(config, cache.Options{Scheme: clientgoscheme.Scheme, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: controllerpod.Selector()}}})
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	informer, err := watched.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { n.see(ctx, o) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			n.lost(o)
		},
	}); err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	err = watched.Start(ctx)
	n.work.Wait()
	for _, p := range n.all() {
		p.leave()
	}
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	return nil
}

// see boots a new Pod and tells the API server that it is ready. It is not bound to a Node, so that its deletion is over at once.
func (n *node) see(ctx context.Context, o any) {
	object, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	p := &pod{name: object.Namespace + "/" + object.Name, agentOf: object.Labels[hearthv1.LabelAgent], dir: filepath.Join(n.dir, string(object.UID)),
		book: n.book, released: n.released, lists: &n.lists}
	n.mu.Lock()
	n.pods[object.UID] = p
	n.mu.Unlock()
	n.work.Go(func() {
		n.slots <- struct{}{}
		defer func() { <-n.slots }()
		if ctx.Err() != nil {
			return
		}
		if err := n.boot(ctx, p, object); err != nil {
			n.book.failed(fmt.Errorf("Pod %s: %w", p.name, err))
			return
		}
		p.told()
	})
}

func (n *node) boot(ctx context.Context, p *pod, object *corev1.Pod) error {
	var err error
	if p.terms, err = n.terms(ctx, object); err != nil {
		return err
	}
	if err := p.start(ctx, n.listen); err != nil {
		return err
	}
	return n.tell(ctx, object, p.ip())
}

// lost: the Pod's object is gone.
func (n *node) lost(o any) {
	object, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	p := n.pods[object.UID]
	delete(n.pods, object.UID)
	n.mu.Unlock()
	if p == nil {
		return
	}
	n.work.Go(func() {
		p.leave()
		if err := os.RemoveAll(p.dir); err != nil {
			n.book.failed(err)
		}
	})
}

// restart kills the harnesses of Pods, by UID, and starts them again with the journals they had; all of them when none is named.
func (n *node) restart(ctx context.Context, uids []string) error {
	var errs []error
	for _, p := range n.all() {
		if len(uids) > 0 && !slices.Contains(uids, p.identity.PodUID) {
			continue
		}
		p.stop()
		errs = append(errs, p.start(ctx, n.listen))
	}
	return errors.Join(errs...)
}

func (n *node) all() []*pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*pod, 0, len(n.pods))
	for _, p := range n.pods {
		all = append(all, p)
	}
	return all
}

// Addresses are 127.X.Y.Z with an X of the process's own, as far as another process does not have the same.
const (
	firstNet, nets = 224, 30
	perNet         = 250
	maxAddresses   = perNet * perNet
)

// listen opens the port of the next address where it is free.
func (n *node) listen(ctx context.Context, port int) (net.Listener, error) {
	for range maxAddresses {
		n.mu.Lock()
		i := n.next
		n.next++
		n.mu.Unlock()
		at := fmt.Sprintf("127.%d.%d.%d", firstNet+os.Getpid()%nets, (i/perNet)%perNet, 1+i%perNet)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(at, strconv.Itoa(port)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err //nolint:wrapcheck // wrapped by the caller
		}
	}
	return nil, fmt.Errorf("no free address: all of %d are in use", maxAddresses)
}

// scheme reads what is HTTPS unless it is said.
func scheme(word string) wire.Scheme {
	if word == "" {
		return wire.SchemeHTTPS
	}
	return wire.Scheme(word)
}
