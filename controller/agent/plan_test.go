package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func reviewer() *v1alpha1.Agent {
	return &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer", UID: "agent-uid", Generation: 4},
		Spec: v1alpha1.AgentSpec{
			Mode: v1alpha1.AgentModeService, Goal: "You review.", GoalTemplate: "Review ${change}.",
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &v1alpha1.DeliveryRuntime{Port: 4100}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i:1"}}}},
		},
	}
}

// aRun is a standing run of the Agent, made that long ago.
func aRun(name string, age time.Duration, changes ...func(*v1alpha1.AgentRun)) v1alpha1.AgentRun {
	r := standing(reviewer(), name)
	r.CreationTimestamp = metav1.NewTime(now.Add(-age))
	for _, change := range changes {
		change(r)
	}
	return *r
}

func ended(ago time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(now.Add(-ago)))
		r.Status.RecordedAt = r.Status.CompletionTime
		r.Status.Reason, r.Status.Message = v1alpha1.ReasonPodFailed, "Evicted"
	}
}

// nodeAhead is what the clock of the ended run's node had in advance of the controller's.
func nodeAhead(d time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(r.Status.RecordedAt.Add(d)))
	}
}

func listening(since time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionACPReady, Status: metav1.ConditionTrue,
			Reason: v1alpha1.ReasonListening, LastTransitionTime: metav1.NewTime(now.Add(-since))})
	}
}

func deleted(r *v1alpha1.AgentRun) { r.DeletionTimestamp = &metav1.Time{Time: now} }

func outdated(r *v1alpha1.AgentRun) { r.Spec.Template.Spec.Containers[0].Image = "i:0" }

func withoutSecret(r *v1alpha1.AgentRun) {
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.AgentRunConditionCredentialReady, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonCredentialLost})
}

func cordoned(ago time.Duration) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Status.CordonedAt = ptr.To(metav1.NewMicroTime(now.Add(-ago))) }
}

func replicas(n int32) func(*v1alpha1.Agent) {
	return func(a *v1alpha1.Agent) { a.Spec.Replicas = &n }
}

func contradicting(a *v1alpha1.Agent) { a.Spec.Template.Spec.HostPID = true }

// free are names as if there were no others.
var free = []string{"n-1", "n-2", "n-3", "n-4"}

// observed is what is known of the Agent with those runs. The Link of each is verified and it has nothing, where loads do not say otherwise.
func observed(agent *v1alpha1.Agent, loads map[string]Load, runs ...v1alpha1.AgentRun) Observed {
	o := Observed{Agent: agent, Runs: runs, Now: now, Free: free, Loads: map[string]Load{}}
	for _, r := range runs {
		o.Loads[r.Name] = Load{Link: LinkVerified, Empty: true}
		if l, ok := loads[r.Name]; ok {
			o.Loads[r.Name] = l
		}
	}
	return o
}

func names(runs []v1alpha1.AgentRun) []string {
	var all []string
	for _, r := range runs {
		all = append(all, r.Name)
	}
	return all
}

