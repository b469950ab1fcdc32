package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// A simulated world: an API server, Pods that become ready, fail and work, and two controllers at once, the real reconciler in each,
// with caches of their own that lag. Between a controller's live look and its write the other one may do anything.

const drain = 60 * time.Second

// truth is what a standing run really holds.
type truth struct {
	work   int
	silent bool // nobody can talk to its delivery port
}

// modelController is a controller process: its reconciler, its cache, and an assignment that it has begun.
type modelController struct {
	*Reconciler
	cache  objects
	target types.UID // that the assignment under way has chosen; "" when there is none
	failed error
}

type model struct {
	t    *rapid.T
	api  *modelAPI
	now  time.Time
	held map[types.UID]*truth
	// broken images never become ready.
	broken      map[string]bool
	controllers []*modelController
	// nested: a pass is under way in the middle of another one; crossed: there was one in the middle of the present one.
	nested, crossed bool
}

func newModel(t *rapid.T) *model {
	agent := reviewer()
	agent.ResourceVersion, agent.Generation = "1", 1
	agent.Spec.Replicas, agent.Spec.DrainTimeoutSeconds = ptr.To[int32](2), ptr.To(int64(drain/time.Second))
	m := &model{t: t, now: now, held: map[types.UID]*truth{}, broken: map[string]bool{"i:3": true},
		api: &modelAPI{objects: objects{agent: agent, runs: map[string]*v1alpha1.AgentRun{}}, version: 1}}
	for range 2 {
		c := &modelController{cache: m.api.copy()}
		m.start(c)
		m.controllers = append(m.controllers, c)
	}
	return m
}

// start is a new process in the controller's place: all it remembered is gone.
func (m *model) start(c *modelController) {
	c.cache, c.target = m.api.copy(), ""
	made := func(from func() objects) *modelClient {
		return &modelClient{from: from, api: m.api, before: m.interleave, after: func(verb string, was, is *v1alpha1.AgentRun) { m.check(c, verb, was, is) }}
	}
	c.Reconciler = &Reconciler{Client: made(func() objects { return c.cache }), Live: made(func() objects { return m.api.objects }),
		Loads: modelLoads{m, c}, Events: &events.FakeRecorder{}, Now: func() time.Time { return m.now }}
}

// modelLoads is what a controller's Links know: the truth, where they can ask.
type modelLoads struct {
	m *model
	c *modelController
}

func (l modelLoads) Load(_ context.Context, run *v1alpha1.AgentRun) (Load, error) {
	h := l.m.held[run.UID]
	switch {
	case h == nil:
		return Load{}, nil
	case h.silent:
		return Load{Link: LinkFailed}, nil
	default:
		return Load{Link: LinkVerified, Running: int32(h.work), Empty: h.work == 0 && l.c.target == ""}, nil //nolint:gosec // a handful
	}
}

func (modelLoads) Changes() source.Source { return nil }

// interleave lets the other controller do a whole pass before a write of the first.
func (m *model) interleave() {
	if m.nested || rapid.IntRange(0, 3).Draw(m.t, "interleave") > 0 {
		return
	}
	m.nested, m.crossed = true, true
	defer func() { m.nested = false }()
	m.reconcile(rapid.SampledFrom(m.controllers).Draw(m.t, "other"))
}

func (m *model) reconcile(c *modelController) time.Duration {
	if !m.nested {
		m.crossed = false
	}
	result, err := c.Reconcile(m.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m.api.agent)})
	require.NoError(m.t, err)
	return result.RequeueAfter
}

func (m *model) want() int { return int(*m.api.agent.Spec.Replicas) }

func takesWork(r *v1alpha1.AgentRun) bool { return !r.Ended() && r.Status.CordonedAt == nil }

func (m *model) ready(r *v1alpha1.AgentRun) bool {
	c := acpReady(r)
	return takesWork(r) && c != nil && c.Status == metav1.ConditionTrue && !m.held[r.UID].silent
}

func (m *model) count(is func(*v1alpha1.AgentRun) bool) int {
	n := 0
	for _, r := range m.api.runs {
		if is(r) {
			n++
		}
	}
	return n
}

