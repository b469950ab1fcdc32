package schedule_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/retention"
	"github.com/hearthdev/hearth/controller/schedule"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// place is a room with a clock that the test moves.
type place struct {
	t *testing.T
	*room.Room
	ahead atomic.Int64
}

func newPlace(t *testing.T) *place { return &place{t: t, Room: room.New(t, server)} }

func (p *place) now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

// to moves the clock to so long after a time, and has the Agent looked at: the controller's timers do not know.
func (p *place) to(a *v1alpha1.Agent, at time.Time, after time.Duration) {
	p.t.Helper()
	p.ahead.Store(int64(time.Until(at) + after))
	p.Touch(a)
}

// run runs the controllers, with the rights of config/rbac, until stop.
func (p *place) run(funcs interceptor.Funcs) (stop func()) {
	options := room.Options()
	options.NewClient = func(c *rest.Config, o client.Options) (client.Client, error) {
		real, err := client.NewWithWatch(c, o)
		if err != nil {
			return nil, err
		}
		return interceptor.NewClient(real, funcs), nil
	}
	mgr := p.Manager(server.Controller(p.t), options)
	require.NoError(p.t, (&schedule.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: p.now}).SetupWithManager(mgr))
	require.NoError(p.t, retention.SetupWithManager(mgr, p.now))
	return p.Start(mgr)
}

func (p *place) agent(change func(*v1alpha1.AgentSpec)) *v1alpha1.Agent {
	p.t.Helper()
	return p.Agent("nightly", func(a *v1alpha1.Agent) {
		a.Spec.Mode, a.Spec.Goal, a.Spec.GoalTemplate, a.Spec.Runtime.Delivery = v1alpha1.AgentModeScheduled, "Look at what changed.", "", nil
		a.Spec.Schedule = &v1alpha1.Schedule{Cron: "* * * * *"}
		change(&a.Spec)
	})
}

// promised waits until the Agent says when its next run is.
func (p *place) promised(a *v1alpha1.Agent) {
	p.t.Helper()
	p.Eventually("a promise", func(ctx context.Context) bool {
		return p.Get(ctx, client.ObjectKeyFromObject(a), a) == nil && a.Status.NextScheduleTime != nil
	})
}

func (p *place) runs() []v1alpha1.AgentRun {
	var runs v1alpha1.AgentRunList
	require.NoError(p.t, p.List(p.t.Context(), &runs, client.InNamespace(p.Namespace)))
	return runs.Items
}

// end ends a run as the run controller does.
func (p *place) end(run v1alpha1.AgentRun, phase v1alpha1.Phase) {
	run.Status.Phase, run.Status.RecordedAt, run.Status.CompletionTime = phase, ptr.To(metav1.NewMicroTime(p.now())), ptr.To(metav1.NewMicroTime(p.now()))
	require.NoError(p.t, p.Status().Update(p.t.Context(), &run))
}

// R32, R34: a run at its time, complete, of no owner; the next is forbidden while it lives, and said; then the next; the history
// limits; and what is left when the Agent is gone stays until its own time.
func TestAScheduleMakesRunsAndKeepsTheNewest(t *testing.T) {
	p := newPlace(t)
	a := p.agent(func(s *v1alpha1.AgentSpec) {
		s.Schedule.SuccessfulRunsHistoryLimit, s.TTLSecondsAfterFinished = ptr.To[int32](1), ptr.To[int64](3600)
	})
	key := client.ObjectKeyFromObject(a)
	p.run(interceptor.Funcs{})
	scheduled := func(at time.Time) func(context.Context) bool {
		return func(context.Context) bool {
			return p.Get(t.Context(), key, a) == nil && a.Status.LastScheduleTime != nil && a.Status.LastScheduleTime.Time.Equal(at)
		}
	}
	p.promised(a)
	ready := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.AgentConditionReady)
	require.NotNil(t, ready)
	assert.Equal(t, []any{metav1.ConditionTrue, v1alpha1.ReasonScheduled}, []any{ready.Status, ready.Reason})

	first := a.Status.NextScheduleTime.Time
	p.to(a, first, time.Second)
	p.Eventually("the first run", scheduled(first))
	require.Len(t, p.runs(), 1)
	run := p.runs()[0]
	at, ok := schedule.TimeOf(&run)
	assert.True(t, ok && at.Equal(first))
	assert.Empty(t, run.OwnerReferences)
	assert.Equal(t, []any{"Look at what changed.", a.UID, int64(3600)}, []any{run.Spec.Goal, run.Spec.AgentRef.UID, *run.Spec.TTLSecondsAfterFinished})
	assert.Equal(t, int32(1), a.Status.ActiveRuns)

	second := first.Add(time.Minute)
	p.to(a, second, time.Second)
	p.Eventually("the second is forbidden", func(context.Context) bool {
		return p.Get(t.Context(), key, a) == nil && a.Status.LastMissedTime != nil && a.Status.LastMissedTime.Time.Equal(second)
	})
	p.Eventually("and that is said", func(context.Context) bool {
		var events eventsv1.EventList
		require.NoError(t, p.List(t.Context(), &events, client.InNamespace(p.Namespace)))
		for _, e := range events.Items {
			if e.Reason == "Missed" && e.Regarding.UID == a.UID && assert.Contains(t, e.Note, run.Name+" has not ended") {
				return true
			}
		}
		return false
	})
	assert.Len(t, p.runs(), 1)

	p.end(run, v1alpha1.PhaseSucceeded)
	third := second.Add(time.Minute)
	p.to(a, third, time.Second)
	p.Eventually("the third", scheduled(third))
	for _, r := range p.runs() {
		if !r.Ended() {
			p.end(r, v1alpha1.PhaseSucceeded)
		}
	}
	p.Eventually("the newest stays", func(context.Context) bool { runs := p.runs(); return len(runs) == 1 && runs[0].Name != run.Name })

	require.NoError(t, p.Delete(t.Context(), a))
	last := p.runs()[0]
	require.Len(t, p.runs(), 1, "records outlive the Agent")
	p.ahead.Store(int64(time.Until(third) + 2*time.Hour))
	p.Touch(&last)
	p.Eventually("its own time is over", func(context.Context) bool { return len(p.runs()) == 0 })
}

