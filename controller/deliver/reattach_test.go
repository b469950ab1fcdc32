package deliver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// filled is a cache with some Pods and runs.
type filled struct {
	kube.Client

	pods map[string]corev1.Pod
	runs []hearthv1.AgentRun
}

func (f filled) Get(_ context.Context, key kube.ObjectKey, o kube.Object, _ ...kube.GetOption) error {
	p, ok := f.pods[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	p.DeepCopyInto(o.(*corev1.Pod))
	return nil
}

func (f filled) List(_ context.Context, list kube.ObjectList, _ ...kube.ListOption) error {
	list.(*hearthv1.AgentRunList).Items = f.runs
	return nil
}

func onPod(name, podName string) hearthv1.AgentRun {
	r := testRun(name, types.UID("uid-"+name))
	if podName != "" {
		r.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, PodName: podName, PodUID: types.UID("uid-" + podName), ReservedAt: ptr.To(metav1.NowMicro())}
	}
	return *r
}

func podOf(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7"}}
	if change != nil {
		change(&p)
	}
	return p
}

// noted is a queue that only notes what is added, and how much later it is due.
type noted struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	due map[string]time.Duration
}

func (n noted) Add(r reconcile.Request)                           { n.due[r.Name] = 0 }
func (n noted) AddAfter(r reconcile.Request, after time.Duration) { n.due[r.Name] = after }

// Row 44: a run that was in flight before this process began is left to its target's Link; one whose target cannot be asked, one that has
// none, and whatever comes later, is looked at right away.
func TestRow44_WhatWasInFlightIsLeftToTheLinks(t *testing.T) {
	c := &courier{reattach: reattachWithin, kube: filled{pods: map[string]corev1.Pod{
		"there":   podOf("there", nil),
		"another": podOf("another", func(p *corev1.Pod) { p.UID = "uid-later" }),
		"ended":   podOf("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		"nowhere": podOf("nowhere", func(p *corev1.Pod) { p.Status.PodIP = "" }),
	}}}
	ended := onPod("recorded", "there")
	ended.Status.CompletionTime = ptr.To(metav1.NowMicro())
	for want, runs := range map[time.Duration][]hearthv1.AgentRun{
		reattachWithin: {onPod("in-flight", "there")},
		0:              {onPod("waits", ""), onPod("gone", "gone"), onPod("replaced", "another"), onPod("over", "ended"), onPod("unscheduled", "nowhere"), ended},
	} {
		for _, run := range runs {
			for _, initial := range []bool{true, false} {
				q, due := noted{due: map[string]time.Duration{}}, want
				c.runEvents().Create(t.Context(), event.CreateEvent{Object: &run, IsInInitialList: initial}, q)
				if !initial {
					due = 0
				}
				assert.Equal(t, map[string]time.Duration{run.Name: due}, q.due, "in the first list: %v", initial)
			}
		}
	}
	assert.False(t, notInitial().Create(event.CreateEvent{IsInInitialList: true}), "a Pod that was there is no news to its runs")
	assert.True(t, notInitial().Create(event.CreateEvent{}))
	assert.True(t, notInitial().Update(event.UpdateEvent{}))
	assert.True(t, notInitial().Delete(event.DeleteEvent{}))
}

// Row 44: the list of a target wakes each run once that it tells of or that is reserved there.
func TestRow44_AListWakesEachRunOnce(t *testing.T) {
	key := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: name}}
	}
	c := &courier{kube: filled{runs: []hearthv1.AgentRun{onPod("a", "there"), onPod("b", "there")}}, newest: newNewest(), memory: newMemory(),
		open: map[string]place{"uid-there": {pod: key("there").NamespacedName, agent: key("reviewer").NamespacedName}}}
	c.changed(client.Change{PodUID: "uid-there", State: true, Link: true, Runs: []wire.RunRef{
		{Namespace: "team", Name: "b", UID: "uid-b"}, {Namespace: "team", Name: "orphan", UID: "uid-orphan"}, {Namespace: "elsewhere", Name: "a", UID: "uid-a"},
	}})
	assert.ElementsMatch(t, []reconcile.Request{key("a"), key("b"), key("orphan")}, c.runs.pending)
	assert.Equal(t, []string{"uid-there"}, c.memory.whereabouts(key("orphan").NamespacedName))
	assert.Empty(t, c.memory.whereabouts(key("a").NamespacedName), "nothing was told of it")
	assert.Len(t, c.agents.pending, 1)
}
