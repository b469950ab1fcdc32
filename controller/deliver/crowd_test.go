package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

// SPEC.md, Lifecycle, Watch: others give way to reservations, their ends and records, and not to what only tells.
func TestOnlyWhatMovesRunsIsGivenWayTo(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	waits := testRun("work", "uid-1")
	reserved := testRun("work", "uid-1")
	reserved.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 2, PodName: "reviewer-1", PodUID: "pod", Journal: "j", ReservedAt: &metav1.MicroTime{Time: at}}
	same := toRun(reserved).Progress
	began, given, next := same, same, same
	began.StartedAt, began.AcceptedAt = at.Add(time.Second), at.Add(time.Second)
	given.Reservation = delivery.Reservation{Attempt: 2}
	next.Attempt = 3
	for name, c := range map[string]struct {
		run  *hearthv1.AgentRun
		want delivery.Status
		is   bool
	}{
		"reserved":                      {waits, delivery.ReserveStatus(toRun(waits), delivery.Reservation{Attempt: 1, PodUID: "pod", At: at}), true},
		"it waits for another reason":   {waits, delivery.Status{Progress: toRun(waits).Progress}, false},
		"it began":                      {reserved, delivery.Status{Phase: delivery.PhaseRunning, Progress: began}, false},
		"given back":                    {reserved, delivery.Status{Progress: given}, true},
		"reserved anew":                 {reserved, delivery.Status{Progress: next}, true},
		"recorded":                      {reserved, delivery.Status{Progress: same, Ending: &delivery.Ending{}}, true},
		"ended while it waited for one": {waits, delivery.Status{Ending: &delivery.Ending{}}, true},
	} {
		assert.Equal(t, c.is, moves(c.run, c.want), name)
	}
}

func TestACrowdIsSeveralWritesAtOnce(t *testing.T) {
	var c crowd
	loads := &Loads{&courier{}}
	assert.False(t, c.big())
	first := c.one()
	assert.False(t, c.big(), "one is in nobody's way")
	second := c.one()
	assert.True(t, c.big())
	first()
	assert.False(t, c.big())
	second()
	defer loads.crowd.one()()
	defer loads.crowd.one()()
	assert.True(t, loads.Crowded())
}
