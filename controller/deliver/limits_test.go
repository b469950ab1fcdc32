package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// R30: what a delivery may use is what its own run says, and all the time that it has waited is taken off what is left for its start. A
// standing run's spec has no part in it.
func TestADeliveryCarriesItsOwnRunsLimits(t *testing.T) {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*hearthv1.AgentRun)
		want   wire.Limits
	}{
		"no budget": {func(*hearthv1.AgentRun) {}, wire.Limits{StartWithinSeconds: new(int64(480)), ActiveSeconds: new(int64(900))}},
		"tokens":    {func(r *hearthv1.AgentRun) { r.Spec.Budget = &hearthv1.Budget{Tokens: new(int64(7))} }, wire.Limits{StartWithinSeconds: new(int64(480)), ActiveSeconds: new(int64(900)), Tokens: new(int64(7))}},
		"tokens and money": {func(r *hearthv1.AgentRun) {
			r.Spec.Budget = &hearthv1.Budget{Tokens: new(int64(7)), Cost: &hearthv1.Cost{Amount: "0.50", Currency: "EUR"}}
		}, wire.Limits{StartWithinSeconds: new(int64(480)), ActiveSeconds: new(int64(900)), Tokens: new(int64(7)), Cost: &wire.Cost{Amount: "0.50", Currency: "EUR"}}},
		"lost attempts had been running for a minute": {func(r *hearthv1.AgentRun) { r.Status.Delivery.SpentSeconds = 60 }, wire.Limits{StartWithinSeconds: new(int64(540)), ActiveSeconds: new(int64(900))}},
		"reserved anew a moment ago": {func(r *hearthv1.AgentRun) {
			r.Status.Delivery.ReservedAt = &metav1.MicroTime{Time: noon.Add(2 * time.Minute)}
		}, wire.Limits{StartWithinSeconds: new(int64(480)), ActiveSeconds: new(int64(900))}},
	} {
		run := testRun("work", "uid-1")
		run.CreationTimestamp = metav1.NewTime(noon)
		run.Spec.StartingDeadlineSeconds, run.Spec.ActiveDeadlineSeconds = new(int64(600)), new(int64(900))
		run.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 3, PodName: "reviewer-1", PodUID: "pod", Journal: "j"}
		c.change(run)
		request := toRequest(noon.Add(2*time.Minute), run)
		assert.Equal(t, &c.want, request.Limits, name)
		assert.Equal(t, int64(3), request.Attempt)
	}
	assert.Equal(t, int64(1), delivery.StartWithin(noon, delivery.Run{Created: noon.Add(-time.Hour), Starting: time.Minute}), "never none: the harness decides what is over")
}
