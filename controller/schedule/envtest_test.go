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
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/controller/retention"
	"github.com/hearthdev/hearth/controller/schedule"
	"github.com/hearthdev/hearth/test/apiserver"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

const (
	patience = 30 * time.Second
	beat     = 25 * time.Millisecond
)

// place is a namespace of the real API server, with a clock that the test moves.
type place struct {
	t         *testing.T
	namespace string
	ahead     atomic.Int64
	client.Client
}

func newPlace(t *testing.T) *place {
	return &place{t: t, namespace: server.Namespace(t), Client: server.Client(t)}
}

func (p *place) now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

// to moves the clock to so long after a time, and has the Agent looked at: the controller's timers do not know.
func (p *place) to(a *v1alpha1.Agent, at time.Time, after time.Duration) {
	p.t.Helper()
	p.ahead.Store(int64(time.Until(at) + after))
	require.NoError(p.t, p.Patch(p.t.Context(), a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test/looked-at":"`+p.now().String()+`"}}}`))))
}

// run runs the controllers, with the rights of config/rbac, until stop.
func (p *place) run(funcs interceptor.Funcs) (stop func()) {
	mgr, err := ctrl.NewManager(server.Controller(p.t), ctrl.Options{
		Scheme: apiserver.Scheme(p.t), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{p.namespace: {}}, ByObject: map[client.Object]cache.ByObject{&v1alpha1.AgentRun{}: {Transform: deliver.Transform}}},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			real, err := client.NewWithWatch(c, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(real, funcs), nil
		},
	})
	require.NoError(p.t, err)
	require.NoError(p.t, (&schedule.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: p.now}).SetupWithManager(mgr))
	require.NoError(p.t, retention.SetupWithManager(mgr, p.now))
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() {
		cancel()
		if ended != nil {
			assert.NoError(p.t, <-ended)
			ended = nil
		}
	}
	p.t.Cleanup(stop)
	return stop
}

func (p *place) agent(change func(*v1alpha1.AgentSpec)) *v1alpha1.Agent {
	a := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "nightly"},
		Spec: v1alpha1.AgentSpec{
			Mode: v1alpha1.AgentModeScheduled, Goal: "Look at what changed.", Schedule: &v1alpha1.Schedule{Cron: "* * * * *"},
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
		},
	}
	change(&a.Spec)
	require.NoError(p.t, p.Create(p.t.Context(), a))
	return a
}

func (p *place) eventually(what string, look func() bool) {
	p.t.Helper()
	require.Eventually(p.t, look, patience, beat, what)
}

func (p *place) runs() []v1alpha1.AgentRun {
	var runs v1alpha1.AgentRunList
	require.NoError(p.t, p.List(p.t.Context(), &runs, client.InNamespace(p.namespace)))
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
	scheduled := func(at time.Time) func() bool {
		return func() bool {
			return p.Get(t.Context(), key, a) == nil && a.Status.LastScheduleTime != nil && a.Status.LastScheduleTime.Time.Equal(at)
		}
	}
	p.eventually("a promise", func() bool { return p.Get(t.Context(), key, a) == nil && a.Status.NextScheduleTime != nil })
	ready := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.AgentConditionReady)
	require.NotNil(t, ready)
	assert.Equal(t, []any{metav1.ConditionTrue, v1alpha1.ReasonScheduled}, []any{ready.Status, ready.Reason})

	first := a.Status.NextScheduleTime.Time
	p.to(a, first, time.Second)
	p.eventually("the first run", scheduled(first))
	require.Len(t, p.runs(), 1)
	run := p.runs()[0]
	at, ok := schedule.TimeOf(&run)
	assert.True(t, ok && at.Equal(first))
	assert.Empty(t, run.OwnerReferences)
	assert.Equal(t, []any{"Look at what changed.", a.UID, int64(3600)}, []any{run.Spec.Goal, run.Spec.AgentRef.UID, *run.Spec.TTLSecondsAfterFinished})
	assert.Equal(t, int32(1), a.Status.ActiveRuns)

	second := first.Add(time.Minute)
	p.to(a, second, time.Second)
	p.eventually("the second is forbidden", func() bool {
		return p.Get(t.Context(), key, a) == nil && a.Status.LastMissedTime != nil && a.Status.LastMissedTime.Time.Equal(second)
	})
	p.eventually("and that is said", func() bool {
		var events eventsv1.EventList
		require.NoError(t, p.List(t.Context(), &events, client.InNamespace(p.namespace)))
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
	p.eventually("the third", scheduled(third))
	for _, r := range p.runs() {
		if !r.Ended() {
			p.end(r, v1alpha1.PhaseSucceeded)
		}
	}
	p.eventually("the newest stays", func() bool { runs := p.runs(); return len(runs) == 1 && runs[0].Name != run.Name })

	require.NoError(t, p.Delete(t.Context(), a))
	last := p.runs()[0]
	require.Len(t, p.runs(), 1, "records outlive the Agent")
	p.ahead.Store(int64(time.Until(third) + 2*time.Hour))
	require.NoError(t, p.Patch(t.Context(), &last, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"looked":"again"}}}`))))
	p.eventually("its own time is over", func() bool { return len(p.runs()) == 0 })
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
	p.eventually("a promise", func() bool { return p.Get(t.Context(), key, a) == nil && a.Status.NextScheduleTime != nil })
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
	p.eventually("the run", func() bool { return len(p.runs()) == 1 })
	p.end(p.runs()[0], v1alpha1.PhaseSucceeded)
	stop()
	require.NoError(t, p.Get(t.Context(), key, a))
	assert.Nil(t, a.Status.LastScheduleTime)
	require.Len(t, p.runs(), 1, "nobody noted its time yet: the record is the only proof")

	p.to(a, at, 10*time.Minute) // later than its deadline: it is not missed, it was run
	p.run(interceptor.Funcs{Create: count})
	p.eventually("the record goes once it is noted", func() bool { return len(p.runs()) == 0 })
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
	p.eventually("a promise", func() bool { return p.Get(t.Context(), key, a) == nil && a.Status.NextScheduleTime != nil })
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
	p.eventually("it is missed", func() bool {
		return p.Get(t.Context(), key, a) == nil && a.Status.LastMissedTime != nil && a.Status.LastMissedTime.Time.Equal(at)
	})
	stop()
	assert.Nil(t, a.Status.LastScheduleTime)
	require.Len(t, p.runs(), 1)
	assert.Equal(t, []any{name, "another"}, []any{p.runs()[0].Name, p.runs()[0].Spec.AgentRef.Name})
}
