package deliver

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// large is a run with much of everything, alive.
func large(i int) *hearthv1.AgentRun {
	long := strings.Repeat("x", 4096)
	run := testRun(fmt.Sprintf("run-%d", i), types.UID(fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i)))
	run.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: long}
	run.Spec = hearthv1.AgentRunSpec{
		AgentRef: hearthv1.AgentRef{Name: "reviewer", UID: "agent-uid", Generation: 1}, Goal: strings.Repeat("g", 8192), Parameters: map[string]string{"change": long},
		Runtime:               &hearthv1.AgentRuntime{Command: []string{"goose", "acp"}},
		Template:              &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1", Env: []corev1.EnvVar{{Name: "A", Value: long}}}}}},
		ActiveDeadlineSeconds: ptr.To[int64](1800), StartingDeadlineSeconds: ptr.To[int64](3600), TTLSecondsAfterFinished: ptr.To[int64](604800),
	}
	at := metav1.NewMicroTime(time.Unix(1, 0))
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "LimitReached", Message: long}
	}
	run.Status = hearthv1.AgentRunStatus{
		Phase: hearthv1.PhaseFailed, PodName: run.Name, PodUID: "pod-uid", StartTime: &at, RecordedAt: &at, DurationSeconds: ptr.To[int64](1),
		Reason: "LimitReached", Message: long, TerminationData: long, Output: &hearthv1.Output{MediaType: "text/plain", Value: strings.Repeat("o", 16<<10)},
		Conditions: []metav1.Condition{condition(hearthv1.AgentRunConditionSucceeded), condition(hearthv1.AgentRunConditionACPReady)},
	}
	return run
}

func finished(run *hearthv1.AgentRun) *hearthv1.AgentRun {
	run.Status.CompletionTime = ptr.To(metav1.NewMicroTime(time.Unix(2, 0)))
	return run
}

func cached(t *testing.T, run *hearthv1.AgentRun) *hearthv1.AgentRun {
	t.Helper()
	out, err := Transform(run.DeepCopy())
	require.NoError(t, err)
	return out.(*hearthv1.AgentRun) //nolint:forcetypeassert // fails loudly
}

// A record is kept without its content, of a delivered run and of a one-shot run; what is alive, and a standing run, is kept whole.
func TestTheCacheKeepsNoResults(t *testing.T) {
	oneShot := large(1)
	delivered := large(2)
	delivered.Spec.Delivery = &hearthv1.DeliverySpec{Port: 4100}
	for name, run := range map[string]*hearthv1.AgentRun{"one-shot": oneShot, "delivered": delivered} {
		run.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		whole := run.DeepCopy()
		whole.ManagedFields = nil
		assert.Equal(t, whole, cached(t, run), name)
		kept := cached(t, finished(run))
		assert.Equal(t, hearthv1.AgentRunSpec{AgentRef: run.Spec.AgentRef, Delivery: run.Spec.Delivery, ActiveDeadlineSeconds: run.Spec.ActiveDeadlineSeconds,
			StartingDeadlineSeconds: run.Spec.StartingDeadlineSeconds, TTLSecondsAfterFinished: run.Spec.TTLSecondsAfterFinished}, kept.Spec, name)
		assert.Equal(t, []any{run.Status.Reason, run.Status.PodUID, run.Status.CompletionTime}, []any{kept.Status.Reason, kept.Status.PodUID, kept.Status.CompletionTime}, name)
		assert.Nil(t, kept.Status.Output, name)
		text, err := json.Marshal(kept)
		require.NoError(t, err)
		assert.Less(t, len(text), 2048, name)
	}
	standing := finished(large(3))
	standing.Annotations = map[string]string{hearthv1.AnnotationGeneration: "1"}
	assert.Equal(t, standing, cached(t, standing), "the next standing run is told of by how this one ended")
	other, err := Transform("a tombstone")
	require.NoError(t, err)
	assert.Equal(t, "a tombstone", other)
}

// maxFinishedBytes bounds what one finished run costs in the cache.
const maxFinishedBytes = 3 << 10

// R46: ten thousand finished runs are a few tens of megabytes.
func TestAFinishedRunCostsLittleMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector's own memory would be measured")
	}
	const n = 2000 // enough for what the test itself leaves not to count
	kept := make([]*hearthv1.AgentRun, n)
	before := heap()
	for i := range kept {
		text, err := json.Marshal(finished(large(i)))
		require.NoError(t, err)
		var run hearthv1.AgentRun // as the watch decodes it: each string is its own
		require.NoError(t, json.Unmarshal(text, &run))
		_, err = Transform(&run)
		require.NoError(t, err)
		kept[i] = &run
	}
	each := int64(heap()-before) / n //nolint:gosec // far from its bounds
	t.Logf("%d bytes each", each)
	assert.Less(t, each, int64(maxFinishedBytes))
	runtime.KeepAlive(kept)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
