package deliver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// SPEC.md, Names: a delivered run is what Kubernetes allows, and nothing is named or labelled after it. Two whose first 63 characters
// are the same, of 253 characters and dots, are carried out by one harness side by side, and each has its own result.
func TestRunsOfTheLongestNamesThatBeginAlikeGetTheirOwnResults(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{Concurrency: 2, Queue: 2})
	w.controller()
	first63 := "1.review." + strings.Repeat("a", 54)
	long := func(last string) string {
		name := first63 + strings.Repeat("."+strings.Repeat("b", 31), 5)
		return name + "." + strings.Repeat("c", 252-len(name)-len(last)) + last
	}
	names := []string{long("x"), long("y"), first63}
	var runs []*hearthv1.AgentRun
	for i, name := range names {
		runs = append(runs, w.deliver(name, fmt.Sprintf("%s%d", harness.HoldPrefix, i)))
	}
	require.Equal(t, []int{253, 253, 63}, []int{len(runs[0].Name), len(runs[1].Name), len(runs[2].Name)})
	for _, run := range []int{1, 0, 2} { // not in the order in which they came
		x.harness.Runner.Release(string(runs[run].UID))
	}
	for i, run := range runs {
		got := w.ended(run)
		require.NotNil(t, got.Status.Output, reason(got))
		assert.Equal(t, harness.Output(run.Spec.Goal), got.Status.Output.Value, "result %d", i)
		assert.Equal(t, x.pod.Name, got.Status.PodName)
		assert.Equal(t, 1, x.harness.Runner.Started()[key(run, 1)])
		assert.Empty(t, got.Labels)
	}
	var pods corev1.PodList
	require.NoError(t, w.kube.List(t.Context(), &pods, kube.InNamespace(w.ns)))
	assert.Len(t, pods.Items, 1, "no Pod is made for a delivered run")
}

// The same for what a controller looks up by name: of two such runs one is deleted while it runs, and only that one is cancelled.
func TestDeletingARunEndsNoOtherWhoseNameBeginsAlike(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{Concurrency: 2, Queue: 2})
	w.controller()
	first63 := "a." + strings.Repeat("a", 61)
	gone, stays := w.deliver(first63+".gone", harness.HoldPrefix+"gone"), w.deliver(first63+".stays", harness.HoldPrefix+"stays")
	for _, run := range []*hearthv1.AgentRun{gone, stays} {
		w.until(run, "running", func(r *hearthv1.AgentRun) bool { return r.Status.Phase == hearthv1.PhaseRunning })
	}
	require.NoError(t, w.kube.Delete(t.Context(), gone))
	next := w.deliver(first63, goal) // takes the slot that comes free when the deleted one is cancelled
	assert.Equal(t, harness.Output(goal), w.ended(next).Status.Output.Value)
	now, err := w.get(stays)
	require.NoError(t, err)
	assert.Equal(t, hearthv1.PhaseRunning, now.Status.Phase)
	x.harness.Runner.Release(string(stays.UID))
	assert.Equal(t, harness.Output(stays.Spec.Goal), w.ended(stays).Status.Output.Value)
}
