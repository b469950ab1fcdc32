package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
)

// absentee is a Link that was once told that its target does not have an attempt.
type absentee struct {
	Link
	Links
	absent bool
}

func (l *absentee) Get(string) (Link, bool) { return l, true }
func (l *absentee) Status() client.Status {
	return client.Status{State: client.StateVerified, Journal: "j"}
}
func (l *absentee) Doubt(client.Key) { l.absent = false }
func (l *absentee) Snapshot(client.Key) (client.Attempt, bool) {
	return client.Attempt{Absent: l.absent, SeenJournal: "j"}, true
}

// Rows 7 and 8: a controller that had looked for an attempt in vain learns from the status that another one has sent it. That is no loss
// until it has looked again.
func TestAnAcceptanceByAnotherControllerMakesAnAbsenceOld(t *testing.T) {
	at := time.Unix(1000, 0)
	l := &absentee{absent: true}
	c := &courier{memory: newMemory(), links: l}
	run := testRun("a", "uid-1")
	value := delivery.Run{UID: "uid-1", Progress: delivery.Progress{Reservation: delivery.Reservation{Attempt: 1, PodUID: "pod-1", Journal: "j", At: at}}}
	observed := func() delivery.Observed {
		var obs delivery.Observed
		c.observeLink(run, value, c.memory.about(run, value.Reservation, at, nil), &obs)
		return obs
	}
	assert.True(t, observed().Absent, "it may be sent")
	value.AcceptedAt = at
	assert.False(t, observed().Absent, "whoever sent it did so later")
	l.absent = true // a look that was begun since
	assert.True(t, observed().Absent, "the target has forgotten it")
}
