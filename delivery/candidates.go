package delivery

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// candidate is a target with what this pass has already given it.
type candidate struct {
	target *Target
	load   int
}

func (c *candidate) room() int {
	return c.target.Capacity.Concurrency + c.target.Capacity.Queue - c.load
}

// entry is a candidate as it stood when it was put into a queue; when its load has moved on, the entry is stale.
type entry struct {
	c    *candidate
	load int
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.busy(), o.busy()), cmp.Compare(e.load, o.load), cmp.Compare(e.c.target.PodName, o.c.target.PodName))
}

// busy is 0 for a target that would start the work at once and 1 for one that would queue it.
func (e entry) busy() int {
	if e.load < e.c.target.Capacity.Concurrency {
		return 0
	}
	return 1
}

// queue is a heap of entries, best first.
type queue []entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].compare(q[j]) < 0 }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(entry)) } //nolint:forcetypeassert // only entries are pushed
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// best is the best candidate with room; stale entries are dropped on the way.
func (q *queue) best() *candidate {
	for q.Len() > 0 {
		if top := (*q)[0]; top.load == top.c.load && top.c.room() > 0 {
			return top.c
		}
		heap.Pop(q)
	}
	return nil
}

// candidates hands out targets: the run's own generation first, any other then.
type candidates struct {
	own map[int64]*queue
	all *queue
	// room is how many runs there was room for at first, of at most as many as there are.
	room int
	// Why nothing is left, for those who get nothing.
	reason      Reason
	message     string
	backoffEnds time.Time
}

// closest orders the reasons by how near a target is to taking work: the nearest one explains best why a run waits.
var closest = []Reason{ReasonTargetBusy, ReasonTargetNotReady, ReasonTargetIncompatible, ReasonTargetUnauthenticated,
	ReasonTargetUnreachable, ReasonServiceRecasting, ReasonWaitingForService}

func newCandidates(now time.Time, pool Pool, runs int) *candidates {
	s := &candidates{own: map[int64]*queue{}, all: &queue{}, reason: ReasonWaitingForService, message: "the Agent has no standing run"}
	if pool.Recasting {
		s.reason, s.message = ReasonServiceRecasting, cmp.Or(pool.Message, "the standing run ended and is being replaced")
	}
	targets := slices.Clone(pool.Targets)
	slices.SortFunc(targets, func(a, b Target) int { return cmp.Compare(a.PodName, b.PodName) })
	for i := range targets {
		t := &targets[i]
		reason, message := t.Usable(now)
		if reason == "" {
			s.put(&candidate{t, t.load()})
			s.room += min(t.room(), runs-s.room) // a Pod may say of itself what it likes
			reason, message = ReasonTargetBusy, "every standing run is at capacity"
		} else if reason == ReasonTargetBusy {
			s.backoffEnds = earliest(now, s.backoffEnds, t.BackoffUntil)
		}
		if slices.Index(closest, reason) < slices.Index(closest, s.reason) {
			s.reason, s.message = reason, message
		}
	}
	return s
}

func (s *candidates) put(c *candidate) {
	if s.own[c.target.Generation] == nil {
		s.own[c.target.Generation] = &queue{}
	}
	heap.Push(s.own[c.target.Generation], entry{c, c.load})
	heap.Push(s.all, entry{c, c.load})
}

// take counts one more attempt on the best target and returns it. There is one as long as there is room.
func (s *candidates) take(generation int64) *Target {
	var c *candidate
	if own := s.own[generation]; own != nil {
		c = own.best()
	}
	if c == nil {
		c = s.all.best()
	}
	c.load++
	if c.room() > 0 {
		s.put(c)
	}
	return c.target
}
