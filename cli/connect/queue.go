package connect

import (
	"context"
	"errors"
	"sync"
)

// errEnded says that a queue was closed and is empty.
var errEnded = errors.New("no more messages")

// queue is messages in order, bounded in bytes. A message of any size is taken when nothing waits.
type queue struct {
	limit int

	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	busy    bool // the one that was taken last is still being written
	closed  bool
	changed chan struct{}
}

func newQueue(limit int) *queue { return &queue{limit: limit, changed: make(chan struct{})} }

// wait calls try, with the lock held, until it says that it is done.
func (q *queue) wait(ctx context.Context, try func() bool) error {
	for {
		q.mu.Lock()
		done, changed := try(), q.changed
		if done {
			close(q.changed)
			q.changed = make(chan struct{})
		}
		q.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put waits for room.
func (q *queue) put(ctx context.Context, message []byte) error {
	return q.wait(ctx, func() bool {
		if q.full(len(message)) {
			return false
		}
		q.waiting = append(q.waiting, message)
		q.bytes += len(message)
		return true
	})
}

func (q *queue) full(more int) bool { return len(q.waiting) > 0 && q.bytes+more > q.limit }

// take waits for a message; done says that it was dealt with. The error is ctx's or errEnded.
func (q *queue) take(ctx context.Context) (message []byte, err error) {
	ended := false
	err = q.wait(ctx, func() bool {
		if len(q.waiting) == 0 {
			ended = q.closed
			return ended
		}
		message = q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.bytes -= len(message)
		q.busy = true
		return true
	})
	if err == nil && ended {
		err = errEnded
	}
	return message, err
}

func (q *queue) done() { q.change(func() { q.busy = false }) }

// close says that no more will come.
func (q *queue) close() { q.change(func() { q.closed = true }) }

func (q *queue) change(how func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	how()
	close(q.changed)
	q.changed = make(chan struct{})
}

// stalled tells whether whoever takes has stopped.
func (q *queue) stalled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > q.limit/2
}

// drained waits until all that was put was taken and dealt with.
func (q *queue) drained(ctx context.Context) error {
	return q.wait(ctx, func() bool { return len(q.waiting) == 0 && !q.busy })
}

// over waits until no more will come and all was taken.
func (q *queue) over(ctx context.Context) error {
	return q.wait(ctx, func() bool { return len(q.waiting) == 0 && q.closed })
}
