package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

func TestAnAgentsStatusIsWrittenAtMostOnceASecondAndOnlyWhenItChanged(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	agent, at := reviewer(), now
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(agent).WithStatusSubresource(agent).Build(), Now: func() time.Time { return at }}
	key := client.ObjectKeyFromObject(agent)
	write := func(recasts int32) time.Duration {
		t.Helper()
		require.NoError(t, r.Client.Get(t.Context(), key, agent))
		status := *agent.Status.DeepCopy()
		status.Recasts = recasts
		later, err := r.write(t.Context(), agent, status)
		require.NoError(t, err)
		require.NoError(t, r.Client.Get(t.Context(), key, agent))
		return later
	}
	assert.Zero(t, write(1))
	assert.Equal(t, int32(1), agent.Status.Recasts)
	version := agent.ResourceVersion

	at = at.Add(400 * time.Millisecond)
	assert.Zero(t, write(1), "nothing changed: nothing waits")
	assert.Equal(t, 600*time.Millisecond, write(2))
	assert.Equal(t, version, agent.ResourceVersion)

	at = at.Add(600 * time.Millisecond)
	assert.Zero(t, write(2))
	assert.Equal(t, int32(2), agent.Status.Recasts)

	r.forget(key)
	assert.Zero(t, write(3), "an Agent that is made again starts anew")
	at = at.Add(-time.Hour)
	r.remember(key, now)
	assert.Zero(t, write(4), "a clock that was set back delays nothing")
}
