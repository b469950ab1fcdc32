package deliver

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// busyWrites is how many runs of one Agent are told within busyAgain that all targets are busy: what moves the queue, of this Agent
	// and of others, needs the API server more.
	busyWrites = 4
	busyAgain  = time.Second
	// lookPause is between two assignments of an Agent, for each run that waits: each looks at all of them, and something changes for a
	// long queue all the time. Up to shortQueue there is none.
	lookPause  = 20 * time.Microsecond
	shortQueue = 256
)

// queues hold how much each Agent's queue may be looked at and told of now.
type queues struct {
	mu sync.Mutex
	of map[types.NamespacedName]*queue
}

type queue struct {
	told *rate.Limiter
	next time.Time // no look before
}

func newQueues() *queues { return &queues{of: map[types.NamespacedName]*queue{}} }

// pause is how long to wait before the next look, zero for not at all.
func (q *queues) pause(agent types.NamespacedName, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.of[agent]; known != nil {
		return max(0, known.next.Sub(now))
	}
	return 0
}

// looked notes a look at so many runs that wait. An Agent for which none does is forgotten.
func (q *queues) looked(agent types.NamespacedName, now time.Time, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting == 0 {
		delete(q.of, agent)
		return
	}
	known := q.of[agent]
	if known == nil {
		known = &queue{told: rate.NewLimiter(busyWrites*rate.Every(busyAgain), busyWrites)}
		q.of[agent] = known
	}
	known.next = time.Time{}
	if waiting > shortQueue {
		known.next = now.Add(time.Duration(waiting) * lookPause)
	}
}

// words is how many runs of an Agent's queue may be told now that all targets are busy.
func (q *queues) words(agent types.NamespacedName, now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.of[agent]; known != nil {
		return int(known.told.TokensAt(now))
	}
	return 0
}

// told notes that so many were. Nobody else asks for words of that Agent in between: there is one pass of it at a time.
func (q *queues) told(agent types.NamespacedName, now time.Time, runs int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.of[agent]; known != nil {
		known.told.AllowN(now, runs)
	}
}
