package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver/room"
)

// SPEC.md, Names: two runs of 63 characters of which the first 62 are the same, of the Agent of the longest name, through the real API
// server: each has a Pod, a Service and a Secret of its own, and a Service that is there already stops only the run that it is named like.
func TestRunsOfTheLongestNamesHavePodServiceAndSecretOfTheirOwn(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	first62 := strings.Repeat("a", 62)
	names := []string{first62 + "x", first62 + "y"}
	theirs := first62 + "z"
	require.NoError(t, w.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: theirs}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	require.NoError(t, w.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: names[0]}}), "a Secret that is named like a run is not in its way")
	w.start()
	agent := strings.Repeat("a", v1alpha1.MaxAgentName)
	for _, name := range append(names, theirs) {
		w.OneShot(name, func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = agent })
	}
	for _, name := range names {
		r := w.Run(name, room.HasPod)
		var p corev1.Pod
		require.NoError(t, w.Get(ctx, w.Key(name), &p))
		var service corev1.Service
		require.NoError(t, w.Get(ctx, w.Key(name), &service))
		var secret corev1.Secret
		require.NoError(t, w.Get(ctx, w.Key(v1alpha1.RunSecretName(name, r.UID)), &secret))
		for _, o := range []metav1.Object{&p, &service, &secret} {
			assert.True(t, metav1.IsControlledBy(o, r), o.GetName())
			assert.Equal(t, map[string]string{v1alpha1.LabelRun: name, v1alpha1.LabelAgent: agent}, o.GetLabels())
		}
		assert.Equal(t, map[string]string{v1alpha1.LabelRun: name}, service.Spec.Selector)
	}
	w.Run(theirs, room.Says("Service "+theirs+" exists and is not this run's: delete it"))

	w.Kubelet(names[0], room.Listens)
	w.Run(names[0], isRunning)
	w.Kubelet(names[0], ends(2, leaves("stopped at its limit")))
	w.Run(names[0], (*v1alpha1.AgentRun).Ended)
	assert.False(t, w.Run(names[1], room.HasPod).Ended())
}
