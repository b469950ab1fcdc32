package deliver

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

var (
	oneAgent   = types.NamespacedName{Namespace: "team", Name: "one"}
	otherAgent = types.NamespacedName{Namespace: "team", Name: "other"}
)

// SPEC.md, Assign: a queue is told of four times a second for each Agent, whatever others have.
func TestAQueueIsToldOfAFewTimesASecond(t *testing.T) {
	q, now := newQueues(), time.Unix(1000, 0)
	told := func(agent types.NamespacedName, at time.Duration) (n int) {
		q.looked(agent, now.Add(at), 100)
		n = q.words(agent, now.Add(at))
		q.told(agent, now.Add(at), n)
		return n
	}
	assert.Equal(t, 4, told(oneAgent, 0))
	assert.Equal(t, 4, told(otherAgent, 0), "each has its own")
	assert.Zero(t, told(oneAgent, 0), "another look brings no more")
	assert.Equal(t, 2, told(oneAgent, busyAgain/2), "and with time as many as have become free")
	assert.Equal(t, 4, told(oneAgent, busyAgain/2+busyAgain))
	assert.Equal(t, 4, told(oneAgent, time.Hour), "nothing is saved up")
}

// P9: the work of looking at a long queue does not take the processor from other Agents; a short one is looked at at once.
func TestALongQueueIsLookedAtLessOften(t *testing.T) {
	q, now := newQueues(), time.Unix(1000, 0)
	assert.Zero(t, q.pause(oneAgent, now))
	for waiting, pause := range map[int]time.Duration{1: 0, shortQueue: 0, 1000: 20 * time.Millisecond, 10_000: 200 * time.Millisecond} {
		q.looked(oneAgent, now, waiting)
		assert.Equal(t, pause, q.pause(oneAgent, now), waiting)
		assert.Zero(t, q.pause(oneAgent, now.Add(pause)), waiting)
		assert.Zero(t, q.pause(otherAgent, now), "it is nobody else's")
	}
	q.looked(oneAgent, now, 10_000)
	q.looked(oneAgent, now, 0)
	assert.Zero(t, q.pause(oneAgent, now), "nothing waits any more")
	assert.Empty(t, q.of, "an Agent without a queue costs no memory")
}

// The reconciler asks before it reads anything: it has nothing here to read from.
func TestALookThatIsTooEarlyReadsNothing(t *testing.T) {
	now := time.Unix(1000, 0)
	a := assignReconciler{&courier{queues: newQueues(), now: func() time.Time { return now }}}
	a.queues.looked(oneAgent, now, 1000)
	result, err := a.Reconcile(t.Context(), ctrl.Request{NamespacedName: oneAgent})
	require.NoError(t, err)
	assert.Equal(t, ctrl.Result{RequeueAfter: 20 * time.Millisecond}, result)
}

// Of ten that wait behind others the four youngest are told, and somebody looks again; what nothing ends by itself all are told.
func TestOnlyTheYoungestOfAQueueAreTold(t *testing.T) {
	now := time.Unix(1000, 0)
	for reason, want := range map[delivery.Reason]struct {
		told  []string
		again time.Duration
	}{
		delivery.ReasonTargetBusy:        {[]string{"run-6", "run-7", "run-8", "run-9"}, busyAgain},
		delivery.ReasonWaitingForService: {[]string{"run-0", "run-1", "run-2", "run-3", "run-4", "run-5", "run-6", "run-7", "run-8", "run-9"}, 0},
	} {
		var mu sync.Mutex
		var told []string
		client := interceptor.NewClient(nil, interceptor.Funcs{SubResourceUpdate: func(_ context.Context, _ kube.Client, _ string, o kube.Object, _ ...kube.SubResourceUpdateOption) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, o.GetName())
			return nil
		}})
		a := assignReconciler{&courier{kube: client, live: holding(nil), newest: newNewest(), queues: newQueues(), now: func() time.Time { return now }}}
		runs, out := map[string]*hearthv1.AgentRun{}, delivery.Assignments{Refusal: delivery.Refusal{Reason: reason}}
		for i := range 10 {
			name := fmt.Sprintf("run-%d", i)
			runs[name] = &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), ResourceVersion: "1"}}
			out.Refused = append(out.Refused, &delivery.Run{UID: name, Name: name})
		}
		a.queues.looked(oneAgent, now, len(runs))
		next, err := a.refuse(t.Context(), oneAgent, out, runs)
		require.NoError(t, err)
		assert.ElementsMatch(t, want.told, told, reason)
		assert.Equal(t, want.again, next, reason)
	}
}
