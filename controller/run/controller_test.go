package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// intercept puts itself between the reconciler and its API server.
func intercept(t *testing.T, r *Reconciler, funcs interceptor.Funcs) {
	t.Helper()
	c, ok := r.Client.(client.WithWatch)
	require.True(t, ok)
	r.Client = interceptor.NewClient(c, funcs)
}

// lookAt reconciles a run and gives it as it is then.
func lookAt(t *testing.T, r *Reconciler, run *v1alpha1.AgentRun) *v1alpha1.AgentRun {
	t.Helper()
	key := client.ObjectKeyFromObject(run)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	var after v1alpha1.AgentRun
	require.NoError(t, r.Client.Get(t.Context(), key, &after))
	return &after
}

func ended(r *v1alpha1.AgentRun) {
	went(r)
	r.Status.Phase, r.Status.CompletionTime = v1alpha1.PhaseFailed, &metav1.MicroTime{Time: now}
}

// An ad-hoc run is nobody's Agent's: there are no keys of one to make, and its Secret has the goal only (R51).
func TestAnAdHocRunMakesNoKeys(t *testing.T) {
	run := once(func(r *v1alpha1.AgentRun) { r.Spec.AgentRef = v1alpha1.AgentRef{} })
	r := reconciler(t, run)
	assert.Equal(t, "review-17", lookAt(t, r, run).Status.PodName)
	var made corev1.SecretList
	require.NoError(t, r.Client.List(t.Context(), &made))
	require.Len(t, made.Items, 1)
	assert.Equal(t, map[string][]byte{"goal": []byte("Review PR 17.")}, made.Items[0].Data)
}

// A Pod or Service of the run's name is the run's only by its owner; the record of the run never has another's UID.
func TestAForeignPodOrServiceOfARunsNameIsInTheWay(t *testing.T) {
	for says, foreign := range map[string]client.Object{
		"Pod review-17 exists and is not this run's":                &corev1.Pod{},
		"Service review-17 exists and is not this run's: delete it": &corev1.Service{},
	} {
		foreign.SetNamespace("team")
		foreign.SetName("review-17")
		foreign.SetUID("foreign")
		run := lookAt(t, reconciler(t, once(), foreign), once())
		assert.Equal(t, says, saysOf(run))
		assert.Empty(t, run.Status.PodUID)
		assert.False(t, run.Ended())
	}
}

// A Service that somebody deleted is made again while the run lives, and not beside one that has ended.
func TestTheServiceIsMadeAgainWhileTheRunLives(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRun)
		pod    *corev1.Pod
		want   bool
	}{"lives": {went, onePod(), true}, "has ended, its Pod's phase not yet": {ended, onePod(exits(0, ""), phase("Running")), false}} {
		r := reconciler(t, once(c.change), c.pod)
		lookAt(t, r, once())
		err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(once()), &corev1.Service{})
		require.NoError(t, client.IgnoreNotFound(err))
		assert.Equal(t, c.want, err == nil, name)
	}
}

// Row 51: what the cache does not have is gone only if the API server says so.
func TestAPodThatOnlyTheCacheLacksIsNotGone(t *testing.T) {
	r := reconciler(t, once(went))
	r.Live = reconciler(t, once(went), onePod()).Client
	assert.False(t, lookAt(t, r, once()).Ended())
	r.Live = reconciler(t, once(went)).Client
	assert.Equal(t, v1alpha1.ReasonTargetLost, lookAt(t, r, once()).Status.Reason)
}

// A run of the same name that was made in the meantime gets nothing of the one that the cache shows.
func TestAnotherRunOfTheNameGetsNoPodOfThisOne(t *testing.T) {
	r := reconciler(t, once())
	r.Live = reconciler(t, once(func(r *v1alpha1.AgentRun) { r.UID = "another" })).Client
	assert.Empty(t, lookAt(t, r, once()).Status.PodName)
	assert.True(t, apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(once()), &corev1.Pod{})))
}

// A Pod is deleted by its UID; one that has not started in time only as it was seen, because it may start at this moment.
func TestADeleteNamesThePodThatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		run     *v1alpha1.AgentRun
		pod     *corev1.Pod
		version bool
	}{
		"not started in time": {once(pinned, func(r *v1alpha1.AgentRun) { r.CreationTimestamp.Time = now.Add(-time.Hour) }), onePod(pending), true},
		"out of its own time": {once(went, func(r *v1alpha1.AgentRun) {
			r.CreationTimestamp.Time, r.Status.StartTime.Time = now.Add(-9*time.Hour), now.Add(-8*time.Hour)
		}), onePod(), false},
		"cancelled before its start": {once(pinned, cancelled), onePod(pending), false},
		"ended by a record":          {once(ended), onePod(), false},
	} {
		r := reconciler(t, c.run, c.pod)
		var only *metav1.Preconditions
		intercept(t, r, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			only = (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
			return nil
		}})
		lookAt(t, r, c.run)
		require.NotNil(t, only, name)
		require.NotNil(t, only.UID, name)
		assert.Equal(t, c.pod.UID, *only.UID, name)
		assert.Equal(t, c.version, only.ResourceVersion != nil, name)
	}
}

