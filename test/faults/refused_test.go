//go:build faults

package faults_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/apifault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 56: the API server refuses the record as too large, or as invalid, once or several times. It is cut further, the cut is said, and
// nobody tries for ever: what is refused whatever it holds is tried a bounded number of times, and recorded when it may be.
func TestRow56_ARefusedRecordIsCut(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"too large": http.StatusRequestEntityTooLarge, "invalid": http.StatusUnprocessableEntity} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			w.Controller()
			w.Agent("reviewer")
			w.Ready("reviewer", 1)
			record := func(body []byte) bool { return bytes.Contains(body, []byte(`"completionTime"`)) }
			large := func(body []byte) bool { return record(body) && len(body) > 100_000 }
			rule := w.API.On(apifault.Match{Verbs: []string{"update", "patch"}, Resource: "agentruns", Subresource: "status", Namespace: w.Namespace, Body: large}).Fail(code, 1000)
			run := w.Run("reviewer", "parts: 2 100000")
			got := w.Await(run, succeeded)
			assert.Equal(t, 1, rule.Hits(), "refused once, and cut")
			rule.Remove()
			assert.Less(t, len(got.Status.Output.Value), 100_000)
			assert.True(t, strings.HasPrefix(got.Status.Output.Value, "xxx"))
			require.NotNil(t, got.Status.Truncation)
			assert.Equal(t, int64(200_000), got.Status.Truncation.OriginalBytes)

			always := w.API.On(apifault.Match{Verbs: []string{"update", "patch"}, Resource: "agentruns", Subresource: "status", Namespace: w.Namespace, Body: record}).Fail(code, 5)
			stubborn := w.Run("reviewer", "say: hello")
			got = w.Ended(stubborn)
			assert.Equal(t, 5, always.Hits())
			assert.Len(t, w.EffectsOf(stubborn), 1)
			assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
			works(t, w, "reviewer")
		})
	}
}

// Row 45: a run reaches storage unresolved, as if admission had been absent: written by who is trusted. It is never carried out.
func TestRow45_StoredWithoutAdmission(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	w.Ready("reviewer", 1)
	trusted, err := client.New(w.API.Config(), client.Options{Scheme: w.Admin.Scheme()})
	require.NoError(t, err)
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "unresolved"}, Spec: hearthv1.AgentRunSpec{
		AgentRef: hearthv1.AgentRef{Name: "reviewer"}, Goal: "say: unresolved", Delivery: &hearthv1.DeliverySpec{Port: 4100}}}
	require.NoError(t, trusted.Create(context.WithoutCancel(t.Context()), run))
	require.Nil(t, run.Spec.Runtime, "it was not resolved")
	got := w.Ended(run)
	assert.Equal(t, hearthv1.ReasonNotAdmitted, got.Status.Reason)
	if got.Status.Delivery != nil {
		assert.Zero(t, got.Status.Delivery.Attempt)
	}
	works(t, w, "reviewer")
	assert.Len(t, w.Effects(), 1)
}
