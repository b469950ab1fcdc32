//go:build faults

package faults_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 22: the Pod's object is taken away while it has a running run and one that waits in it, by hand or with its node (then its phase is
// Failed first, which is what the cluster's collector of Pods does), with the controller up or down. Without a backoffLimit both are lost;
// nothing is started again, and what comes next is done by the Pod that follows.
func TestRow22_ThePodIsForceDeleted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ controllerDown, withNode bool }{
		"controller up": {}, "controller down": {controllerDown: true}, "with its node, controller up": {withNode: true},
		"with its node, controller down": {controllerDown: true, withNode: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			c := w.Controller()
			w.Agent("reviewer", room(1, 1))
			pod := w.Ready("reviewer", 1)[0]
			run := w.Run("reviewer", endless)
			w.Await(run, hearthv1.ReasonRunning)
			waits := w.Run("reviewer", "say: never")
			w.Await(waits, hearthv1.ReasonQueued)
			if tt.controllerDown {
				c.Kill()
			}
			if tt.withNode {
				lostNode(t, w, pod)
			}
			pod.ForceDelete(false)
			if tt.controllerDown {
				w.Controller()
			}
			assert.Equal(t, hearthv1.ReasonTargetLost, w.Ended(run).Status.Reason)
			assert.Equal(t, hearthv1.ReasonTargetLost, w.Ended(waits).Status.Reason, "it may have run: nobody can know")
			works(t, w, "reviewer")
			assert.Len(t, w.EffectsOf(run), 1)
			atMostOnce(t, w, waits)
		})
	}
}

// lostNode is what the cluster writes of a Pod whose node is gone, before it deletes it.
func lostNode(t *testing.T, w *rig.World, pod *rig.Pod) {
	t.Helper()
	o := pod.Object()
	o.Status.Phase, o.Status.Reason = corev1.PodFailed, "NodeLost"
	require.NoError(t, w.Admin.Status().Patch(context.WithoutCancel(t.Context()), o, client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByPodGC"}]}}`))))
}

// Row 51: our label is taken from a live Pod in the middle of a run, and the controller is restarted too. The Pod is not taken for gone: its
// run ends with its result.
func TestRow51_OurLabelIsTakenAway(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"controller up": false, "controller restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			c := w.Controller()
			w.Agent("reviewer")
			pod := w.Ready("reviewer", 1)[0]
			goal, release := held(t)
			run := w.Run("reviewer", goal)
			w.Await(run, hearthv1.ReasonRunning)
			if restart {
				c.Kill()
			}
			require.NoError(t, w.Admin.Patch(context.WithoutCancel(t.Context()), pod.Object(), client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"`+hearthv1.LabelRun+`":null}}}`))))
			if restart {
				w.Controller()
			}
			release()
			got := w.Await(run, succeeded)
			assert.Equal(t, pod.UID, got.Status.Delivery.PodUID)
			assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
			assert.Len(t, w.EffectsOf(run), 1)
		})
	}
}
