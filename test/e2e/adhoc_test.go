//go:build e2e

package e2e

import (
	"context"
	"path/filepath"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const (
	allowAdHoc = "--allow-ad-hoc-runs"
	author     = "e2e-author"
)

// withAdHoc changes the controller's Deployment as the component config/ad-hoc does, and grants it what that grants, until the test ends.
func (r *room) withAdHoc(deployment *appsv1.DeploymentSpec) {
	r.t.Helper()
	args := &deployment.Template.Spec.Containers[0].Args
	*args = append(*args, allowAdHoc)
	rights, err := cluster.Read(filepath.Join(suite.root, "config", cluster.AdHocComponent, "rights.yaml"))
	require.NoError(r.t, err)
	require.NoError(r.t, suite.Apply(r.t.Context(), "", rights...))
	r.t.Cleanup(func() {
		for _, right := range rights {
			assert.NoError(r.t, client.IgnoreNotFound(suite.Client.Delete(context.WithoutCancel(r.t.Context()), right)))
		}
	})
}

// adHoc is a run that is complete in itself.
func (r *room) adHoc(name string) *hearthv1.AgentRun {
	model := r.readAgent(reviewer).Spec
	model.Runtime.Delivery = nil
	return &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace},
		Spec:       hearthv1.AgentRunSpec{Goal: "say: hello from nobody's agent", Runtime: &model.Runtime, Template: &model.Template},
	}
}

// adHocIsOff: as installed, nobody makes a run without an Agent.
func (r *room) adHocIsOff() {
	r.t.Helper()
	err := suite.Client.Create(r.t.Context(), r.adHoc("off"))
	require.ErrorContains(r.t, err, "[MissingAgent]")
	require.ErrorContains(r.t, err, allowAdHoc)
}

// adHocIsForThoseWhoMakePods: with the component, who may create AgentRuns and no Pods is refused, who may create both has a run.
func (r *room) adHocIsForThoseWhoMakePods() {
	r.t.Helper()
	ctx := r.t.Context()
	as := rest.CopyConfig(suite.Config)
	as.Impersonate.UserName = author
	person, err := client.New(as, client.Options{Scheme: suite.Client.Scheme()})
	require.NoError(r.t, err)

	r.bind("runs", rbacv1.PolicyRule{APIGroups: []string{hearthv1.GroupVersion.Group}, Resources: []string{"agentruns"}, Verbs: []string{"create"}})
	r.wait("the author's right to be refused by us", shortly, func(ctx context.Context) (bool, string, error) {
		err := person.Create(ctx, r.adHoc("refused"))
		if err == nil {
			return false, "", cluster.Stop(assert.AnError)
		}
		return containsAll(err.Error(), []string{"[Forbidden]", "spec.template"}), err.Error(), nil
	})
	r.bind("pods", rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"}, Verbs: []string{"create"}})
	r.wait("the author's run to be admitted", shortly, func(ctx context.Context) (bool, string, error) {
		err := person.Create(ctx, r.adHoc("mine"))
		return err == nil, "admitted", err
	})
	run := r.ended("mine", patiently)
	assert.Equal(r.t, hearthv1.ReasonCompleted, run.Status.Reason, run.Status.Message)
	assert.Equal(r.t, "hello from nobody's agent", run.Status.Output.Value)
	assert.Equal(r.t, hearthv1.AgentRef{}, run.Spec.AgentRef)
	assert.Empty(r.t, r.watched.of("refused"))
	require.NoError(r.t, client.IgnoreNotFound(suite.Client.Delete(ctx, run)))
}

// bind gives the author a right in the room.
func (r *room) bind(name string, rule rbacv1.PolicyRule) {
	r.t.Helper()
	meta := metav1.ObjectMeta{Name: author + "-" + name, Namespace: r.namespace}
	require.NoError(r.t, suite.Client.Create(r.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}))
	require.NoError(r.t, suite.Client.Create(r.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: author}},
	}))
}
