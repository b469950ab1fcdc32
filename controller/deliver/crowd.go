package deliver

import (
	"sync/atomic"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
)

// crowded is how many writes that move runs are under way at once when others give way to them. Where the API server has time to spare
// they are over before the next comes.
const crowded = 2

// crowd counts the status writes under way that move runs: reservations, their ends, and records. What only tells gives way to them.
type crowd struct{ moving atomic.Int32 }

// one counts a write until what it gives is called.
func (c *crowd) one() (over func()) {
	c.moving.Add(1)
	return func() { c.moving.Add(-1) }
}

func (c *crowd) big() bool { return c.moving.Load() >= crowded }

// moves tells whether a status that is to be written does more than tell.
func moves(run *hearthv1.AgentRun, want delivery.Status) bool {
	if want.Ending != nil {
		return true
	}
	now := toRun(run)
	return want.Progress.Attempt != now.Attempt || !want.Progress.At.Equal(now.At)
}

// Crowded tells whether several writes that move runs are under way, so that what only tells should wait.
func (l *Loads) Crowded() bool { return l.crowd.big() }
