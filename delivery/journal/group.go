package journal

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// write is one change on its way to the disk. What arrives while another is being synced waits and is then committed together: a
// sync costs the same for one change as for fifty.
type write struct {
	name string
	key  Key
	// allow checks the state that it starts from and fixes what will be written. It is called right before each commit, when all that
	// came before is known; nil: always allowed.
	allow  func() error
	change func(tx *bbolt.Tx, c *counts) error
	known  func() // brings memory to what the file then holds

	done bool // under Journal.write
	err  error
}

func (w *write) allowed() error {
	if w.allow == nil {
		return nil
	}
	return w.allow()
}

// waiting is what arrived and is not committed, in order.
type waiting struct {
	mu     sync.Mutex
	writes []*write
}

func (q *waiting) add(w *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writes = append(q.writes, w)
}

// take takes what may be committed together: at most one write of an attempt, since the next one starts from what it leaves.
func (q *waiting) take() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := make([]*write, 0, len(q.writes))
	keys := make(map[Key]bool, len(q.writes))
	left := q.writes[:0:0]
	for _, w := range q.writes {
		if keys[w.key] {
			left = append(left, w)
			continue
		}
		keys[w.key] = true
		taken = append(taken, w)
	}
	q.writes = left
	return taken
}

// giveBack returns what was taken and not decided, because whoever led panicked.
func (q *waiting) giveBack(taken []*write) {
	taken = slices.DeleteFunc(taken, func(w *write) bool { return w.done })
	if len(taken) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writes = append(taken, q.writes...)
}

// drop takes a write out that nobody waits for any more, because its caller panicked.
func (q *waiting) drop(w *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writes = slices.DeleteFunc(q.writes, func(o *write) bool { return o == w })
}

// update makes one durable write, together with what others want written at this moment. When it returns nil the write is synced
// and known. When it returns an error the write is not in the file.
func (j *Journal) update(w *write) error {
	j.waiting.add(w)
	j.write.Lock()
	defer j.write.Unlock()
	defer j.waiting.drop(w)
	for !w.done { // twice when another write of the same attempt came first
		j.lead()
	}
	if w.err != nil {
		return fmt.Errorf("journal %s: %w", w.name, w.err)
	}
	return nil
}

// lead commits what waits; j.write is held. What cannot be committed together is committed one by one, so that nobody fails for
// another's write, and allowed anew, because the one before may have taken the room (fault row 19).
func (j *Journal) lead() {
	taken := j.waiting.take()
	defer func() { j.waiting.giveBack(taken) }()
	ready := make([]*write, 0, len(taken))
	for _, w := range taken {
		if w.err = w.allowed(); w.err != nil {
			w.done = true
			continue
		}
		ready = append(ready, w)
	}
	if len(ready) > 1 && j.try(ready...) == nil {
		return
	}
	for _, w := range ready {
		if w.done {
			continue
		}
		if len(ready) > 1 {
			w.err = w.allowed()
		}
		if w.err == nil {
			w.err = j.alone(w)
		}
		w.done = true
	}
}

// alone commits one write. A full disk gets the reserve first, unless more is to be accepted or the write can wait.
func (j *Journal) alone(w *write) error {
	err := j.try(w)
	if errors.Is(err, ErrFull) && w.name != writeAccept && w.name != writeMarked && j.spendReserve() {
		err = j.try(w)
	}
	return err
}
