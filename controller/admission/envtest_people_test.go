package admission_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// as is a user with one of the roles for people, and nothing else.
func (w *world) as(t *testing.T, role string) client.Client {
	t.Helper()
	who := role + "-user"
	require.NoError(t, w.admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: who},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: who}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}))
	c := server.ClientAs(t, who)
	require.Eventually(t, func() bool { // the authorizer takes a moment to see a new binding
		return c.List(t.Context(), &v1alpha1.AgentList{}, client.InNamespace(w.namespace)) == nil
	}, patience, 20*time.Millisecond)
	return c
}

// R33: who has hearth-edit makes Agents and runs, scales and cancels; who has hearth-view looks. Neither writes a status.
func TestTheRolesForPeopleAreEnoughAndNoMore(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	editor, viewer := w.as(t, "hearth-edit"), w.as(t, "hearth-view")
	agent, task := w.agent("reviewer"), w.task("digest")
	require.NoError(t, editor.Create(ctx, agent))
	require.NoError(t, editor.Create(ctx, task))
	run := w.run("work", "reviewer")
	require.NoError(t, editor.Create(ctx, run))
	require.NoError(t, viewer.Get(ctx, client.ObjectKeyFromObject(run), run))

	scale := &autoscalingv1.Scale{}
	require.NoError(t, viewer.SubResource("scale").Get(ctx, agent, scale))
	assert.Equal(t, int32(1), scale.Spec.Replicas)
	scale.Spec.Replicas = 3
	assert.True(t, apierrors.IsForbidden(viewer.SubResource("scale").Update(ctx, agent, client.WithSubResourceBody(scale.DeepCopy()))))
	require.NoError(t, editor.SubResource("scale").Update(ctx, agent, client.WithSubResourceBody(scale.DeepCopy())))
	require.NoError(t, editor.SubResource("scale").Patch(ctx, agent, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`)), client.WithSubResourceBody(&autoscalingv1.Scale{})))
	require.NoError(t, viewer.Get(ctx, client.ObjectKeyFromObject(agent), agent))
	assert.Equal(t, new(int32(0)), agent.Spec.Replicas)
	for _, replicas := range []int32{-1, 1001} {
		scale.Spec.Replicas, scale.ResourceVersion = replicas, ""
		assert.True(t, apierrors.IsInvalid(editor.SubResource("scale").Update(ctx, agent, client.WithSubResourceBody(scale.DeepCopy()))), replicas)
	}
	require.NoError(t, editor.SubResource("scale").Get(ctx, task, scale))
	scale.Spec.Replicas = 2
	require.ErrorContains(t, editor.SubResource("scale").Update(ctx, task, client.WithSubResourceBody(scale)), "only Agents of mode Service have replicas")

	cancelled := run.DeepCopy()
	cancelled.Spec.Cancel = true
	assert.True(t, apierrors.IsForbidden(viewer.Patch(ctx, cancelled.DeepCopy(), client.MergeFrom(run))))
	require.NoError(t, editor.Patch(ctx, cancelled, client.MergeFrom(run)))
	assert.True(t, apierrors.IsForbidden(editor.Status().Update(ctx, cancelled)))
	assert.True(t, apierrors.IsForbidden(editor.Status().Update(ctx, agent)))
}
