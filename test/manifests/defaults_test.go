package manifests_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

// What code takes where an Agent says nothing is what the API server puts there.
func TestDefaultsAreThoseOfTheCRD(t *testing.T) {
	crd := as[apiextensionsv1.CustomResourceDefinition](t, read(t, "config/crd/hearth.dev_agents.yaml")[0])
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	schedule := spec.Properties["schedule"]
	for field, want := range map[string]int{
		"replicas": v1alpha1.DefaultReplicas, "drainTimeoutSeconds": v1alpha1.DefaultDrainTimeoutSeconds,
		"activeDeadlineSeconds": v1alpha1.DefaultActiveDeadlineSeconds, "startingDeadlineSeconds": v1alpha1.DefaultStartingDeadlineSeconds,
		"ttlSecondsAfterFinished": v1alpha1.DefaultTTLSecondsAfterFinished,
	} {
		require.NotNil(t, spec.Properties[field].Default, field)
		assert.JSONEq(t, strconv.Itoa(want), string(spec.Properties[field].Default.Raw), field)
	}
	for field, want := range map[string]int{
		"startingDeadlineSeconds": v1alpha1.DefaultLateSeconds, "successfulRunsHistoryLimit": v1alpha1.DefaultSuccessfulRunsHistoryLimit,
		"failedRunsHistoryLimit": v1alpha1.DefaultFailedRunsHistoryLimit,
	} {
		require.NotNil(t, schedule.Properties[field].Default, field)
		assert.JSONEq(t, strconv.Itoa(want), string(schedule.Properties[field].Default.Raw), field)
	}
	assert.Equal(t, delivery.DefaultActive, v1alpha1.DefaultActiveDeadlineSeconds*time.Second)
	assert.Equal(t, delivery.DefaultStarting, v1alpha1.DefaultStartingDeadlineSeconds*time.Second)
}
