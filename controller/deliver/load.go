package deliver

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
)

// Loads tells what standing runs hold: what is reserved for them, persisted or just written, and what their Links were told.
type Loads struct{ *courier }

var _ agent.Loads = (*Loads)(nil)

// Changes gives the Agents whose standing runs may hold something else than before.
func (l *Loads) Changes() source.Source { return wakes(&l.standing) }

// Load implements agent.Loads. The order matters: who assigns now, what is reserved, what the Link was told. What is assigned later
// sees the cordon that the caller saw, and what stops being reserved was told to the Link before.
func (l *Loads) Load(ctx context.Context, run *hearthv1.AgentRun) (agent.Load, error) {
	podUID, gone, err := l.podOf(ctx, run)
	if err != nil || gone {
		return agent.Load{Empty: gone}, err
	}
	assigning := run.Status.CordonedAt != nil && l.passes.ask(agentKey(run))
	reserved := l.reservedOn(ctx, podUID)
	unstarted, err := l.unstarted(ctx, run, podUID)
	if err != nil {
		return agent.Load{}, err
	}
	idle := !assigning && len(reserved) == 0
	link, open := l.links.Get(podUID)
	if !open {
		return agent.Load{Reserved: int32(len(reserved)), Empty: idle && unstarted}, nil //nolint:gosec // as many as fit into a Pod
	}
	s := link.Status()
	load := agent.Load{
		Running: int32(s.Capacity.Running), Queued: int32(s.Capacity.Queued), //nolint:gosec // bounded by the contract
		Empty: idle && (unstarted || s.State == client.StateVerified && s.Listed && s.Held == 0),
	}
	for _, r := range reserved {
		if a, _ := link.Snapshot(client.Key{RunUID: string(r.UID), Attempt: r.Status.Delivery.Attempt}); a.Seen == nil {
			load.Reserved++
		}
	}
	switch s.State {
	case client.StateChallenging:
	case client.StateVerified:
		if s.Listed {
			load.Link = agent.LinkVerified
		}
	case client.StateUnreachable, client.StateUnauthenticated, client.StateIncompatible:
		load.Link, load.Reason, load.Message = agent.LinkFailed, string(delivery.LinkReason(linkState(s.State))), s.Message
	}
	return load, nil
}

// podOf is the UID of the run's Pod. Gone: it has none and, says the API server, nothing that could hold anything.
func (l *Loads) podOf(ctx context.Context, run *hearthv1.AgentRun) (uid string, gone bool, err error) {
	if run.Status.PodUID != "" {
		return string(run.Status.PodUID), false, nil
	}
	var p corev1.Pod
	if err := l.kube.Get(ctx, kube.ObjectKeyFromObject(run), &p); err == nil && pod.Of(&p, run) {
		return string(p.UID), false, nil
	}
	if run.Status.CordonedAt == nil {
		return "", false, nil // nothing is decided by it
	}
	err = l.live.Get(ctx, kube.ObjectKeyFromObject(run), &p)
	switch {
	case apierrors.IsNotFound(err), err == nil && !pod.Of(&p, run):
		return "", true, nil
	case err != nil:
		return "", false, fmt.Errorf("read Pod %s: %w", run.Name, err)
	default:
		return string(p.UID), false, nil
	}
}

// unstarted: the harness of a cordoned run never ran, says the API server, so nobody ever gave it anything. Its Pod may wait for an image
// or a node for ever.
func (l *Loads) unstarted(ctx context.Context, run *hearthv1.AgentRun, podUID string) (bool, error) {
	if run.Status.CordonedAt == nil {
		return false, nil // nothing is decided by it
	}
	for _, from := range []kube.Reader{l.kube, l.live} { // the API server is asked only for what the cache says already
		var p corev1.Pod
		if err := from.Get(ctx, kube.ObjectKeyFromObject(run), &p); apierrors.IsNotFound(err) {
			return false, nil // its end is the run's
		} else if err != nil {
			return false, fmt.Errorf("read Pod %s: %w", run.Name, err)
		}
		if s := pod.AgentStatus(&p); string(p.UID) != podUID || pod.Started(&p) || s != nil && s.RestartCount > 0 {
			return false, nil
		}
	}
	return true, nil
}

// passes are the assignments under way, by Agent. While there is one, nobody knows what it reserves.
type passes struct {
	mu    sync.Mutex
	asked map[types.NamespacedName]bool // of those under way, whether somebody asked
}

func newPasses() *passes { return &passes{asked: map[types.NamespacedName]bool{}} }

// ask tells whether an assignment of the Agent is under way. If so, its end is told to who asked.
func (p *passes) ask(agent types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, under := p.asked[agent]
	if under {
		p.asked[agent] = true
	}
	return under
}

func (p *passes) begin(agent types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[agent] = false
}

func (p *passes) end(agent types.NamespacedName) (asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked = p.asked[agent]
	delete(p.asked, agent)
	return asked
}

// passing notes that an assignment begins; what it gives notes its end.
func (c *courier) passing(agent types.NamespacedName) (over func()) {
	c.passes.begin(agent)
	return func() {
		if c.passes.end(agent) {
			c.standing.wake(agent)
		}
	}
}
