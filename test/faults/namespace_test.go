//go:build faults

package faults_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 35: the namespace is deleted while no controller is there, with an Agent, its standing run and Pod, a finished run, one that runs and
// one that waits. The cluster's own controllers take all of it away; nothing of ours holds it.
func TestRow35_TheNamespaceIsDeletedWithoutAController(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	c := w.Controller()
	w.Agent("reviewer")
	w.Agent("idle", func(a *hearthv1.Agent) { a.Spec.Replicas = ptr.To[int32](0) })
	w.Ready("reviewer", 1)
	works(t, w, "reviewer")
	waits := w.Run("idle", "say: never")
	w.Await(waits, hearthv1.ReasonWaitingForService)
	run := w.Run("reviewer", "slow: 2")
	w.Await(run, hearthv1.ReasonRunning)
	c.Kill()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, w.Admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}))
	w.Eventually("the end of the namespace", func() bool {
		return apierrors.IsNotFound(w.Admin.Get(ctx, client.ObjectKey{Name: w.Namespace}, &corev1.Namespace{}))
	})
}

// Row 50: the Agent is deleted and made again under its name while runs wait for it, with the controller up or down. What waits for the old
// one ends; what is asked of the new one is done.
func TestRow50_TheAgentIsMadeAgainUnderItsName(t *testing.T) {
	t.Parallel()
	for name, controllerDown := range map[string]bool{"controller up": false, "controller down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			c := w.Controller()
			old := w.Agent("reviewer", room(1, 0))
			w.Ready("reviewer", 1)
			busy := w.Run("reviewer", endless)
			w.Await(busy, hearthv1.ReasonRunning)
			waits := w.Run("reviewer", "say: for the old one")
			w.Await(waits, hearthv1.ReasonTargetBusy)
			if controllerDown {
				c.Kill()
			}
			ctx := context.WithoutCancel(t.Context())
			require.NoError(t, w.User.Delete(ctx, old))
			w.Eventually("the end of the Agent", func() bool {
				return apierrors.IsNotFound(w.Admin.Get(ctx, named(w, "reviewer"), &hearthv1.Agent{}))
			})
			w.Agent("reviewer", room(1, 0))
			if controllerDown {
				w.Controller()
			}
			assert.Equal(t, hearthv1.ReasonAgentNotFound, w.Ended(waits).Status.Reason)
			assert.Empty(t, w.EffectsOf(waits))
			w.Cancel(busy)
			w.Ended(busy)
			works(t, w, "reviewer")
		})
	}
}
