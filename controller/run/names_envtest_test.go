package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

// SPEC.md, Names: two runs of 63 characters of which the first 62 are the same, of the Agent of the longest name, through the real API
// server: each has a Pod, a Service and a Secret of its own, and a Service that is there already stops only the run that it is named like.
func TestRunsOfTheLongestNamesHavePodServiceAndSecretOfTheirOwn(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	first62 := strings.Repeat("a", 62)
	names := []string{first62 + "x", first62 + "y"}
	theirs := first62 + "z"
	require.NoError(t, w.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: theirs}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	require.NoError(t, w.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: names[0]}}), "a Secret that is named like a run is not in its way")
	w.start()
	agent := strings.Repeat("a", v1alpha1.MaxAgentName)
	for _, name := range append(names, theirs) {
		w.oneShot(name, func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = agent })
	}
	for _, name := range names {
		r := w.until(name, "has a Pod", hasPod)
		var p corev1.Pod
		require.NoError(t, w.Get(ctx, w.key(name), &p))
		var service corev1.Service
		require.NoError(t, w.Get(ctx, w.key(name), &service))
		var secret corev1.Secret
		require.NoError(t, w.Get(ctx, w.key(pod.SecretName(name, r.UID)), &secret))
		for _, o := range []metav1.Object{&p, &service, &secret} {
			assert.True(t, metav1.IsControlledBy(o, r), o.GetName())
			assert.Equal(t, map[string]string{v1alpha1.LabelRun: name, v1alpha1.LabelAgent: agent}, o.GetLabels())
		}
		assert.Equal(t, map[string]string{v1alpha1.LabelRun: name}, service.Spec.Selector)
	}
	w.until(theirs, "is blocked", says("Service "+theirs+" exists and is not this run's: delete it"))

	w.kubelet(names[0], runs)
	w.until(names[0], "runs", isRunning)
	w.kubelet(names[0], ends(2, leaves("stopped at its limit")))
	w.until(names[0], "is recorded", (*v1alpha1.AgentRun).Ended)
	assert.False(t, w.until(names[1], "lives", hasPod).Ended())
}
