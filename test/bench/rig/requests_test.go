package rig

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const metrics = `# HELP apiserver_request_total Counter of apiserver requests
apiserver_request_total{code="200",component="apiserver",dry_run="",group="hearth.dev",resource="agentruns",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 20
apiserver_request_total{code="409",component="apiserver",dry_run="",group="hearth.dev",resource="agentruns",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 1
apiserver_request_total{code="201",component="apiserver",dry_run="",group="hearth.dev",resource="agentruns",scope="resource",subresource="",verb="POST",version="v1alpha1"} 10
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 99
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 7
apiserver_request_duration_seconds_count{resource="agentruns",verb="POST"} 10
`

func TestRequestsAreCountedByVerbAndResource(t *testing.T) {
	got, err := ParseRequests([]byte(metrics))
	require.NoError(t, err)
	assert.Equal(t, Requests{"PUT agentruns/status": 21, "POST agentruns": 10}, got)
	each := got.Since(Requests{"PUT agentruns/status": 1, "POST agentruns": 10}, 10)
	assert.Equal(t, Requests{"PUT agentruns/status": 2}, each)
	assert.InDelta(t, 31, got.Sum(), 0)
	assert.Equal(t, "POST agentruns 10.00, PUT agentruns/status 21.00", got.String())
}

func TestCountsThatCannotBeReadAreNone(t *testing.T) {
	for _, text := range []string{`apiserver_request_total{verb="GET"} x`, `apiserver_request_total{verb="GET"`} {
		_, err := ParseRequests([]byte(text))
		assert.ErrorContains(t, err, "count requests", text)
	}
}
