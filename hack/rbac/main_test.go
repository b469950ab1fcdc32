package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rule(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get"}}
}

func TestRulesGoWhereTheirResourcesLive(t *testing.T) {
	webhooks := rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
	webhooks.ResourceNames = []string{"hearth-admission"}
	all := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "hearth-controller"}, Rules: []rbacv1.PolicyRule{rule("", "pods"), webhooks, rule("hearth.dev", "agents/status")}}
	cluster, grant, err := split(all)
	require.NoError(t, err)
	assert.Equal(t, "hearth-controller", cluster.Name)
	assert.Equal(t, []rbacv1.PolicyRule{webhooks}, cluster.Rules, "with its names")
	assert.Equal(t, []rbacv1.PolicyRule{rule("", "pods"), rule("hearth.dev", "agents/status")}, grant.Rules)
	assert.Empty(t, grant.Namespace, "it is applied to any")
}

func TestWhatIsNotKnownIsNotGuessed(t *testing.T) {
	for says, rules := range map[string]rbacv1.PolicyRule{
		"resource /nodes: expected one that hack/rbac knows":       rule("", "nodes"),
		"resource hearth.dev/*: expected one":                      rule("hearth.dev", "*"),
		"rule about []: expected resources of one scope":           {APIGroups: []string{""}},
		"resource admissionregistration.k8s.io/pods: expected one": rule("admissionregistration.k8s.io", "pods"),
	} {
		_, _, err := split(&rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{rules}})
		require.ErrorContains(t, err, says)
	}
	_, err := clusterRole([]byte("kind: Role\n"))
	require.ErrorContains(t, err, "expected one ClusterRole, there are 0")
}
