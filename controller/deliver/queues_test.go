package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

var (
	oneAgent   = types.NamespacedName{Namespace: "team", Name: "one"}
	otherAgent = types.NamespacedName{Namespace: "team", Name: "other"}
)

// SPEC.md, Assign: a queue is told of four times a second for each Agent, whatever others have.
func TestAQueueIsToldOfAFewTimesASecond(t *testing.T) {
	q, now := newQueues(), time.Unix(1000, 0)
	told := func(agent types.NamespacedName, at time.Duration) (n int) {
		q.looked(agent, now.Add(at), 100)
		for range 100 {
			if q.tell(agent, now.Add(at)) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 4, told(oneAgent, 0))
	assert.Equal(t, 4, told(otherAgent, 0), "each has its own")
	assert.Equal(t, 4, told(oneAgent, busyAgain), "and when somebody looks again")
	assert.Equal(t, 4, told(oneAgent, time.Hour), "nothing is saved up")
}

// P9: the work of looking at a long queue does not take the processor from other Agents; a short one is looked at at once.
func TestALongQueueIsLookedAtLessOften(t *testing.T) {
	q, now := newQueues(), time.Unix(1000, 0)
	assert.Zero(t, q.pause(oneAgent, now))
	for waiting, pause := range map[int]time.Duration{1: 0, shortQueue: 0, 1000: 20 * time.Millisecond, 10_000: 200 * time.Millisecond} {
		q.looked(oneAgent, now, waiting)
		assert.Equal(t, pause, q.pause(oneAgent, now), waiting)
		assert.Zero(t, q.pause(oneAgent, now.Add(pause)), waiting)
		assert.Zero(t, q.pause(otherAgent, now), "it is nobody else's")
	}
	q.looked(oneAgent, now, 10_000)
	q.looked(oneAgent, now, 0)
	assert.Zero(t, q.pause(oneAgent, now), "nothing waits any more")
	assert.Empty(t, q.of, "an Agent without a queue costs no memory")
}
