//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// shortGrace is a grace period in which nothing of weight ends.
	shortGrace = 2
	// loadRuns are made while the template changes, one each loadEvery.
	loadRuns  = 30
	loadEvery = 150 * time.Millisecond
)

// twoReplicas each take one run at a time, and queue none.
func twoReplicas(spec *hearthv1.AgentSpec) {
	spec.Replicas = ptr.To[int32](2)
	spec.Runtime.Delivery.Queue = ptr.To[int32](0)
	spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](shortGrace)
}

// TestRollingUnderLoad: while runs come in, two standing runs are replaced because of a new template. The new ones take work before the
// old ones take none any more, what was under way in those ends there, far beyond the Pod's grace period, and no run is lost or
// started twice (SPEC.md, Lifecycle, Standing runs).
func TestRollingUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "rolling")
	r.agent(reviewer, twoReplicas)
	old := r.listening(reviewer, 2)
	held := r.hold(reviewer, "long-1", "long-2")
	assert.NotEqual(t, held[0].Status.PodName, held[1].Status.PodName, "two replicas share the load")

	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for i := range loadRuns {
			run := r.sparse("load-"+strconv.Itoa(i), reviewer, nil)
			run.Spec.Parameters = map[string]string{"task": tallying(r.tally(run.Name)) + " ;; say: done"}
			err := suite.Client.Create(t.Context(), run)
			for err != nil && strings.Contains(err.Error(), "create the run again") { // the Agent changed while the run was resolved
				err = suite.Client.Create(t.Context(), run)
			}
			if !assert.NoError(t, err) {
				return
			}
			time.Sleep(loadEvery)
		}
	}()
	agent := r.changeTemplate(reviewer)
	<-loaded

	for i := range loadRuns {
		run := r.ended("load-"+strconv.Itoa(i), patiently)
		assert.Equal(t, hearthv1.ReasonCompleted, run.Status.Reason, run.Status.Message)
		assert.EqualValues(t, 1, run.Status.Delivery.Attempt)
		assert.Equal(t, agent.Generation, run.Status.Delivery.TargetGeneration, "the old ones had no room")
	}
	r.newBeforeOld(old)
	for _, run := range held {
		cordoned := r.await(run.Status.PodName, "to be cordoned", patiently, func(run *hearthv1.AgentRun) bool { return run.Status.CordonedAt != nil })
		assert.Nil(t, cordoned.Status.CompletionTime)
		r.outlives(shortGrace*time.Second, cordoned.Status.CordonedAt.Time)
		still := r.await(run.Name, "to be still there", shortly, func(*hearthv1.AgentRun) bool { return true })
		require.Nil(t, still.Status.CompletionTime, "%s: %s", still.Status.Reason, still.Status.Message)
	}
	r.release(held)
	r.waitGone("the old standing runs and their Pods", r.livingOf(old))
	r.listening(reviewer, 2)
	for i := range loadRuns {
		r.once("load-" + strconv.Itoa(i))
	}
}

// TestScaling is kubectl scale: up, the idle one goes first on the way down, to none and back.
func TestScaling(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "scaling")
	r.agent(reviewer, twoReplicas)
	r.listening(reviewer, 2)
	r.scale(3)
	standing := r.listening(reviewer, 3)
	held := r.hold(reviewer, "busy-1", "busy-2")
	busy := []string{held[0].Status.PodName, held[1].Status.PodName}
	idle := slices.DeleteFunc(standing, func(name string) bool { return slices.Contains(busy, name) })
	require.Len(t, idle, 1)
	r.scale(2)
	r.waitGone("the idle standing run", r.livingOf(idle))
	assert.ElementsMatch(t, busy, r.listening(reviewer, 2))

	r.scale(0)
	for _, name := range busy {
		r.await(name, "to be cordoned", patiently, func(run *hearthv1.AgentRun) bool { return run.Status.CordonedAt != nil })
	}
	r.ask("waits", reviewer, "say: hello")
	r.await("waits", "to wait for a standing run", patiently, func(run *hearthv1.AgentRun) bool {
		require.Nil(t, run.Status.CompletionTime, run.Status.Message)
		return succeeded(run).Reason == hearthv1.ReasonWaitingForService
	})
	r.release(held)
	r.waitGone("the last standing runs", r.livingOf(busy))
	r.scale(1)
	assert.Equal(t, hearthv1.ReasonCompleted, r.ended("waits", patiently).Status.Reason)
}

// TestDrainTimeout: what is not done when the time is over is cut off, and recorded.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "drain")
	r.readyAgent(reviewer, func(spec *hearthv1.AgentSpec) {
		spec.DrainTimeoutSeconds = ptr.To[int64](2)
		spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](40) // of which the harness lets work go on for five seconds
	})
	old := r.standing(reviewer).Name
	held := r.hold(reviewer, "cut-off")
	r.changeTemplate(reviewer)
	run := r.ended(held[0].Name, patiently)
	assert.Equal(t, metav1.ConditionFalse, succeeded(run).Status)
	assert.Equal(t, hearthv1.ReasonCancelled, run.Status.Reason, run.Status.Message)
	r.once(held[0].Name)
	r.waitGone("the old standing run", r.livingOf([]string{old}))
	r.waitReady(reviewer)
	r.succeeds("after", reviewer)
}

// tally is the name under which a run's side effects are counted, tallying the directive that has one.
func (r *room) tally(run string) string { return r.namespace + "-" + run }

func tallying(name string) string {
	return "shell: wget -q -O /dev/null --post-data= " + suite.model + "/tallies/" + name
}

