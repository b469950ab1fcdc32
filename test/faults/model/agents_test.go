package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// agents are the names that Agents can have here.
var agents = []string{"reviewer", "builder"}

func (w *world) createAgent(name string) {
	w.api.agents[name] = &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(w.id("agent")), Generation: 1, ResourceVersion: w.revision()},
		Spec: hearthv1.AgentSpec{
			Mode: hearthv1.AgentModeService, Goal: "You review.", GoalTemplate: "Review ${change}.",
			Runtime:  hearthv1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &hearthv1.DeliveryRuntime{Port: 4100}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i:1"}}}},
			Replicas: ptr.To(int32(1 + w.below(2))), DrainTimeoutSeconds: ptr.To(int64(drain.Seconds())), //nolint:gosec // one or two
		}}
	w.tell("Agent %s is created", name)
}

// deleteAgent deletes an Agent, and the garbage collector its standing runs. Delivered runs stay.
func (w *world) deleteAgent(name string) {
	a := w.api.agents[name]
	delete(w.api.agents, name)
	for _, r := range sorted(w.api.standing) {
		if w.api.standing[r].OwnerReferences[0].UID == a.UID {
			delete(w.api.standing, r)
		}
	}
	w.tell("Agent %s is deleted", name)
}

// respec changes what an Agent says.
func (w *world) respec(name string, change func(*hearthv1.AgentSpec)) {
	a := w.api.agents[name].DeepCopy()
	change(&a.Spec)
	a.Generation++
	a.ResourceVersion = w.revision()
	w.api.agents[name] = a
	w.tell("Agent %s wants %d of %s", name, *a.Spec.Replicas, w.imageOf(a))
}

func (w *world) imageOf(a *hearthv1.Agent) string { return a.Spec.Template.Spec.Containers[0].Image }

func (w *world) image(r *hearthv1.AgentRun) string { return r.Spec.Template.Spec.Containers[0].Image }

// touch changes a standing run's status, as the reconciler of runs does.
func (w *world) touch(name string, change func(*hearthv1.AgentRunStatus)) {
	r := w.api.standing[name].DeepCopy()
	change(&r.Status)
	r.ResourceVersion = w.revision()
	w.api.standing[name] = r
}

// kubelet brings Pods to what the standing runs say, and standing runs to what their Pods say.
func (w *world) kubelet() {
	for _, name := range sorted(w.api.standing) {
		w.keep(name)
	}
	for _, h := range w.harnesses {
		switch name := h.me.PodName; {
		case !h.exists:
		case h.failed:
			w.withdraw(h, name)
		case !h.endsBy.IsZero():
			w.terminate(h)
		case !h.up:
			w.boots(h, false)
		}
	}
}

// keep makes a standing run's Pod, ends the run when that is gone, and says whether it listens.
func (w *world) keep(name string) {
	r := w.api.standing[name]
	if r.Ended() {
		return
	}
	p, there := w.api.pods[name]
	switch {
	case r.Status.PodUID == "" && !there:
		if len(w.api.pods) < pods {
			h := w.newHarness(r.Labels[hearthv1.LabelAgent], name, r.UID)
			w.api.pods[name] = podObject{uid: h.me.PodUID}
			w.touch(name, func(s *hearthv1.AgentRunStatus) { s.PodUID, s.PodName = types.UID(h.me.PodUID), name })
		}
	case r.Status.PodUID == "": // an earlier one ends under that name
	case !there, p.uid != string(r.Status.PodUID), p.failed:
		at := ptr.To(metav1.NewMicroTime(w.now))
		w.touch(name, func(s *hearthv1.AgentRunStatus) { s.CompletionTime, s.RecordedAt = at, at })
		w.tell("standing run %s ends: its Pod is gone", name)
	default:
		w.probe(name, p)
	}
}

func (w *world) probe(name string, p podObject) {
	h := w.byUID(p.uid)
	listening := h.up && h.state == wire.AgentReady && !h.draining
	if p.listening == listening && p.terminating == !h.endsBy.IsZero() && w.api.standing[name].Status.Conditions != nil {
		return
	}
	p.listening, p.terminating = listening, !h.endsBy.IsZero()
	w.api.pods[name] = p
	status := metav1.ConditionFalse
	if listening {
		status = metav1.ConditionTrue
	}
	w.touch(name, func(s *hearthv1.AgentRunStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: hearthv1.AgentRunConditionACPReady, Status: status, Reason: "Probe", LastTransitionTime: metav1.NewTime(w.now)})
	})
}

