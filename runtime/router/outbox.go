package router

import (
	"errors"
	"io"
	"sync"
)

// What may wait for an agent that does not read, in bytes: of clients' messages, with those that are being taken; and in all, so that
// whatever clients send leaves room for a goal.
const (
	maxForwarded = 64 << 20
	maxBacklog   = 136 << 20
)

// maxIdle bounds how much may wait before optional answers are left out.
const maxIdle = 1 << 20

// Errors of sending to the agent.
var (
	ErrBacklog = errors.New("the agent does not read what is sent to it")
	ErrClosed  = errors.New("the connection to the agent is closed")
)

// outbox is the queue of lines to the agent.
type outbox struct {
	mu     sync.Mutex
	queue  [][]byte
	size   int
	limit  int // bytes that may wait
	others int // bytes that may wait for another client's message to be taken
	closed bool
	wake   chan struct{}
}

func newOutbox() *outbox {
	return &outbox{limit: maxBacklog, others: maxForwarded, wake: make(chan struct{}, 1)}
}

// push queues a line. One line of any size is taken when nothing waits.
func (o *outbox) push(line []byte) error { return o.pushWithin(line, o.limit) }

// reserve counts a client's message before it is copied; release is called once it is queued, or not. One of any size is taken when
// nothing waits.
func (o *outbox) reserve(bytes int) (release func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size > 0 && o.size+bytes > o.others {
		return nil, ErrBacklog
	}
	o.size += bytes
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.size -= bytes
	}, nil
}

// pushOptional queues a line that may as well be left out.
func (o *outbox) pushOptional(line []byte) { _ = o.pushWithin(line, maxIdle) }

func (o *outbox) pushWithin(line []byte, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return ErrClosed
	case o.size > 0 && o.size+len(line) > limit:
		return ErrBacklog
	}
	o.queue = append(o.queue, line)
	o.size += len(line)
	o.signal()
	return nil
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

// run writes until the outbox is closed or the agent takes no more.
func (o *outbox) run(w io.Writer) {
	defer o.close()
	for range o.wake {
		for {
			o.mu.Lock()
			if o.closed {
				o.mu.Unlock()
				return
			}
			if len(o.queue) == 0 {
				o.mu.Unlock()
				break
			}
			line := o.queue[0]
			o.queue[0] = nil
			o.queue = o.queue[1:]
			o.mu.Unlock()
			if _, err := w.Write(line); err != nil {
				return
			}
			o.mu.Lock()
			o.size -= len(line)
			o.mu.Unlock()
		}
	}
}
