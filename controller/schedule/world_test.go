package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // as cmd/controller

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/retention"
	"github.com/hearthdev/hearth/controller/schedule"
)

var errKilled = errors.New("the controller died")

// cut says where a controller dies: at its n-th write, before or after it took effect.
type cut struct {
	write int
	after bool
}

type snapshot struct {
	agent v1alpha1.Agent
	runs  []v1alpha1.AgentRun
}

// world is an API server in memory with one Scheduled Agent, a clock, a cache that may lag, and controllers that die.
type world struct {
	t       require.TestingT
	api     client.Client
	now     time.Time
	history []snapshot // what the cache may show, oldest first
	seen    int        // what it shows now
	writes  int
	cut     *cut
	// overtake is done once, after a controller has decided and before it makes a run.
	overtake func()
	// told are the times that were said to be missed, as intervals; made how often each time had a run.
	told [][2]time.Time
	made map[time.Time]int
}

var key = client.ObjectKey{Namespace: "team", Name: "nightly"}

func newWorld(t require.TestingT, now time.Time, s v1alpha1.Schedule) *world {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	agent := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "agent-uid", Generation: 1, CreationTimestamp: metav1.NewTime(now)},
		Spec: v1alpha1.AgentSpec{
			Mode: v1alpha1.AgentModeScheduled, Goal: "Look at what changed.", Schedule: &s,
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}},
		},
	}
	w := &world{t: t, now: now, made: map[time.Time]int{}}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(agent).WithStatusSubresource(agent, &v1alpha1.AgentRun{}).Build()
	w.changed()
	w.catchUp(0)
	return w
}

// changed notes what the API server has now, for caches to come by later.
func (w *world) changed() {
	var s snapshot
	require.NoError(w.t, w.api.Get(context.Background(), key, &s.agent))
	var runs v1alpha1.AgentRunList
	require.NoError(w.t, w.api.List(context.Background(), &runs))
	s.runs = runs.Items
	w.history = append(w.history, s)
}

// catchUp moves the cache on, to so many changes behind at most; it never goes back.
func (w *world) catchUp(behind int) { w.seen = max(w.seen, len(w.history)-1-behind) }

func (w *world) agent() *v1alpha1.Agent {
	var a v1alpha1.Agent
	require.NoError(w.t, w.api.Get(context.Background(), key, &a))
	return &a
}

func (w *world) runs() []v1alpha1.AgentRun { return w.history[len(w.history)-1].runs }

func (w *world) edit(change func(*v1alpha1.Agent)) {
	a := w.agent()
	change(a)
	a.Generation++
	require.NoError(w.t, w.api.Update(context.Background(), a))
	w.changed()
}

// end ends a run.
func (w *world) end(name string, phase v1alpha1.Phase) {
	var run v1alpha1.AgentRun
	require.NoError(w.t, w.api.Get(context.Background(), client.ObjectKey{Namespace: key.Namespace, Name: name}, &run))
	run.Status.Phase, run.Status.CompletionTime, run.Status.RecordedAt = phase, ptr.To(metav1.NewMicroTime(w.now)), ptr.To(metav1.NewMicroTime(w.now))
	require.NoError(w.t, w.api.Status().Update(context.Background(), &run))
	w.changed()
}

// retain is retention, which sees what the cache shows.
func (w *world) retain() {
	s := w.history[w.seen]
	gone := retention.Surplus(s.agent.DeepCopy(), s.runs)
	for _, run := range s.runs {
		if at, ever := retention.Expiry(&run); ever && !at.After(w.now) && retention.Noted(&run, &s.agent) {
			gone = append(gone, run)
		}
	}
	for i := range gone {
		require.NoError(w.t, client.IgnoreNotFound(w.api.Delete(context.Background(), &gone[i])))
	}
	w.changed()
}

// look lets a controller look once; it dies at the cut, if there is one.
func (w *world) look(at *cut) (ctrl.Result, error) {
	w.writes, w.cut = 0, at
	r := &schedule.Reconciler{Client: cached{w.api, w}, Live: w.api, Events: w, Now: func() time.Time { return w.now }}
	return r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
}

// cached is a controller's client: it reads what the cache shows, and its writes may be its last.
type cached struct {
	client.Client
	w *world
}

func (c cached) Get(_ context.Context, k client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	agent, ok := into.(*v1alpha1.Agent)
	if !ok || k != key {
		return fmt.Errorf("not expected of the cache: %T %s", into, k)
	}
	c.w.history[c.w.seen].agent.DeepCopyInto(agent)
	return nil
}

func (c cached) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	runs, ok := into.(*v1alpha1.AgentRunList)
	if !ok {
		return fmt.Errorf("not expected of the cache: %T", into)
	}
	for _, run := range c.w.history[c.w.seen].runs {
		runs.Items = append(runs.Items, *run.DeepCopy())
	}
	return nil
}

func (c cached) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	if overtake := c.w.overtake; overtake != nil {
		c.w.overtake = nil
		overtake()
	}
	return c.w.write(func() error {
		o.SetUID(types.UID("uid-of-" + o.GetName()))
		living := 0
		for _, run := range c.w.runs() {
			if !run.Ended() {
				living++
			}
		}
		if err := c.w.api.Create(ctx, o); err != nil {
			return err
		}
		run := o.(*v1alpha1.AgentRun)
		at, _ := schedule.TimeOf(run)
		c.w.made[at]++
		require.Equal(c.w.t, 1, c.w.made[at], "%s had a run already", at)
		if c.w.agent().Spec.Schedule.ConcurrencyPolicy == v1alpha1.ConcurrencyForbid {
			require.Zero(c.w.t, living, "Forbid, and another run lives")
		}
		return nil
	})
}

func (c cached) Status() client.SubResourceWriter { return statusWriter{c.Client.Status(), c.w} }

type statusWriter struct {
	client.SubResourceWriter
	w *world
}

func (s statusWriter) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	before := s.w.agent().Status
	return s.w.write(func() error {
		err := s.SubResourceWriter.Update(ctx, o, opts...)
		if err == nil && s.w.dies() { // no Event will tell it; the status does
			after := o.(*v1alpha1.Agent).Status
			if m := after.LastMissedTime; m != nil && !m.Equal(before.LastMissedTime) {
				s.w.told = append(s.w.told, [2]time.Time{{}, m.Time})
			}
		}
		return err
	})
}

func (w *world) dies() bool { return w.cut != nil && w.cut.write == w.writes }

// write carries one write out, unless the controller dies at it.
func (w *world) write(do func() error) error {
	w.writes++
	if w.cut != nil && (w.writes > w.cut.write || w.writes == w.cut.write && !w.cut.after) {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	w.changed()
	if w.dies() {
		return errKilled
	}
	return nil
}

var missedWords = regexp.MustCompile(`(\d{4}-\S+Z)(?: to (\d{4}-\S+Z))? ha`)

// Eventf is the recorder: what was missed is read off the words that a person reads.
func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	if reason != "Missed" {
		return
	}
	words := fmt.Sprintf(note, args...)
	m := missedWords.FindStringSubmatch(words)
	require.NotNil(w.t, m, words)
	first, err := time.Parse(time.RFC3339, m[1])
	require.NoError(w.t, err)
	last := first
	if strings.Contains(words, " times from ") {
		last, err = time.Parse(time.RFC3339, m[2])
		require.NoError(w.t, err)
	}
	w.told = append(w.told, [2]time.Time{first, last})
}

func (w *world) said(at time.Time) bool {
	for _, i := range w.told {
		if !at.Before(i[0]) && !at.After(i[1]) {
			return true
		}
	}
	return false
}
