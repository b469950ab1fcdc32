package node

import (
	"sync"
	"time"
)

// Key names one attempt.
type Key struct {
	Run     string `json:"run"`
	Attempt int64  `json:"attempt"`
}

// Times are an attempt's, as its harness saw them; zero is what has not happened, or happened before Reset.
type Times struct {
	Key
	Pod string `json:"pod,omitzero"`
	// Received is when the request that brought the goal reached the harness, Accepted when its 202 was answered.
	Received time.Time `json:"received,omitzero"`
	Accepted time.Time `json:"accepted,omitzero"`
	// Begun is when the agent got the goal, Ended when it was done with it.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Recorded is when the harness was told that the record is written.
	Recorded time.Time `json:"recorded,omitzero"`
}

// Counts are sums over all Pods: Pods now, the rest since the start or the last Reset.
type Counts struct {
	// Pods are those whose harness listens, and of which the API server was told that they are ready.
	Pods int `json:"pods"`
	// Requests are counted by the contract's calls: challenge, deliver, changes, attempt, cancel, recorded, other.
	Requests map[string]int64 `json:"requests"`
	Accepted int              `json:"accepted"`
	Begun    int              `json:"begun"`
	Ended    int              `json:"ended"`
	Recorded int              `json:"recorded"`
	// Again are goals that an agent got although it, or another, had got them for the same run before: work done twice.
	Again int `json:"again"`
	// Failures are what went wrong in the stand-in itself; a measurement with any is none.
	Failures []string `json:"failures,omitempty"`
}

// maxFailures bounds those that are kept.
const maxFailures = 20

// book holds what happened.
type book struct {
	mu     sync.Mutex
	counts Counts
	times  map[Key]*Times
	runs   map[string]int // how often a run's goal was begun, over resets
	change chan struct{}  // closed at the next change while somebody waits for one
}

func newBook() *book {
	return &book{counts: Counts{Requests: map[string]int64{}}, times: map[Key]*Times{}, runs: map[string]int{}}
}

// edit changes the book and wakes who waits.
func (b *book) edit(f func(c *Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.counts)
	if b.change != nil {
		close(b.change)
		b.change = nil
	}
}

// of is an attempt's times; the lock is held.
func (b *book) of(key Key) *Times {
	if b.times[key] == nil {
		b.times[key] = &Times{Key: key}
	}
	return b.times[key]
}

func (b *book) accepted(key Key, pod string, received, accepted time.Time) {
	b.edit(func(c *Counts) {
		c.Accepted++
		t := b.of(key)
		t.Pod, t.Received, t.Accepted = pod, received, accepted
	})
}

func (b *book) begun(key Key, pod string, at time.Time) {
	b.edit(func(c *Counts) {
		c.Begun++
		if b.runs[key.Run]++; b.runs[key.Run] > 1 {
			c.Again++
		}
		t := b.of(key)
		t.Pod, t.Begun = pod, at
	})
}

func (b *book) ended(key Key, at time.Time) {
	b.edit(func(c *Counts) {
		c.Ended++
		b.of(key).Ended = at
	})
}

// recorded is told of every request that says so; the first counts.
func (b *book) recorded(key Key, at time.Time) {
	b.edit(func(c *Counts) {
		if t := b.of(key); t.Recorded.IsZero() {
			c.Recorded++
			t.Recorded = at
		}
	})
}

func (b *book) failed(err error) {
	b.edit(func(c *Counts) {
		if len(c.Failures) < maxFailures {
			c.Failures = append(c.Failures, err.Error())
		}
	})
}

// reset forgets times and counts. What is ready stays so, and what was begun stays known.
func (b *book) reset() {
	b.edit(func(c *Counts) {
		*c = Counts{Pods: c.Pods, Requests: map[string]int64{}, Failures: c.Failures}
		b.times = map[Key]*Times{}
	})
}

// now is a copy of the counts, and of what tells of the next change.
func (b *book) now() (Counts, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change == nil {
		b.change = make(chan struct{})
	}
	c := b.counts
	c.Requests = map[string]int64{}
	for call, n := range b.counts.Requests {
		c.Requests[call] = n
	}
	return c, b.change
}

// all are the times of all attempts, in no order.
func (b *book) all() []Times {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Times, 0, len(b.times))
	for _, t := range b.times {
		all = append(all, *t)
	}
	return all
}