// terminate ends a Pod: it drains, hands its results over, and goes at the latest when its grace is over.
func (w *world) terminate(h *harness) {
	if w.now.Before(h.endsBy) && h.up && len(h.keys(unrecorded)) > 0 {
		return
	}
	w.endAll(h, wire.OutcomeCancelled, wire.ReasonCancelled)
	h.up = false
	w.withdraw(h, h.me.PodName)
}

// withdraw removes the Pod object of a standing run that is gone or has ended.
func (w *world) withdraw(h *harness, name string) {
	if r := w.api.standing[name]; r != nil && r.UID == h.owner && !r.Ended() {
		return
	}
	w.removePod(h)
}

func (w *world) removePod(h *harness) {
	h.exists = false
	if w.api.pods[h.me.PodName].uid == h.me.PodUID {
		delete(w.api.pods, h.me.PodName)
	}
	w.tell("Pod %s (%s) is gone", h.me.PodName, h.me.PodUID)
}

// collect is the garbage collector: the Pods of standing runs that do not exist end gracefully.
func (w *world) collect() {
	for _, h := range w.harnesses {
		r := w.api.standing[h.me.PodName]
		if h.exists && h.endsBy.IsZero() && (r == nil || r.UID != h.owner) {
			h.endsBy = w.now.Add(grace)
			w.drains(h)
			if p := w.api.pods[h.me.PodName]; p.uid == h.me.PodUID {
				p.terminating, p.listening = true, false
				w.api.pods[h.me.PodName] = p
			}
			w.tell("Pod %s (%s) drains", h.me.PodName, h.me.PodUID)
		}
	}
}

// newReconciler is the product's, with the model's API server and what this controller's Links know.
func (w *world) newReconciler(c *controller) *agent.Reconciler {
	return &agent.Reconciler{Client: &kube{w: w, c: c, from: &c.cache}, Live: &kube{w: w, c: c, from: &w.api},
		Loads: loads{w, c}, Events: &events.FakeRecorder{}, Now: func() time.Time { return w.now }}
}

// standing is one pass about an Agent.
func (w *world) standing(c *controller, name string) {
	if !w.nested {
		w.crossed = false
	}
	c.asked = name
	_, err := c.agents.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	require.NoError(w.t, injected(err))
}

// interleave lets another controller do a whole pass before a write of the first.
func (w *world) interleave() {
	if w.nested || !w.mishap(12) {
		return
	}
	w.nested, w.crossed = true, true
	defer func() { w.nested = false }()
	c, _ := pick(w, w.controllers, func(*controller) bool { return true })
	asked := c.asked
	w.standing(c, agents[w.below(len(agents))])
	c.asked = asked
}

// loads are what a controller's Links know of what standing runs hold, as controller/deliver tells it.
type loads struct {
	w *world
	c *controller
}

func (loads) Changes() source.Source { return nil }

func (l loads) Load(_ context.Context, run *hearthv1.AgentRun) (agent.Load, error) {
	podUID := string(run.Status.PodUID)
	if podUID == "" {
		p, there := l.w.api.pods[run.Name]
		if !there {
			return agent.Load{Empty: true}, nil
		}
		podUID = p.uid
	}
	assigning := run.Status.CordonedAt != nil && len(l.c.passes[run.Labels[hearthv1.LabelAgent]]) > 0
	reserved := l.c.reservedOn(podUID)
	i := slices.IndexFunc(l.w.harnesses, func(h *harness) bool { return h.me.PodUID == podUID })
	if i < 0 {
		return agent.Load{}, fmt.Errorf("no Pod %s: %w", podUID, errForeign)
	}
	k := l.c.links[l.w.harnesses[i]]
	if k == nil {
		return agent.Load{Reserved: int32(len(reserved))}, nil //nolint:gosec // a handful
	}
	load := agent.Load{Running: int32(k.capacity.Running), Queued: int32(k.capacity.Queued), //nolint:gosec // a handful
		Empty: !assigning && len(reserved) == 0 && k.state == delivery.LinkVerified && k.listed && k.held == 0}
	for _, key := range reserved {
		if n := l.c.note(key); n == nil || n.Seen == nil {
			load.Reserved++
		}
	}
	switch {
	case k.state == delivery.LinkVerified && k.listed:
		load.Link = agent.LinkVerified
	case k.state == delivery.LinkUnreachable:
		load.Link, load.Reason = agent.LinkFailed, string(delivery.ReasonTargetUnreachable)
	}
	return load, nil
}
