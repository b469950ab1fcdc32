package retention

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// R34: the record of a schedule's run stays until its Agent has noted its time, though its own time is over; then exactly what was looked
// at is deleted.
func TestOnlyANotedRecordIsDeletedAndOnlyAsItWasSeen(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	run := record(scheduledAt(end))
	run.Spec.AgentRef.Name = "nightly"
	agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: "nightly", UID: run.Spec.AgentRef.UID}}
	var only []*metav1.Preconditions
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(run, agent).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			only = append(only, (&client.DeleteOptions{}).ApplyOptions(options).Preconditions)
			return nil
		}}).Build()
	look := func() time.Duration {
		r := &Reconciler{Client: c, Now: func() time.Time { return end.AddDate(1, 0, 0) }}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(run)})
		require.NoError(t, err)
		return result.RequeueAfter
	}
	assert.Equal(t, lookSoon, look())
	assert.Empty(t, only, "it is the only proof that the time had its run")
	agent.Status.LastScheduleTime = ptr.To(metav1.NewTime(end))
	require.NoError(t, c.Update(t.Context(), agent))
	assert.Zero(t, look())
	require.Len(t, only, 1)
	assert.Equal(t, &metav1.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion}, only[0])
}