// R9: the Pod of a run that is gone goes at once; that of a run which has its name by now, and anybody else's, stay.
func TestThePodOfARunThatIsGoneEnds(t *testing.T) {
	for name, c := range map[string]struct {
		live   []client.Object
		change func(*corev1.Pod)
		stays  bool
	}{
		"gone":                  {nil, func(*corev1.Pod) {}, false},
		"made again":            {[]client.Object{once(func(r *v1alpha1.AgentRun) { r.UID = "another" })}, func(*corev1.Pod) {}, false},
		"only the cache is old": {[]client.Object{once()}, func(*corev1.Pod) {}, true},
		"somebody's":            {nil, func(p *corev1.Pod) { p.OwnerReferences = nil }, true},
	} {
		r := reconciler(t, onePod(c.change))
		r.Live = reconciler(t, c.live...).Client
		_, err := r.Reconcile(t.Context(), requestFor(once()))
		require.NoError(t, err)
		err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(once()), &corev1.Pod{})
		require.NoError(t, client.IgnoreNotFound(err))
		assert.Equal(t, c.stays, err == nil, name)
	}
}

// Fault row 56: a record that the API server refuses is cut, and the run ends with what fits.
func TestARefusedRecordOfAOneShotRunIsCut(t *testing.T) {
	const fits = 100
	message := string(wire.EncodeTermination(wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted, Output: &wire.Output{MediaType: "text/plain", Value: strings.Repeat("x", 2*fits)}}))
	r := reconciler(t, once(went), onePod(exits(0, message)))
	intercept(t, r, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, options ...client.SubResourceUpdateOption) error {
		if run, ok := o.(*v1alpha1.AgentRun); ok && run.Status.Output != nil && len(run.Status.Output.Value) > fits {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "AgentRun"}, o.GetName(), nil)
		}
		return c.SubResource(name).Update(ctx, o, options...)
	}})
	run := lookAt(t, r, once())
	assert.Equal(t, []string{"Succeeded", "Completed"}, []string{run.Status.Outcome, run.Status.Reason})
}

// What this process remembers of a start is when it first saw it, of that run alone.
func TestAStartIsRememberedAsItWasFirstSeen(t *testing.T) {
	var m memory
	see := func(run *v1alpha1.AgentRun, p *corev1.Pod, at time.Time) time.Time {
		o := Observed{Run: run, Pod: p, Now: at}
		m.about(&o)
		return o.Begun
	}
	assert.Zero(t, see(once(pinned), onePod(pending), now))
	assert.Equal(t, now, see(once(pinned), onePod(), now))
	assert.Equal(t, now, see(once(went), onePod(), now.Add(time.Minute)))
	assert.Equal(t, now, see(once(went), nil, now.Add(time.Hour)))
	again := once(func(r *v1alpha1.AgentRun) { r.UID = types.UID("another") })
	assert.Zero(t, see(again, nil, now.Add(time.Hour)))
	assert.Zero(t, see(once(went), nil, now.Add(time.Hour)), "one of each name is remembered")
	m.removed(client.ObjectKeyFromObject(again), onePod())
	o := Observed{Run: once(went), Now: now}
	m.about(&o)
	assert.NotNil(t, o.Last)
	m.forget(client.ObjectKeyFromObject(again))
	assert.Empty(t, m.notes)
}

// The API server says that a Pod is gone before its last event came: that has the result, so it is waited for, but not for ever. Who never saw
// the Pod gets no event.
func TestTheLastEventOfAPodThatWasSeenIsWaitedFor(t *testing.T) {
	var m memory
	gone := func(at time.Time) *Observed {
		o := Observed{Run: once(went), Gone: true, Now: at}
		m.about(&o)
		return &o
	}
	assert.False(t, m.expects(gone(now)), "never seen by this process")
	seen := Observed{Run: once(went), Pod: onePod(), Now: now}
	m.about(&seen)
	assert.False(t, m.expects(&seen), "it is there")
	assert.True(t, m.expects(gone(now)))
	assert.True(t, m.expects(gone(now.Add(eventPatience-1))))
	assert.False(t, m.expects(gone(now.Add(eventPatience))))
	m.removed(client.ObjectKeyFromObject(seen.Run), onePod(exits(0, "")))
	assert.False(t, m.expects(gone(now)), "it has come")
}

// What a one-shot run's Pod was like when it was removed is kept for the next look, and its result counts; a standing run's would only be a load.
func TestTheResultThatComesWithARemovalCounts(t *testing.T) {
	removed := func(r *Reconciler, p *corev1.Pod) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		r.podEvents().Delete(t.Context(), event.DeleteEvent{Object: p}, queue)
		require.Equal(t, 1, queue.Len())
		request, _ := queue.Get()
		assert.Equal(t, p.Name, request.Name)
	}
	r := reconciler(t, once(went))
	removed(r, onePod(exits(0, "")))
	assert.Equal(t, v1alpha1.ReasonCompleted, lookAt(t, r, once()).Status.Reason)
	lookAt(t, r, once()) // its record wakes it
	removed(r, livePod())
	assert.Empty(t, r.memory.notes, "nothing is kept of one that was recorded, nor of a standing run")
}
