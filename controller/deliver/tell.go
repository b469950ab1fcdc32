package deliver

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/signals"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
	"github.com/hearthdev/hearth/internal/tracing"
)

func (c *courier) signals() signals.Signals {
	return signals.Signals{Events: c.events, Log: c.log, Spans: c.spans}
}

// trace is what calls about a run carry; none for a run that is gone.
func (c *courier) trace(run *hearthv1.AgentRun) client.Trace {
	if run == nil {
		return client.Trace{}
	}
	parent, state := tracing.Format(c.spans.Of(run))
	return client.Trace{Parent: parent, State: state}
}

// sentOff tells what a delivery proved.
func (c *courier) sentOff(s delivery.Sent, span trace.Delivery) {
	if s.Outcome == delivery.SendUnknown {
		metrics.DeliveryUnknown()
	}
	span.End(c.now(), sendWord(s.Outcome), string(s.Code))
}

// sendWord is an outcome as spans have it.
func sendWord(o delivery.SendOutcome) string {
	switch o {
	case delivery.SendAccepted:
		return "accepted"
	case delivery.SendRejected:
		return "rejected"
	case delivery.SendNotTaken:
		return "not_taken"
	case delivery.SendUnknown:
		return "unknown"
	default:
		return "unknown"
	}
}

// linkStates are those that a Link can be in.
var linkStates = []client.State{client.StateChallenging, client.StateVerified, client.StateUnreachable, client.StateUnauthenticated, client.StateIncompatible}

// state is what the gauges are read from: caches and memory, never the API server. False: they could not be read.
func (c *courier) state() (metrics.State, bool) {
	out := metrics.State{Links: c.linksByState()}
	ctx := context.Background()
	var agents hearthv1.AgentList
	if err := c.kube.List(ctx, &agents, kube.UnsafeDisableDeepCopy); err != nil {
		return out, false
	}
	now := c.now()
	for i := range agents.Items {
		a := &agents.Items[i]
		if a.Spec.Mode != hearthv1.AgentModeService || a.Spec.Runtime.Delivery == nil {
			continue
		}
		it, err := c.agentState(ctx, now, a)
		if err != nil {
			return out, false
		}
		out.Agents = append(out.Agents, it)
	}
	return out, true
}

func (c *courier) linksByState() map[string]int {
	c.mu.Lock()
	pods := make([]string, 0, len(c.open))
	for podUID := range c.open {
		pods = append(pods, podUID)
	}
	c.mu.Unlock()
	out := make(map[string]int, len(linkStates))
	for _, s := range linkStates {
		out[string(s)] = 0
	}
	for _, podUID := range pods {
		if link, open := c.links.Get(podUID); open {
			out[string(link.Status().State)]++
		}
	}
	return out
}

func (c *courier) agentState(ctx context.Context, now time.Time, agent *hearthv1.Agent) (metrics.Agent, error) {
	out := metrics.Agent{Namespace: agent.Namespace, Name: agent.Name, Targets: map[string]int{}}
	var runs hearthv1.AgentRunList
	in := kube.InNamespace(agent.Namespace)
	if err := c.kube.List(ctx, &runs, in, kube.MatchingFields{indexWaiting: agent.Name}, kube.UnsafeDisableDeepCopy); err != nil {
		return out, err //nolint:wrapcheck // not told
	}
	for i := range runs.Items {
		if r := &runs.Items[i]; r.Spec.AgentRef.UID == agent.UID && waiting(c.newest.pick(r)) {
			out.Waiting++
		}
	}
	var standing hearthv1.AgentRunList
	if err := c.kube.List(ctx, &standing, in, kube.MatchingFields{indexStanding: agent.Name}, kube.UnsafeDisableDeepCopy); err != nil {
		return out, err //nolint:wrapcheck // not told
	}
	for i := range standing.Items {
		if !metav1.IsControlledBy(&standing.Items[i], agent) {
			continue // left behind by an earlier Agent of the name
		}
		t, _, err := c.target(ctx, &standing.Items[i])
		if err != nil {
			return out, err
		}
		out.Targets[targetState(now, t)]++
	}
	return out, nil
}

// targetState is whether a target can be delivered to, in the metrics' words.
func targetState(now time.Time, t delivery.Target) string {
	switch reason, _ := t.Usable(now); reason {
	case "":
		return metrics.TargetReady
	case delivery.ReasonTargetBusy:
		return metrics.TargetBusy
	case delivery.ReasonServiceRecasting:
		return metrics.TargetDraining
	case delivery.ReasonTargetUnreachable:
		return metrics.TargetUnreachable
	case delivery.ReasonTargetUnauthenticated:
		return metrics.TargetUnauthenticated
	case delivery.ReasonTargetIncompatible:
		return metrics.TargetIncompatible
	default:
		return metrics.TargetNotReady
	}
}
