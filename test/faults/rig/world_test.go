package rig

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lister is an API server that has these Secrets.
type lister struct {
	client.Client
	has []corev1.Secret
}

func (l *lister) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.SecretList).Items = l.has
	return nil
}

// I8: a Secret that is gone with its Pod may be in no text either, nor one that another of its name has replaced.
func TestASecretThatIsGoneIsStillLookedFor(t *testing.T) {
	api := &lister{has: []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "keys", UID: "1"}, Data: map[string][]byte{"token": []byte("first"), "goal": nil}}}}
	w := &World{Admin: api, ctx: t.Context(), confidential: map[string]string{}}
	_, err := w.secrets()
	require.NoError(t, err)
	api.has = []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "keys", UID: "2"}, Data: map[string][]byte{"token": []byte("second")}}}
	_, err = w.secrets()
	require.NoError(t, err)
	api.has = nil
	all, err := w.secrets()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"keys/token (1)": "first", "keys/token (2)": "second"}, all)
}

// I6: a controller that waits for the lease holds little. Compared with that, one that leads would look like a leak.
func TestAControllerThatWaitsIsNoMeasure(t *testing.T) {
	assert.True(t, waits("go_goroutines 47\nleader_election_master_status{name=\"hearth-controller\"} 0\n"))
	assert.False(t, waits("go_goroutines 285\nleader_election_master_status{name=\"hearth-controller\"} 1\n"))
	assert.False(t, waits("go_goroutines 285\n"), "without a lease it works")
}
