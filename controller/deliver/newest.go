package deliver

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// newest keeps what our own writes returned, and what they lost a race against, until the cache has caught up, so that no pass works
// on what it knows to be old: what was reserved a moment ago counts as reserved.
type newest struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]*hearthv1.AgentRun
}

func newNewest() *newest { return &newest{runs: map[types.NamespacedName]*hearthv1.AgentRun{}} }

// put keeps a run unless a newer one is kept: of two passes with the same run the slower may come last.
func (n *newest) put(run *hearthv1.AgentRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := kube.ObjectKeyFromObject(run)
	if own := n.runs[key]; own == nil || !newer(own, run) {
		n.runs[key] = run
	}
}

// newer tells whether a is a later version of the same run than b.
func newer(a, b *hearthv1.AgentRun) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0 && a.UID == b.UID
}

// pick gives the newer of what the cache has and what is kept. The result is shared and must not be changed.
func (n *newest) pick(cached *hearthv1.AgentRun) *hearthv1.AgentRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := kube.ObjectKeyFromObject(cached)
	own := n.runs[key]
	if own == nil {
		return cached
	}
	if !newer(own, cached) {
		delete(n.runs, key)
		return cached
	}
	return own
}

func (n *newest) drop(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.runs, key)
}

// list gives the runs that are kept and that want says yes to.
func (n *newest) list(want func(*hearthv1.AgentRun) bool) []*hearthv1.AgentRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*hearthv1.AgentRun
	for _, r := range n.runs {
		if want(r) {
			out = append(out, r)
		}
	}
	return out
}
