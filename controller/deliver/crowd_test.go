package deliver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

// SPEC.md, Lifecycle, Watch: others give way to reservations, their ends and records, and not to what only tells.
func TestOnlyWhatMovesRunsIsGivenWayTo(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	waits := testRun("work", "uid-1")
	reserved := testRun("work", "uid-1")
	reserved.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 2, PodName: "reviewer-1", PodUID: "pod", Journal: "j", ReservedAt: &metav1.MicroTime{Time: at}}
	same := toRun(reserved).Progress
	began, given, next := same, same, same
	began.StartedAt, began.AcceptedAt = at.Add(time.Second), at.Add(time.Second)
	given.Reservation = delivery.Reservation{Attempt: 2}
	next.Attempt = 3
	for name, c := range map[string]struct {
		run  *hearthv1.AgentRun
		want delivery.Status
		is   bool
	}{
		"reserved":                      {waits, delivery.ReserveStatus(toRun(waits), delivery.Reservation{Attempt: 1, PodUID: "pod", At: at}), true},
		"it waits for another reason":   {waits, delivery.Status{Progress: toRun(waits).Progress}, false},
		"it began":                      {reserved, delivery.Status{Phase: delivery.PhaseRunning, Progress: began}, false},
		"given back":                    {reserved, delivery.Status{Progress: given}, true},
		"reserved anew":                 {reserved, delivery.Status{Progress: next}, true},
		"recorded":                      {reserved, delivery.Status{Progress: same, Ending: &delivery.Ending{}}, true},
		"ended while it waited for one": {waits, delivery.Status{Ending: &delivery.Ending{}}, true},
	} {
		assert.Equal(t, c.is, moves(c.run, c.want), name)
	}
}

func TestACrowdIsSeveralWritesAtOnce(t *testing.T) {
	var c crowd
	loads := &Loads{&courier{}}
	assert.False(t, c.big())
	first := c.one()
	assert.False(t, c.big(), "one is in nobody's way")
	second := c.one()
	assert.True(t, c.big())
	first()
	assert.False(t, c.big())
	second()
	defer loads.crowd.one()()
	defer loads.crowd.one()()
	assert.True(t, loads.Crowded())
}

// A write counts from its beginning to its end, if it moves a run.
func TestAWriteCountsWhileItIsUnderWay(t *testing.T) {
	var c *courier
	during := int32(-1)
	api := interceptor.NewClient(nil, interceptor.Funcs{SubResourceUpdate: func(context.Context, kube.Client, string, kube.Object, ...kube.SubResourceUpdateOption) error {
		during = c.crowd.moving.Load()
		return errPanicked // any
	}})
	c = &courier{kube: api, newest: newNewest(), now: time.Now}
	run := testRun("work", "uid-1")
	_, err := c.writeStatus(t.Context(), run, delivery.ReserveStatus(toRun(run), delivery.Reservation{Attempt: 1, PodUID: "pod", At: time.Unix(1, 0)}), endpoint{}, "")
	require.Error(t, err)
	assert.Equal(t, int32(1), during)
	waits := delivery.WaitStatus(time.Unix(1, 0), toRun(run), delivery.Refusal{Reason: delivery.ReasonTargetNotReady})
	_, err = c.writeStatus(t.Context(), run, *waits, endpoint{}, "")
	require.Error(t, err)
	assert.Zero(t, during, "it only tells")
	assert.Zero(t, c.crowd.moving.Load())
}

// What is decided about a run knows of the others that are moved meanwhile.
func TestWhoLooksAtARunSeesTheCrowd(t *testing.T) {
	agents := interceptor.NewClient(nil, interceptor.Funcs{Get: func(context.Context, kube.WithWatch, kube.ObjectKey, kube.Object, ...kube.GetOption) error {
		return nil // each has the run's own UID, which is none
	}})
	c, run := &courier{kube: agents, memory: newMemory(), now: time.Now}, testRun("work", "uid-1")
	obs, _, err := c.observe(t.Context(), run, toRun(run))
	require.NoError(t, err)
	assert.False(t, obs.Crowded)
	for range crowded {
		defer c.crowd.one()()
	}
	obs, _, err = c.observe(t.Context(), run, toRun(run))
	require.NoError(t, err)
	assert.True(t, obs.Crowded)
}
