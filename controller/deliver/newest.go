package deliver

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// newest keeps what our own writes returned until the cache has caught up, so that no pass works on what it knows to be old:
// what was reserved a moment ago counts as reserved.
type newest struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]*hearthv1.AgentRun
}

func newNewest() *newest { return &newest{runs: map[types.NamespacedName]*hearthv1.AgentRun{}} }

func (n *newest) put(run *hearthv1.AgentRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs[kube.ObjectKeyFromObject(run)] = run
}

// pick gives the newer of what the cache has and what we wrote. The result is shared and must not be changed.
func (n *newest) pick(cached *hearthv1.AgentRun) *hearthv1.AgentRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := kube.ObjectKeyFromObject(cached)
	own := n.runs[key]
	if own == nil {
		return cached
	}
	order, err := resourceversion.CompareResourceVersion(own.ResourceVersion, cached.ResourceVersion)
	if err != nil || order <= 0 || own.UID != cached.UID {
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

// list gives the runs that were written and that want says yes to.
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
