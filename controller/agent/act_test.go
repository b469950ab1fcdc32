package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// loads are by run; who is not in them has nothing.
type loads map[string]Load

func (l loads) Load(_ context.Context, run *v1alpha1.AgentRun) (Load, error) {
	if load, ok := l[run.Name]; ok {
		return load, nil
	}
	return Load{Link: LinkVerified, Empty: true}, nil
}

func (loads) Changes() source.Source { return nil }

// behind is a reconciler whose cache stays as it is now, before the API server with the same objects.
func behind(l loads, agent *v1alpha1.Agent, runs ...v1alpha1.AgentRun) (*Reconciler, *modelAPI) {
	api := &modelAPI{objects: objects{agent: agent.DeepCopy(), runs: map[string]*v1alpha1.AgentRun{}}}
	for i := range runs {
		runs[i].UID, runs[i].ResourceVersion = types.UID(runs[i].Name), api.bump()
		api.runs[runs[i].Name] = runs[i].DeepCopy()
	}
	cache := api.copy()
	at := func(from func() objects) *modelClient {
		return &modelClient{from: from, api: api, before: func() {}, after: func(string, *v1alpha1.AgentRun, *v1alpha1.AgentRun) {}}
	}
	return &Reconciler{Client: at(func() objects { return cache }), Live: at(func() objects { return api.objects }), Loads: l, Events: &events.FakeRecorder{},
		Now: func() time.Time { return now }}, api
}

func (a *modelAPI) cordoned() []string {
	var names []string
	for _, r := range a.sorted() {
		if r.Status.CordonedAt != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

var request = ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "reviewer"}}

// A run that is no longer as it was seen is not touched: each step is one write that loses to who was faster.
func TestEachStepLosesToWhoWasFaster(t *testing.T) {
	run := aRun("reviewer-1", time.Hour, listening(time.Hour), cordoned(time.Hour))
	r, api := behind(nil, reviewer(), run)
	run = *api.runs["reviewer-1"].DeepCopy()
	api.runs["reviewer-1"].Status.CordonedAt, api.runs["reviewer-1"].ResourceVersion = nil, api.bump() // it takes work again

	require.NoError(t, r.end(t.Context(), reviewer(), &run))
	assert.Contains(t, api.runs, "reviewer-1", "not deleted by who saw it cordoned")
	done, err := r.cordon(t.Context(), reviewer(), &run, ptr.To(metav1.NewMicroTime(now)))
	require.NoError(t, err)
	assert.False(t, done)
	assert.Empty(t, api.cordoned())
	done, err = r.create(t.Context(), reviewer(), "reviewer-1")
	require.NoError(t, err)
	assert.False(t, done)

	require.NoError(t, r.end(t.Context(), reviewer(), api.runs["reviewer-1"]))
	assert.Empty(t, api.runs)
}

// What was cordoned a moment ago is cordoned, whatever the cache shows and whoever is the least busy by now.
func TestACacheThatLagsCordonsNothingTwice(t *testing.T) {
	agent := reviewer()
	agent.Spec.Replicas = ptr.To[int32](1)
	l := loads{"reviewer-1": {Link: LinkVerified, Running: 1}}
	r, api := behind(l, agent, aRun("reviewer-1", time.Hour, listening(time.Hour)), aRun("reviewer-2", time.Hour, listening(time.Hour)))
	_, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, []string{"reviewer-2"}, api.cordoned())

	l["reviewer-1"], l["reviewer-2"] = Load{Link: LinkVerified, Empty: true}, Load{Link: LinkVerified, Running: 1}
	_, err = r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, []string{"reviewer-2"}, api.cordoned())
}

// An Agent of which the cache shows an earlier version makes and cordons nothing by it.
func TestAnAgentThatChangedMeanwhileIsLookedAtAgain(t *testing.T) {
	agent := reviewer()
	agent.Spec.Replicas = ptr.To[int32](3)
	r, api := behind(nil, agent, aRun("reviewer-1", time.Hour, listening(time.Hour)))
	api.agent.Spec.Replicas = ptr.To[int32](1)
	api.agent.Generation++
	result, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, lookSoon, result.RequeueAfter)
	assert.Len(t, api.runs, 1)
}

// R23: the lowest free number. A run of somebody else's has its name, too.
func TestAStandingRunGetsTheLowestFreeName(t *testing.T) {
	agent := reviewer()
	agent.Spec.Replicas = ptr.To[int32](4)
	foreign := aRun("reviewer-2", time.Hour)
	foreign.OwnerReferences = nil
	r, api := behind(nil, agent, aRun("reviewer-1", time.Hour), foreign, aRun("reviewer-4", time.Hour))
	_, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	var made []string
	for _, run := range api.sorted() {
		made = append(made, run.Name)
	}
	assert.Equal(t, []string{"reviewer-1", "reviewer-2", "reviewer-3", "reviewer-4", "reviewer-5"}, made)
}

// pruning is an API server whose CRD knows no cordon: it drops it and says that all is well.
type pruning struct{ client.Client }

func (o pruning) Status() client.SubResourceWriter { return pruningStatus{o.Client.Status()} }

type pruningStatus struct{ client.SubResourceWriter }

func (s pruningStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if run, ok := o.(*v1alpha1.AgentRun); ok {
		run.Status.CordonedAt = nil
	}
	return s.SubResourceWriter.Update(ctx, o, opts...)
}

// A controller that was updated before its CRDs says so, on the Agent and in its log, and believes in no cordon that is not stored.
func TestACordonThatAnOlderCRDDropsIsSaid(t *testing.T) {
	agent := reviewer()
	agent.Spec.Replicas = ptr.To[int32](1)
	r, api := behind(nil, agent, aRun("reviewer-1", time.Hour, listening(time.Hour)), aRun("reviewer-2", time.Hour, listening(time.Hour)))
	said := events.NewFakeRecorder(4)
	r.Client, r.Events = pruning{r.Client}, said
	_, err := r.Reconcile(t.Context(), request)
	require.ErrorContains(t, err, "status.cordonedAt")
	for len(said.Events) > 0 {
		assert.NotContains(t, <-said.Events, "Cordoned", "nothing is said to be cordoned")
	}
	assert.Len(t, api.runs, 2)
}