// check holds each write of a controller against what is promised.
func (m *model) check(c *modelController, verb string, was, is *v1alpha1.AgentRun) {
	switch {
	case verb == "create":
		m.held[is.UID] = &truth{}
		most := m.want() + surge
		if m.crossed && !m.nested {
			most *= 2 // two controllers at once, which a lease prevents, may each make what is missing; what is too many is cordoned then
		}
		require.LessOrEqual(m.t, m.count(takesWork), most, "too many take work")
	case verb == "delete" && !was.Ended():
		h := m.held[was.UID]
		require.NotNil(m.t, was.Status.CordonedAt, "%s was deleted and not cordoned", was.Name)
		over := !m.now.Before(was.Status.CordonedAt.Add(drain))
		require.True(m.t, over || h.work == 0 && !h.silent, "%s was deleted with something left, before its time was over", was.Name)
		require.True(m.t, over || c.target != was.UID, "%s was deleted while work was being reserved for it", was.Name)
	case verb == "update" && was.Status.CordonedAt == nil && is.Status.CordonedAt != nil && !credentialLost(was):
		was := was.DeepCopy()
		if m.ready(was) {
			require.GreaterOrEqual(m.t, m.count(m.ready), m.want(), "cordoning %s left too few that can take work", was.Name)
		}
	case verb == "update" && was.Status.CordonedAt != nil && is.Status.CordonedAt != nil:
		require.Equal(m.t, was.Status.CordonedAt, is.Status.CordonedAt, "a cordon is written once")
	}
}

// touch changes a run's status, as the run controller does.
func (m *model) touch(r *v1alpha1.AgentRun, change func(*v1alpha1.AgentRunStatus)) {
	change(&r.Status)
	r.ResourceVersion = m.api.bump()
}

func (m *model) become(r *v1alpha1.AgentRun, status metav1.ConditionStatus) {
	m.touch(r, func(s *v1alpha1.AgentRunStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionACPReady, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(m.now)})
	})
}

func (m *model) respec(change func(*v1alpha1.AgentSpec)) {
	change(&m.api.agent.Spec)
	m.api.agent.Generation++
	m.api.agent.ResourceVersion = m.api.bump()
}

