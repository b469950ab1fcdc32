package manifests_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The controller's rights, for every namespace and for a few: nothing is granted by a wildcard; Secrets may be read by name and made,
// never listed or watched; what is cluster-wide beside our own kinds has a name.
func TestRightsAreLeast(t *testing.T) {
	secrets := 0
	for _, object := range read(t, "config/rbac/role.yaml", "config/namespaced/clusterrole.yaml", "config/namespaced/grant/role.yaml") {
		where := object.GetKind() + " " + object.GetName()
		role := as[rbacv1.ClusterRole](t, object) // a Role has the same fields
		require.NotEmpty(t, role.Rules, where)
		for _, rule := range role.Rules {
			for _, words := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
				assert.NotContains(t, words, "*", where)
			}
			assert.Empty(t, rule.NonResourceURLs, where)
			if slices.Contains(rule.APIGroups, "admissionregistration.k8s.io") {
				assert.Equal(t, []string{"hearth-admission"}, rule.ResourceNames, where)
			}
			if !slices.Contains(rule.Resources, "secrets") {
				continue
			}
			secrets++
			if role.Namespace == "hearth-system" {
				assert.Equal(t, []string{"hearth-webhook-certificate"}, rule.ResourceNames, where)
				continue
			}
			assert.ElementsMatch(t, []string{"get", "create"}, rule.Verbs, where)
		}
	}
	assert.Equal(t, 3, secrets)
}