// hold makes runs that go on until they are released, one after the other, and returns them running.
func (r *room) hold(agent string, names ...string) []*hearthv1.AgentRun {
	r.t.Helper()
	var held []*hearthv1.AgentRun
	for _, name := range names {
		r.ask(name, agent, tallying(r.tally(name)), "gate: "+r.tally(name), "say: "+name+" is done")
		held = append(held, r.running(name))
	}
	return held
}

// release opens their gates: each is done where it began, with one side effect.
func (r *room) release(held []*hearthv1.AgentRun) {
	r.t.Helper()
	for _, run := range held {
		r.openTheGate(run.Name)
	}
	for _, run := range held {
		ended := r.ended(run.Name, patiently)
		r.isDone(ended, run.Status.PodUID)
		assert.EqualValues(r.t, 1, ended.Status.Delivery.Attempt)
	}
}

// isDone: a run of hold has its record, from the Pod it began in, and one side effect.
func (r *room) isDone(run *hearthv1.AgentRun, pod types.UID) {
	r.t.Helper()
	require.Equal(r.t, metav1.ConditionTrue, succeeded(run).Status, "%s: %s %s", run.Name, succeeded(run).Reason, run.Status.Message)
	require.NotNil(r.t, run.Status.Output)
	assert.Contains(r.t, run.Status.Output.Value, run.Name+" is done")
	assert.Equal(r.t, pod, run.Status.PodUID)
	r.once(run.Name)
}

// openTheGate of a run that is held.
func (r *room) openTheGate(run string) {
	r.t.Helper()
	require.NoError(r.t, suite.OpenGate(r.t.Context(), suite.modelNamespace, r.tally(run)))
}

// once: a run that was given a tally had one side effect.
func (r *room) once(name string) {
	r.t.Helper()
	n, err := suite.Tally(r.t.Context(), suite.modelNamespace, r.tally(name))
	require.NoError(r.t, err)
	assert.Equal(r.t, 1, n, "I1: side effects of %s", name)
}

// changeTemplate in a way that changes nothing but the template.
func (r *room) changeTemplate(name string) *hearthv1.Agent {
	r.t.Helper()
	agent := r.readAgent(name)
	before := agent.DeepCopy()
	env := &agent.Spec.Template.Spec.Containers[0].Env
	*env = append(*env, corev1.EnvVar{Name: "ROLLED", Value: "yes"})
	require.NoError(r.t, suite.Client.Patch(r.t.Context(), agent, client.MergeFrom(before)))
	return agent
}

func (r *room) scale(replicas int) {
	r.t.Helper()
	_, said, err := suite.Kubectl(r.t.Context(), suite.root, "", "scale", "agent", reviewer, "--namespace", r.namespace, "--replicas", strconv.Itoa(replicas))
	require.NoError(r.t, err, said)
}

// listening waits until that many standing runs of an Agent take work and nobody else of it lives, and returns their names.
func (r *room) listening(agent string, count int) []string {
	r.t.Helper()
	var names []string
	r.wait(fmt.Sprintf("%d standing runs of %s", count, agent), patiently, func(ctx context.Context) (bool, string, error) {
		var runs hearthv1.AgentRunList
		if err := suite.Client.List(ctx, &runs, client.InNamespace(r.namespace), client.MatchingLabels{hearthv1.LabelAgent: agent}); err != nil {
			return false, "", err
		}
		names = nil
		alive := 0
		for _, run := range runs.Items {
			if run.Status.CompletionTime == nil {
				alive++
			}
			if acpReady(&run).Status == metav1.ConditionTrue && run.Status.CordonedAt == nil {
				names = append(names, run.Name)
			}
		}
		ready := r.readAgent(agent).Status.ReadyReplicas
		state := fmt.Sprintf("%d alive, %d listen, %d are ready", alive, len(names), ready)
		return alive == count && len(names) == count && int(ready) == count, state, nil
	})
	return names
}

// livingOf are those of some standing runs that are there and have not ended, and their Pods.
func (r *room) livingOf(names []string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var left []string
		for _, name := range names {
			var run hearthv1.AgentRun
			err := suite.Client.Get(ctx, r.key(name), &run)
			if err == nil && run.Status.CompletionTime == nil {
				left = append(left, "AgentRun "+name)
			} else if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			err = suite.Client.Get(ctx, r.key(name), &corev1.Pod{})
			if err == nil {
				left = append(left, "Pod "+name)
			} else if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
		}
		return left, nil
	}
}

// newBeforeOld: when an old standing run was first seen cordoned, as many as are wanted took work: new ones that listened, and old
// ones that were not cordoned.
func (r *room) newBeforeOld(old []string) {
	r.t.Helper()
	r.watched.mu.Lock()
	defer r.watched.mu.Unlock()
	takes := map[string]bool{}
	cordoned := map[string]bool{}
	for _, s := range r.watched.states {
		if s.run.Spec.Delivery != nil {
			continue
		}
		takes[s.run.Name] = !s.deleted && acpReady(s.run).Status == metav1.ConditionTrue && s.run.Status.CordonedAt == nil
		if !slices.Contains(old, s.run.Name) || s.run.Status.CordonedAt == nil || cordoned[s.run.Name] {
			continue
		}
		cordoned[s.run.Name] = true
		able := 0
		for _, is := range takes {
			if is {
				able++
			}
		}
		assert.GreaterOrEqual(r.t, able, len(old), "%s was cordoned while %d others took work", s.run.Name, able)
	}
	assert.Len(r.t, cordoned, len(old))
}

// outlives waits until a time span is over since then.
func (r *room) outlives(span time.Duration, since time.Time) {
	r.t.Helper()
	r.wait("the grace period to be over", shortly, func(context.Context) (bool, string, error) {
		return time.Since(since) > span, "not yet", nil
	})
}
