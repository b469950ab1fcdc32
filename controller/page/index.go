package page

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// index holds the cache's own objects, never copies of them, so that a run costs an entry and a view copies none. What it gives is shared
// and must not be changed.
type index struct {
	mu      sync.Mutex
	agents  map[types.NamespacedName]*hearthv1.Agent
	runs    map[types.NamespacedName]*entry
	living  map[types.NamespacedName]*hearthv1.AgentRun // those of runs that have not ended
	order   []*entry                                    // the newest first, once tidied
	untidy  bool                                        // order has entries at its end that are out of place, or some that are gone
	records int                                         // entries that are no standing runs
	feed    *feed
}

// entry is a run with what it is looked for by, so that looking through all of them touches little memory.
type entry struct {
	run       *hearthv1.AgentRun
	key       types.NamespacedName
	created   int64
	agent     string
	phase     hearthv1.Phase
	standing  bool
	forgotten bool
}

func newIndex() *index {
	return &index{
		agents: map[types.NamespacedName]*hearthv1.Agent{}, runs: map[types.NamespacedName]*entry{},
		living: map[types.NamespacedName]*hearthv1.AgentRun{}, feed: newFeed(),
	}
}

// handler follows an informer of Agents or of AgentRuns.
func (x *index) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: x.put,
		UpdateFunc: func(before, after any) {
			if b, ok := before.(kube.Object); ok && b.GetResourceVersion() == after.(kube.Object).GetResourceVersion() {
				return // a resync: nothing happened
			}
			x.put(after)
		},
		DeleteFunc: x.drop,
	}
}

func (x *index) put(object any) {
	x.mu.Lock()
	switch o := object.(type) {
	case *hearthv1.Agent:
		x.agents[kube.ObjectKeyFromObject(o)] = o
	case *hearthv1.AgentRun:
		x.putRun(o)
	}
	x.mu.Unlock()
	x.feed.bump()
}

func (x *index) putRun(r *hearthv1.AgentRun) {
	key := kube.ObjectKeyFromObject(r)
	if e := x.runs[key]; e != nil && e.run.UID == r.UID {
		e.run, e.phase = r, phase(r)
	} else {
		x.forget(key) // another one had the name
		e = &entry{run: r, key: key, created: r.CreationTimestamp.Unix(), agent: r.Spec.AgentRef.Name, phase: phase(r), standing: r.Standing()}
		x.runs[key], x.order, x.untidy = e, append(x.order, e), true
		if !e.standing {
			x.records++
		}
	}
	delete(x.living, key)
	if !r.Ended() {
		x.living[key] = r
	}
}

func (x *index) forget(key types.NamespacedName) {
	e := x.runs[key]
	if e == nil {
		return
	}
	delete(x.runs, key)
	delete(x.living, key)
	e.forgotten, x.untidy = true, true
	if !e.standing {
		x.records--
	}
}

func (x *index) drop(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	x.mu.Lock()
	switch o := object.(type) {
	case *hearthv1.Agent:
		delete(x.agents, kube.ObjectKeyFromObject(o))
	case *hearthv1.AgentRun:
		x.forget(kube.ObjectKeyFromObject(o))
	}
	x.mu.Unlock()
	x.feed.bump()
}

func (x *index) agent(key types.NamespacedName) *hearthv1.Agent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.agents[key]
}

func (x *index) run(key types.NamespacedName) *hearthv1.AgentRun {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.runs[key]; e != nil {
		return e.run
	}
	return nil
}

// allAgents gives them by namespace and name.
func (x *index) allAgents() []*hearthv1.Agent {
	x.mu.Lock()
	out := make([]*hearthv1.Agent, 0, len(x.agents))
	for _, a := range x.agents {
		out = append(out, a)
	}
	x.mu.Unlock()
	slices.SortFunc(out, func(a, b *hearthv1.Agent) int { return byName(a, b) })
	return out
}

// allLiving gives the runs that have not ended, in no order.
func (x *index) allLiving() []*hearthv1.AgentRun {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]*hearthv1.AgentRun, 0, len(x.living))
	for _, r := range x.living {
		out = append(out, r)
	}
	return out
}

// newest gives the first of the runs that are asked for, the newest first, and how many there are in all. Standing runs are not among
// them: they are shown with their Agents.
func (x *index) newest(limit int, f filter) (first []*hearthv1.AgentRun, total int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tidy()
	for _, e := range x.order {
		if !f.wants(e) {
			continue
		}
		if total++; len(first) < limit {
			first = append(first, e.run)
		} else if !f.any() {
			return first, x.records
		}
	}
	return first, total
}

// tidy sorts order again. It is nearly sorted: what was made since stands at its end.
func (x *index) tidy() {
	if !x.untidy {
		return
	}
	x.order = slices.DeleteFunc(x.order, func(e *entry) bool { return e.forgotten })
	slices.SortFunc(x.order, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(b.key.Namespace, a.key.Namespace), cmp.Compare(b.key.Name, a.key.Name))
	})
	x.untidy = false
}

// first keeps the first few of many in an order, without sorting them all.
type first struct {
	limit, total int
	order        func(a, b *hearthv1.AgentRun) int
	kept         []*hearthv1.AgentRun
	cut          bool // kept[:limit] are sorted, and what comes after its last is not among the first
}

func newFirst(limit int, order func(a, b *hearthv1.AgentRun) int) *first {
	return &first{limit: limit, order: order}
}

func (f *first) add(r *hearthv1.AgentRun) {
	f.total++
	if f.cut && f.order(r, f.kept[f.limit-1]) > 0 {
		return
	}
	if f.kept = append(f.kept, r); len(f.kept) == 2*f.limit {
		slices.SortFunc(f.kept, f.order)
		clear(f.kept[f.limit:])
		f.kept, f.cut = f.kept[:f.limit], true
	}
}

func (f *first) get() []*hearthv1.AgentRun {
	slices.SortFunc(f.kept, f.order)
	return f.kept[:min(f.limit, len(f.kept))]
}

func oldestFirst(a, b *hearthv1.AgentRun) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
}

func byName(a, b kube.Object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