// some run for which ok holds, or the step does nothing.
func (m *model) some(ok func(*v1alpha1.AgentRun) bool) *v1alpha1.AgentRun {
	var fit []*v1alpha1.AgentRun
	for _, r := range m.api.sorted() {
		if ok(r) {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		m.t.Skip("no such run")
	}
	return rapid.SampledFrom(fit).Draw(m.t, "run")
}

func alive(r *v1alpha1.AgentRun) bool { return !r.Ended() }

// assign begins an assignment from the controller's cache, and ends one that was begun: what was reserved arrives, cordoned or not.
func (m *model) assign(c *modelController) {
	if c.target != "" {
		if h := m.held[c.target]; h != nil {
			h.work++
		}
		c.target = ""
		return
	}
	for _, r := range c.cache.sorted() {
		if h := m.held[r.UID]; m.ready(r) && h.work < 3 && m.api.runs[r.Name] != nil && m.api.runs[r.Name].UID == r.UID {
			c.target = r.UID
			return
		}
	}
	m.t.Skip("nobody has room")
}

func (m *model) steps() map[string]func(*rapid.T) {
	controller := func() *modelController { return rapid.SampledFrom(m.controllers).Draw(m.t, "controller") }
	reconcile := func(*rapid.T) { m.reconcile(controller()) }
	sync := func(*rapid.T) { controller().cache = m.api.copy() }
	pass := func(*rapid.T) { // what usually happens: the cache catches up, and a pass follows
		c := controller()
		c.cache = m.api.copy()
		m.reconcile(c)
	}
	allReady := func(*rapid.T) {
		for _, r := range m.api.sorted() {
			if alive(r) && !m.broken[image(r)] {
				m.become(r, metav1.ConditionTrue)
			}
		}
	}
	return map[string]func(*rapid.T){
		"pass": pass, "another pass": pass, "one more pass": pass, "and a pass": pass,
		"all ready": allReady, "all ready again": allReady,
		"reconcile": reconcile, "reconcile again": reconcile,
		"cache":   sync,
		"restart": func(*rapid.T) { m.start(controller()) },
		"time": func(*rapid.T) {
			m.now = m.now.Add(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, drain}).Draw(m.t, "time"))
		},
		"ready": func(*rapid.T) {
			r := m.some(func(r *v1alpha1.AgentRun) bool { return alive(r) && !m.broken[image(r)] })
			m.become(r, metav1.ConditionTrue)
		},
		"not ready": func(*rapid.T) { m.become(m.some(alive), metav1.ConditionFalse) },
		"silent": func(*rapid.T) {
			h := m.held[m.some(alive).UID]
			h.silent = !h.silent
		},
		"end": func(*rapid.T) {
			m.touch(m.some(alive), func(s *v1alpha1.AgentRunStatus) {
				s.CompletionTime, s.RecordedAt = ptr.To(metav1.NewMicroTime(m.now)), ptr.To(metav1.NewMicroTime(m.now))
			})
		},
		"lose the secret": func(*rapid.T) { m.touch(m.some(alive), func(s *v1alpha1.AgentRunStatus) { lose(s) }) },
		"assign":          func(*rapid.T) { m.assign(controller()) },
		"assign again":    func(*rapid.T) { m.assign(controller()) },
		"work ends": func(*rapid.T) {
			if h := m.held[m.some(alive).UID]; h.work > 0 {
				h.work--
			}
		},
		"template": func(*rapid.T) {
			m.respec(func(s *v1alpha1.AgentSpec) {
				s.Template.Spec.Containers[0].Image = fmt.Sprintf("i:%d", rapid.IntRange(1, 3).Draw(m.t, "image"))
			})
		},
		"scale": func(*rapid.T) {
			m.respec(func(s *v1alpha1.AgentSpec) { s.Replicas = ptr.To(rapid.Int32Range(0, 3).Draw(m.t, "replicas")) })
		},
	}
}

func image(r *v1alpha1.AgentRun) string { return r.Spec.Template.Spec.Containers[0].Image }

func lose(s *v1alpha1.AgentRunStatus) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionCredentialReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialLost})
}

// settle lets everything become well: one controller, no more changes, all work ends. Then there are exactly the runs that the Agent
// wants, all of its template.
func (m *model) settle() {
	m.nested = true // nobody in between
	if m.broken[m.api.agent.Spec.Template.Spec.Containers[0].Image] {
		m.respec(func(s *v1alpha1.AgentSpec) { s.Template.Spec.Containers[0].Image = "i:1" })
	}
	c := m.controllers[0]
	m.start(c)
	for range 100 {
		c.cache = m.api.copy()
		m.reconcile(c)
		m.now = m.now.Add(2 * time.Second)
		for _, r := range m.api.runs {
			if h := m.held[r.UID]; alive(r) {
				h.work, h.silent = 0, false
				if !m.broken[image(r)] {
					m.become(r, metav1.ConditionTrue)
				}
			}
		}
	}
	require.Equal(m.t, m.want(), m.count(alive), "living runs")
	require.Equal(m.t, m.want(), m.count(func(r *v1alpha1.AgentRun) bool { return m.ready(r) && upToDate(r, m.api.agent) }), "of which do what the Agent says")
	require.LessOrEqual(m.t, m.count(func(r *v1alpha1.AgentRun) bool { return r.Ended() }), endedKept)
	require.Equal(m.t, m.want(), int(m.api.agent.Status.ReadyReplicas))
}

// R29, R33; SPEC.md, Lifecycle, Standing runs: whatever happens when, a run is deleted only when nothing is left in it or its time is
// over, never are more made than one beyond those wanted, what can take work is not taken away before there is enough else, and in the end there is
// exactly what the Agent says.
func TestStandingRunsConvergeWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.steps())
		m.settle()
	})
}
