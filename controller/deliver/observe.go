package deliver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
)

// observe gathers everything known of a run, from the cache and from memory. The API server is asked only when the cache has no
// such Agent, because that would end the run.
func (c *courier) observe(ctx context.Context, run *hearthv1.AgentRun, r delivery.Run) (delivery.Observed, endpoint, error) {
	now := c.now()
	gone, err := c.agentGone(ctx, run)
	if err != nil {
		return delivery.Observed{}, endpoint{}, err
	}
	obs := delivery.Observed{Self: c.self, AgentGone: gone}
	n := c.memory.about(run, r.Reservation, now, func(n *note) {
		if r.Cancel && n.cancelSince.IsZero() {
			n.cancelSince = now
		}
	})
	obs.CancelSince = n.cancelSince
	if !r.Live() {
		return obs, endpoint{message: "no target is reserved"}, nil
	}
	obs.Mine, obs.Since = n.mine, n.since
	obs.PodRead, obs.PodReadAt = n.podRead, n.podReadAt
	c.observeLink(run, r, n, &obs)
	obs.InFlight = obs.InFlight || n.sending
	at, err := c.observePod(ctx, run.Namespace, r, &obs)
	return obs, at, err
}

// agentGone asks the cache, and before it says so the API server.
func (c *courier) agentGone(ctx context.Context, run *hearthv1.AgentRun) (bool, error) {
	key := types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.AgentRef.Name}
	var agent hearthv1.Agent
	if err := c.kube.Get(ctx, key, &agent, kube.UnsafeDisableDeepCopy); err == nil && agent.UID == run.Spec.AgentRef.UID {
		return false, nil
	}
	err := c.live.Get(ctx, key, &agent)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read agent %s: %w", key.Name, err)
	default:
		return agent.UID != run.Spec.AgentRef.UID, nil
	}
}

// observeLink adds what the Link of the reserved Pod knows. When the Link is closed its last word still counts, but of what was
// under way then nobody knows the end.
func (c *courier) observeLink(run *hearthv1.AgentRun, r delivery.Run, n note, obs *delivery.Observed) {
	link, ok := c.links.Get(r.PodUID)
	if !ok {
		obs.Link, obs.LastContact = delivery.LinkNone, n.since
		fill(obs, n.last, n.handed, false)
		return
	}
	s := link.Status()
	obs.Link, obs.LinkMessage, obs.Journal, obs.LastContact = usable(s), s.Message, s.Journal, s.LastContact
	if obs.LastContact.IsZero() {
		obs.LastContact = s.Opened
	}
	key := client.Key{RunUID: r.UID, Attempt: r.Attempt}
	accepted := !r.AcceptedAt.IsZero()
	if accepted && !n.accepted { // by whoever sent it: that it was not there before proves nothing now
		link.Doubt(key)
	}
	a, _ := link.Snapshot(key)
	c.memory.about(run, r.Reservation, n.since, func(n *note) { n.last, n.accepted = a, accepted })
	fill(obs, a, n.handed, true)
}

// fill takes over a Link's word about an attempt. A send that was handed over and that the Link knows nothing of, or that was under
// way when it was closed, may have left.
func fill(obs *delivery.Observed, a client.Attempt, handed, open bool) {
	obs.Sent, obs.Seen, obs.SeenJournal, obs.SeenSince, obs.Absent = a.Sent, a.Seen, a.SeenJournal, a.SeenSince, a.Absent
	obs.InFlight, obs.NotBefore = a.InFlight && open, a.NotBefore
	if handed && a.Sent.Count == 0 {
		obs.Sent = delivery.Sent{Count: 1, Outcome: delivery.SendUnknown}
	}
	if a.InFlight && !open {
		obs.Sent.Outcome = delivery.SendUnknown
	}
}

// observePod adds what the cache says of the target's Pod. It never proves that a Pod is gone (fault row 51).
func (c *courier) observePod(ctx context.Context, namespace string, r delivery.Run, obs *delivery.Observed) (endpoint, error) {
	var p corev1.Pod
	err := c.kube.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.PodName}, &p, kube.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(p.UID) != r.PodUID:
		obs.PodSuspect = true
		return endpoint{message: "Pod " + r.PodName + " does not exist"}, nil
	case err != nil:
		return endpoint{}, fmt.Errorf("read Pod %s: %w", r.PodName, err)
	}
	obs.PodSuspect = pod.Ended(&p)
	obs.Cordoned = p.DeletionTimestamp != nil
	listening, message := pod.Listening(&p)
	return endpoint{listening: listening, message: message, address: pod.Address(&p)}, nil
}

// readPod asks the API server about the reserved Pod.
func (c *courier) readPod(ctx context.Context, run *hearthv1.AgentRun, r delivery.Run, obs *delivery.Observed) {
	var p corev1.Pod
	err := c.live.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: r.PodName}, &p)
	obs.PodReadAt = c.now()
	switch {
	case apierrors.IsNotFound(err):
		obs.PodRead = delivery.PodGone
	case err != nil:
		obs.PodRead = delivery.PodNotRead
		c.signals().Logger(run).Warn("read the Pod of a reservation", "pod", r.PodName, "cause", err)
	case string(p.UID) != r.PodUID:
		obs.PodRead = delivery.PodGone
	case pod.Ended(&p):
		obs.PodRead = delivery.PodTerminal
	default:
		obs.PodRead = delivery.PodPresent
		c.reach(ctx, &p)
	}
	read, when := obs.PodRead, obs.PodReadAt
	c.memory.about(run, r.Reservation, when, func(n *note) { n.podRead, n.podReadAt = read, when })
}

// reach opens the Link of a Pod that the cache does not show and that has a run: our label was taken away while no controller was there
// (fault row 51). From then on its own reconciler looks live whether it is still there.
func (c *courier) reach(ctx context.Context, p *corev1.Pod) {
	if _, open := c.links.Get(string(p.UID)); open {
		return
	}
	if err := (podReconciler{c}).openFor(ctx, p); err != nil {
		c.log.Warn("reach a Pod without its label", "namespace", p.Namespace, "pod", p.Name, "cause", err)
		return
	}
	c.pods.wake(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
}

// usable is the state of a Link to go by. One that proved who it is and has not told yet what it holds is still opening: a moment later
// its list tells of every attempt at once, and nobody has to ask for each (SPEC.md, Lifecycle, Re-attach; fault row 44).
func usable(s client.Status) delivery.LinkState {
	if s.State == client.StateVerified && !s.Listed {
		return delivery.LinkChallenging
	}
	return linkState(s.State)
}

func linkState(s client.State) delivery.LinkState {
	switch s {
	case client.StateChallenging:
		return delivery.LinkChallenging
	case client.StateVerified:
		return delivery.LinkVerified
	case client.StateUnreachable:
		return delivery.LinkUnreachable
	case client.StateUnauthenticated:
		return delivery.LinkUnauthenticated
	case client.StateIncompatible:
		return delivery.LinkIncompatible
	default:
		return delivery.LinkUnreachable
	}
}

// notBefore is when the attempt's target may be asked again, zero when it may be now.
func notBefore(a client.Attempt, now time.Time) time.Time {
	if a.NotBefore.After(now) {
		return a.NotBefore
	}
	return time.Time{}
}