// The run comes before the status. A controller that dies in between leaves a run that the next one finds by its name; one that
// cannot make it says nothing that is not so. Its record is gone at once (ttl 0), and yet there is no second run for the time.
func TestAControllerThatDiesBetweenRunAndStatusMakesOneRun(t *testing.T) {
	p := newPlace(t)
	a := p.agent(func(s *v1alpha1.AgentSpec) {
		s.Schedule.Cron, s.TTLSecondsAfterFinished = "0 * * * *", ptr.To[int64](0)
	})
	key := client.ObjectKeyFromObject(a)
	stop := p.run(interceptor.Funcs{})
	p.promised(a)
	stop()
	at := a.Status.NextScheduleTime.Time
	p.to(a, at, time.Second)

	var made atomic.Int32
	count := func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		err := c.Create(ctx, o, opts...)
		if _, ours := o.(*v1alpha1.AgentRun); ours && err == nil {
			made.Add(1)
		}
		return err
	}
	stop = p.run(interceptor.Funcs{Create: count, SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		return errors.New("the controller died")
	}})
	p.Eventually("the run", func(context.Context) bool { return len(p.runs()) == 1 })
	p.end(p.runs()[0], v1alpha1.PhaseSucceeded)
	stop()
	require.NoError(t, p.Get(t.Context(), key, a))
	assert.Nil(t, a.Status.LastScheduleTime)
	require.Len(t, p.runs(), 1, "nobody noted its time yet: the record is the only proof")

	p.to(a, at, 10*time.Minute) // later than its deadline: it is not missed, it was run
	p.run(interceptor.Funcs{Create: count})
	p.Eventually("the record goes once it is noted", func(context.Context) bool { return len(p.runs()) == 0 })
	require.NoError(t, p.Get(t.Context(), key, a))
	require.NotNil(t, a.Status.LastScheduleTime)
	assert.True(t, a.Status.LastScheduleTime.Time.Equal(at))
	assert.Equal(t, int32(1), made.Load())
}

// Somebody's own run under the name: the time is missed, and said. (Admission refuses such a name where it is asked.)
func TestATakenNameIsSaid(t *testing.T) {
	p := newPlace(t)
	// Hourly, because a minute may well begin while it only waits for the promise.
	a := p.agent(func(s *v1alpha1.AgentSpec) { s.Schedule.Cron = "0 * * * *" })
	key := client.ObjectKeyFromObject(a)
	stop := p.run(interceptor.Funcs{})
	p.promised(a)
	stop()
	at := a.Status.NextScheduleTime.Time
	p.to(a, at, time.Second)
	var name string
	stop = p.run(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if run, ours := o.(*v1alpha1.AgentRun); ours {
			name = run.Name
			theirs := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Name}, Spec: v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: "another"}}}
			if err := p.Create(ctx, theirs); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return c.Create(ctx, o, opts...)
	}})
	p.Eventually("it is missed", func(context.Context) bool {
		return p.Get(t.Context(), key, a) == nil && a.Status.LastMissedTime != nil && a.Status.LastMissedTime.Time.Equal(at)
	})
	stop()
	assert.Nil(t, a.Status.LastScheduleTime)
	require.Len(t, p.runs(), 1)
	assert.Equal(t, []any{name, "another"}, []any{p.runs()[0].Name, p.runs()[0].Spec.AgentRef.Name})
}