// R33, R29; SPEC.md, Lifecycle, Standing runs.
func TestDecideBringsTheStandingRunsToWhatTheAgentSays(t *testing.T) {
	ok := listening(time.Minute)
	busy := Load{Link: LinkVerified, Running: 1}
	silent := Load{Link: LinkFailed, Message: "connection refused"}
	type runs = []v1alpha1.AgentRun
	for _, c := range []struct {
		name     string
		agent    []func(*v1alpha1.Agent)
		runs     runs
		loads    map[string]Load
		create   int
		cordon   []string
		uncordon []string
		deletes  []string
		after    time.Duration
	}{
		{name: "none yet", create: 1},
		{name: "three wanted, one there", agent: on(replicas(3)), runs: runs{aRun("r-1", time.Minute)}, create: 2},
		{name: "many wanted: as many as there are names for this pass", agent: on(replicas(50)), create: 4},
		{name: "as many as wanted", agent: on(replicas(2)), runs: runs{aRun("r-1", time.Minute), aRun("r-2", time.Minute)}},
		{name: "one is being deleted", runs: runs{aRun("r-1", time.Minute, deleted)}, create: 1},
		{name: "what contradicts the contract makes nothing", agent: on(contradicting)},
		{name: "and takes nothing away", agent: on(contradicting), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, deleted)}},
		{name: "nor for a lost Secret", agent: on(contradicting), runs: runs{aRun("r-1", time.Hour, ok, withoutSecret)}},
		{name: "but it is scaled", agent: on(contradicting), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Minute, ok)}, cordon: []string{"r-2"}},
		{name: "the Agent is being deleted", agent: on(func(a *v1alpha1.Agent) { a.DeletionTimestamp = &metav1.Time{Time: now} }), runs: runs{aRun("r-1", time.Hour, outdated)}},

		{name: "the template changed: a new one first", runs: runs{aRun("r-1", time.Hour, outdated, ok)}, create: 1},
		{name: "of three, one at a time", agent: on(replicas(3)), runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Hour, outdated, ok), aRun("r-3", time.Hour, outdated, ok)}, create: 1},
		{name: "the new one does not listen yet", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute)}},
		{name: "nor does the old one any more: it stays, the new one may be broken", runs: runs{aRun("r-1", time.Hour, outdated), aRun("r-2", time.Minute)}},
		{name: "the new one's delivery port cannot be talked to", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-2": silent}},
		{name: "the new one's Link is not open yet", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-2": {}}},
		{name: "the new one is ready: the old one takes no more", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute, ok)}, cordon: []string{"r-1"}},
		{name: "of three, the least busy old one", agent: on(replicas(3)), runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Hour, outdated, ok), aRun("r-3", time.Hour, outdated, ok), aRun("r-4", time.Minute, ok)},
			loads: map[string]Load{"r-1": busy, "r-3": {Link: LinkVerified, Reserved: 2}}, cordon: []string{"r-2"}},
		{name: "the next one while the last one drains", agent: on(replicas(2)), runs: runs{aRun("r-1", time.Hour, outdated, ok, cordoned(0)), aRun("r-2", time.Hour, outdated, ok), aRun("r-3", time.Minute, ok)},
			loads: map[string]Load{"r-1": busy}, create: 1, after: 30 * time.Minute},
		{name: "another backend", agent: on(func(a *v1alpha1.Agent) { a.Spec.Backend = v1alpha1.BackendSandbox }), runs: runs{aRun("r-1", time.Hour, ok)}, create: 1},
		{name: "a backend that is said and was not before", agent: on(func(a *v1alpha1.Agent) { a.Spec.Backend = v1alpha1.BackendPod }), runs: runs{aRun("r-1", time.Hour, ok)}},
		{name: "concurrency is told to the harness at its start", agent: on(func(a *v1alpha1.Agent) { a.Spec.Runtime.Delivery.Concurrency = 2 }), runs: runs{aRun("r-1", time.Hour, ok)}, create: 1},
		{name: "what only delivered runs use replaces nothing", agent: on(func(a *v1alpha1.Agent) {
			a.Spec.GoalTemplate, a.Spec.ActiveDeadlineSeconds, a.Spec.StartingDeadlineSeconds, a.Spec.BackoffLimit = "Look at ${it}.", 1, 2, 3
			a.Spec.Budget, a.Spec.TTLSecondsAfterFinished, a.Spec.DrainTimeoutSeconds = &v1alpha1.Budget{Tokens: ptr.To[int64](1)}, ptr.To[int64](1), ptr.To[int64](1)
		}), runs: runs{aRun("r-1", time.Hour, ok)}},
		{name: "changed again while the new one is not ready: it goes, the old one stays", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute, outdated)}, cordon: []string{"r-2"}},
		{name: "then the newest is made", runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Minute, outdated, cordoned(0))}, create: 1, deletes: []string{"r-2"}},
		{name: "changed back while the old one drains: it takes work again", runs: runs{aRun("r-1", time.Hour, ok, cordoned(time.Minute)), aRun("r-2", time.Minute, outdated, ok)}, loads: map[string]Load{"r-1": busy}, uncordon: []string{"r-1"}},
		{name: "changed back, and what drained is not ready", runs: runs{aRun("r-1", time.Hour, cordoned(time.Minute)), aRun("r-2", time.Minute, outdated, ok)}, create: 1, deletes: []string{"r-1"}},

		{name: "scaled down: what does not listen first", agent: on(replicas(1)), runs: runs{aRun("r-1", time.Minute), aRun("r-2", time.Hour, ok)}, loads: map[string]Load{"r-2": busy}, cordon: []string{"r-1"}},
		{name: "then what cannot be talked to", agent: on(replicas(1)), runs: runs{aRun("r-1", time.Minute, ok), aRun("r-2", time.Hour, ok)}, loads: map[string]Load{"r-1": busy, "r-2": silent}, cordon: []string{"r-2"}},
		{name: "then the least busy", agent: on(replicas(1)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-2": busy}, cordon: []string{"r-1"}},
		{name: "then the youngest", agent: on(replicas(1)), runs: runs{aRun("r-2", time.Minute, ok), aRun("r-1", time.Hour, ok)}, cordon: []string{"r-2"}},
		{name: "of one second: the higher number", agent: on(replicas(1)), runs: runs{aRun("r-10", time.Minute, ok), aRun("r-9", time.Minute, ok)}, cordon: []string{"r-10"}},
		{name: "scaled to zero", agent: on(replicas(0)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, outdated, ok)}, cordon: []string{"r-2", "r-1"}},
		{name: "scaled up again: the last one that was cordoned", agent: on(replicas(2)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, ok, cordoned(time.Hour)), aRun("r-3", time.Hour, ok, cordoned(0))}, uncordon: []string{"r-3"}, deletes: []string{"r-2"}},
		{name: "by more than were cordoned", agent: on(replicas(3)), runs: runs{aRun("r-1", time.Hour, ok), aRun("r-2", time.Hour, ok, cordoned(time.Minute))}, uncordon: []string{"r-2"}, create: 1},
		{name: "scaled down and changed", agent: on(replicas(1)), runs: runs{aRun("r-1", time.Hour, outdated, ok), aRun("r-2", time.Hour, outdated, ok), aRun("r-3", time.Hour, outdated, ok)}, cordon: []string{"r-3", "r-2"}},

		{name: "its Secret was lost (rows 36, 48): it takes no more, another is made", runs: runs{aRun("r-1", time.Minute, ok, withoutSecret)}, cordon: []string{"r-1"}, create: 1},
		{name: "and is not taken back", runs: runs{aRun("r-1", time.Minute, ok, withoutSecret, cordoned(0))}, loads: map[string]Load{"r-1": busy}, create: 1, after: 30 * time.Minute},

		{name: "cordoned and empty", runs: runs{aRun("r-1", time.Hour, outdated, ok, cordoned(0)), aRun("r-2", time.Minute, ok)}, deletes: []string{"r-1"}},
		{name: "cordoned and not empty", runs: runs{aRun("r-1", time.Hour, outdated, ok, cordoned(10*time.Minute)), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-1": busy}, after: 20 * time.Minute},
		{name: "cordoned and out of time", runs: runs{aRun("r-1", time.Hour, outdated, ok, cordoned(30*time.Minute)), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-1": busy}, deletes: []string{"r-1"}},
		{name: "out of the time that the Agent gives", agent: on(func(a *v1alpha1.Agent) { a.Spec.DrainTimeoutSeconds = ptr.To[int64](60) }),
			runs: runs{aRun("r-1", time.Hour, outdated, ok, cordoned(time.Minute)), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-1": busy}, deletes: []string{"r-1"}},
		{name: "cordoned and silent: unknown is not empty", runs: runs{aRun("r-1", time.Hour, outdated, ok, cordoned(0)), aRun("r-2", time.Minute, ok)}, loads: map[string]Load{"r-1": silent}, after: 30 * time.Minute},
		{name: "cordoned, and it takes no deliveries", runs: runs{aRun("r-1", time.Hour, ok, cordoned(0), func(r *v1alpha1.AgentRun) { r.Spec.Runtime.Delivery = nil }), aRun("r-2", time.Minute, ok)},
			loads: map[string]Load{"r-1": silent}, deletes: []string{"r-1"}},
		{name: "it ended while it drained: not replaced", runs: runs{aRun("r-1", time.Hour, cordoned(0), ended(0)), aRun("r-2", time.Minute, ok)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := reviewer()
			for _, change := range c.agent {
				change(agent)
			}
			before := agent.DeepCopy()
			p := Decide(observed(agent, c.loads, c.runs...))
			assert.Equal(t, before, agent, "what was observed is not touched")
			assert.Equal(t, append([]string(nil), free[:c.create]...), append([]string(nil), p.Create...))
			assert.Equal(t, c.cordon, names(p.Cordon), "cordon")
			assert.Equal(t, c.uncordon, names(p.Uncordon), "uncordon")
			assert.Equal(t, c.deletes, names(p.Delete), "delete")
			assert.Equal(t, c.after, p.After)
			assert.False(t, p.Recast)
		})
	}
}

func on(changes ...func(*v1alpha1.Agent)) []func(*v1alpha1.Agent) { return changes }
