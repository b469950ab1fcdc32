package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/apiserver"
)

// nodeName is where the Pods of a World are bound to. Nobody looks for a Node of that name.
const nodeName = "rig"

// node does for a World's namespace what kubelet and the scheduler do: it binds Pods, runs their containers, and tells of them.
type node struct {
	world *World
	admin client.Client
	done  sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*Pod
}

func newNode(w *World) *node {
	w.t.Helper()
	n := &node{world: w, admin: w.Admin, pods: map[types.UID]*Pod{}}
	watched, err := cache.New(server.Admin(w.t), cache.Options{Scheme: apiserver.Scheme(w.t), DefaultNamespaces: map[string]cache.Config{w.Namespace: {}}})
	require.NoError(w.t, err)
	informer, err := watched.GetInformer(w.ctx, &corev1.Pod{})
	require.NoError(w.t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.see(o) },
		UpdateFunc: func(_, o any) { n.see(o) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			n.lost(o)
		},
	})
	require.NoError(w.t, err)
	n.done.Go(func() { _ = watched.Start(w.ctx) })
	require.True(w.t, watched.WaitForCacheSync(w.ctx))
	return n
}

// see takes a Pod's state over; a new one gets its place.
func (n *node) see(o any) {
	object, ok := o.(*corev1.Pod)
	if !ok || n.world.ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[object.UID]
	if p == nil {
		p = newPod(n, object, len(n.pods))
		n.pods[object.UID] = p
		n.done.Go(p.live)
	}
	p.saw(object)
}

// lost: the Pod's object is gone.
func (n *node) lost(o any) {
	object, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	p := n.pods[object.UID]
	n.mu.Unlock()
	if p != nil {
		p.left()
	}
}

func (n *node) all() []*Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return sortedPods(n.pods)
}

// stop ends what runs; the World's context has ended.
func (n *node) stop() {
	n.done.Wait()
	for _, p := range n.all() {
		p.end()
	}
}

// bind does what the scheduler does. Without a node the API server deletes a Pod at once, with no time to end.
func (n *node) bind(ctx context.Context, object *corev1.Pod) error {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	if err := n.admin.SubResource("binding").Create(ctx, object, binding); err != nil {
		return fmt.Errorf("bind Pod %s: %w", object.Name, err)
	}
	return nil
}

// Addresses of the test process: 127.X.Y.Z with its own X, as far as another process does not have the same.
var addresses struct {
	sync.Mutex
	next int
}

// address is one that nobody in the test process has, and where nobody else listens on these ports.
func address(ctx context.Context, ports ...int) (string, error) {
	addresses.Lock()
	defer addresses.Unlock()
	for range maxAddresses {
		i := addresses.next
		addresses.next++
		ip := fmt.Sprintf("127.%d.%d.%d", 32+os.Getpid()%192, (i/250)%250, 1+i%250)
		if !slices.ContainsFunc(ports, func(port int) bool { return taken(ctx, ip, port) }) {
			return ip, nil
		}
	}
	return "", fmt.Errorf("no free address: all of %d are in use", maxAddresses)
}

const maxAddresses = 62_500

func taken(ctx context.Context, ip string, port int) bool {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("%s:%d", ip, port))
	if err != nil {
		return true
	}
	_ = l.Close()
	return false
}
