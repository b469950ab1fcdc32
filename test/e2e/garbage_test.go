//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// TestGarbage is Kubernetes' own garbage collector at work under the admission guards: what an Agent or a standing run owns goes with
// it, records stay, and nothing hangs (SPEC.md, Lifecycle: there are no finalizers).
func TestGarbage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "garbage")
	policies := map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground, "orphan": metav1.DeletePropagationOrphan,
	}
	agents := map[string]*hearthv1.Agent{"recast": r.agent("recast", nil)}
	for name := range policies {
		agents[name] = r.agent(name, nil)
	}
	for name := range agents {
		r.waitReady(name)
		r.succeeds("record-of-"+name, name)
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			(&room{t: t, namespace: r.namespace, watched: r.watched}).deletes(agents[name], policy)
		})
	}
	t.Run("a standing run", func(t *testing.T) {
		r := &room{t: t, namespace: r.namespace, watched: r.watched}
		standing, pod := r.standing("recast"), r.pod("recast")
		require.NoError(t, suite.Client.Delete(t.Context(), standing))
		r.waitGone("the standing run's Pod and Secret", r.ownedBy(standing.UID))
		r.wait("another standing run", patiently, func(ctx context.Context) (bool, string, error) {
			var pods corev1.PodList
			err := suite.Client.List(ctx, &pods, client.InNamespace(r.namespace), client.MatchingLabels{hearthv1.LabelAgent: "recast"})
			return err == nil && len(pods.Items) == 1 && pods.Items[0].UID != pod.UID, fmt.Sprintf("%d Pods", len(pods.Items)), err
		})
		r.waitReady("recast")
		r.hasRecord("record-of-recast")
		r.succeeds("after-the-recast", "recast")
	})
}

// deletes deletes an Agent with a policy and looks at what is left of it.
func (r *room) deletes(agent *hearthv1.Agent, policy metav1.DeletionPropagation) {
	r.t.Helper()
	standing := r.standing(agent.Name)
	owned := func(ctx context.Context) ([]string, error) {
		of, err := r.ownedBy(agent.UID)(ctx)
		if err != nil {
			return nil, err
		}
		below, err := r.ownedBy(standing.UID)(ctx)
		return append(of, below...), err
	}
	had, err := owned(r.t.Context())
	require.NoError(r.t, err)
	require.Subset(r.t, had, []string{"AgentRun " + standing.Name, "Pod " + standing.Name}, "what is to go is there")

	require.NoError(r.t, suite.Client.Delete(r.t.Context(), agent, client.PropagationPolicy(policy)))
	r.wait("the end of Agent "+agent.Name, patiently, func(ctx context.Context) (bool, string, error) {
		err := suite.Client.Get(ctx, r.key(agent.Name), &hearthv1.Agent{})
		return apierrors.IsNotFound(err), "there", client.IgnoreNotFound(err)
	})
	defer r.hasRecord("record-of-" + agent.Name)
	if policy != metav1.DeletePropagationOrphan {
		r.waitGone("what the Agent owned", owned)
		return
	}
	// The garbage collector's removal of our owner references passed admission, and the controller leaves the run to who asked for it.
	r.waitGone("owner references to the Agent", r.ownedBy(agent.UID))
	r.aMoment()
	var run hearthv1.AgentRun
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(standing.Name), &run))
	assert.Equal(r.t, standing.UID, run.UID, "it was orphaned, not made anew")
	assert.Nil(r.t, run.Status.CompletionTime, "%s: %s", run.Status.Reason, run.Status.Message)
	assert.Equal(r.t, metav1.ConditionTrue, acpReady(&run).Status, "it serves on")
	require.NoError(r.t, suite.Client.Delete(r.t.Context(), &run))
	r.waitGone("what the orphan owned", owned)
}

// ownedBy names the objects of the room that an object of that UID owns.
func (r *room) ownedBy(uid types.UID) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var found []string
		for kind, list := range map[string]client.ObjectList{"AgentRun": &hearthv1.AgentRunList{}, "Pod": &corev1.PodList{}, "Secret": &corev1.SecretList{}} {
			if err := suite.Client.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
				return nil, err
			}
			err := meta.EachListItem(list, func(item runtime.Object) error {
				object, err := meta.Accessor(item)
				if err == nil && slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid }) {
					found = append(found, kind+" "+object.GetName())
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return found, nil
	}
}

func (r *room) waitGone(what string, left func(context.Context) ([]string, error)) {
	r.t.Helper()
	r.wait("the end of "+what, patiently, func(ctx context.Context) (bool, string, error) {
		names, err := left(ctx)
		return err == nil && len(names) == 0, strings.Join(names, ", "), err
	})
}

// aMoment is until the controller has handled all that happened before it: it carries out an order that was given now.
func (r *room) aMoment() {
	r.t.Helper()
	r.succeeds("moment-"+utilrand.String(5), "recast")
}

// hasRecord: the record of a delivered run outlives its Agent and its Pod.
func (r *room) hasRecord(name string) {
	r.t.Helper()
	var run hearthv1.AgentRun
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(name), &run))
	assert.Nil(r.t, run.DeletionTimestamp)
	assert.Equal(r.t, metav1.ConditionTrue, succeeded(&run).Status)
}
