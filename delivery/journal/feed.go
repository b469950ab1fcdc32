package journal

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// feed is every attempt that is not recorded yet, in memory, ordered by when it last changed. It changes only after the file did.
type feed struct {
	mu       sync.RWMutex
	revision int64
	order    int64                 // highest stored.Order seen
	byChange *list.List            // of *item, oldest change first
	byKey    map[Key]*list.Element // of *item
	changed  chan struct{}         // closed at the next change
	accepted int
	running  int
	expected map[Key]bool // of which Expect was told
	marked   *list.List   // of mark: recorded, which the file does not say yet; oldest mark first
	byMark   map[Key]*list.Element
}

type item struct {
	stored
	revision int64
}

func (f *feed) init() {
	f.byChange, f.byKey, f.changed = list.New(), map[Key]*list.Element{}, make(chan struct{})
	f.expected, f.marked, f.byMark = map[Key]bool{}, list.New(), map[Key]*list.Element{}
}

// put adds or changes an attempt.
func (f *feed) put(s stored) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := s.key()
	if e := f.byKey[key]; e != nil {
		f.count(e.Value.(*item).Attempt.State, -1)
		f.byChange.Remove(e)
	}
	f.count(s.Attempt.State, 1)
	delete(f.expected, key)
	f.revision++
	f.order = max(f.order, s.Order)
	f.byKey[key] = f.byChange.PushBack(&item{stored: s, revision: f.revision})
	f.wake()
}

// mark takes a recorded attempt out and keeps its mark until the file has it; then its tombstone is read from the file when somebody
// asks. It tells how many marks wait.
func (f *feed) mark(key Key, at time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.byKey[key]; e != nil {
		s := e.Value.(*item).stored
		f.count(s.Attempt.State, -1)
		f.byChange.Remove(e)
		delete(f.byKey, key)
		s.Attempt.Recorded = true
		f.byMark[key] = f.marked.PushBack(mark{stored: s, at: at})
	}
	f.wake()
	return f.marked.Len()
}

// marks are those that the file does not have.
func (f *feed) marks() []mark {
	f.mu.RLock()
	defer f.mu.RUnlock()
	out := make([]mark, 0, f.marked.Len())
	for e := f.marked.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(mark))
	}
	return out
}

// unmark forgets marks that the file has.
func (f *feed) unmark(marks []mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range marks {
		if e := f.byMark[m.key()]; e != nil {
			f.marked.Remove(e)
			delete(f.byMark, m.key())
		}
	}
}

func (f *feed) count(s wire.State, by int) {
	if s == wire.StateAccepted {
		f.accepted += by
	}
	if s == wire.StateRunning {
		f.running += by
	}
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// lastOrder is that of the attempt which was first seen last.
func (f *feed) lastOrder() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.order
}

// inState lists attempts in the order they were first seen.
func (f *feed) inState(want func(wire.State) bool) []stored {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var out []stored
	for e := f.byChange.Front(); e != nil; e = e.Next() {
		if it := e.Value.(*item); want(it.Attempt.State) {
			out = append(out, it.stored)
		}
	}
	slices.SortFunc(out, func(a, b stored) int { return cmp.Compare(a.Order, b.Order) })
	return out
}

func (f *feed) get(key Key) (stored, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if e := f.byKey[key]; e != nil {
		return e.Value.(*item).stored, true
	}
	return stored{}, false
}

// known is get, of what is marked as recorded and not yet so in the file too.
func (f *feed) known(key Key) (stored, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if e := f.byKey[key]; e != nil {
		return e.Value.(*item).stored, true
	}
	if e := f.byMark[key]; e != nil {
		return e.Value.(mark).stored, true
	}
	return stored{}, false
}

// Expect counts an attempt as accepted before Accept has synced it, so that two decisions at the same moment do not give the last
// place away twice. Unexpect takes that back; it does nothing once Accept has it.
func (j *Journal) Expect(key Key) {
	j.feed.mu.Lock()
	defer j.feed.mu.Unlock()
	j.feed.expected[key] = true
}

// Unexpect: see Expect.
func (j *Journal) Unexpect(key Key) {
	j.feed.mu.Lock()
	defer j.feed.mu.Unlock()
	delete(j.feed.expected, key)
}

// Touch makes a new revision without a change of an attempt, for what rides on the feed: the agent's state, draining.
func (j *Journal) Touch() {
	j.feed.mu.Lock()
	defer j.feed.mu.Unlock()
	j.feed.revision++
	j.feed.wake()
}

// Changed is closed at the next change. Take it before looking, so that no change is missed.
func (j *Journal) Changed() <-chan struct{} {
	j.feed.mu.RLock()
	defer j.feed.mu.RUnlock()
	return j.feed.changed
}

// Counts tells how many attempts are accepted, or expected to be, and how many are running.
func (j *Journal) Counts() (accepted, running int) {
	j.feed.mu.RLock()
	defer j.feed.mu.RUnlock()
	return j.feed.accepted + len(j.feed.expected), j.feed.running
}

// Accepted lists what is accepted and not started, in the order it came.
func (j *Journal) Accepted() []Entry {
	return entries(j.feed.inState(func(s wire.State) bool { return s == wire.StateAccepted }))
}

// Ended lists what ended and is not marked as recorded, in the order it came.
func (j *Journal) Ended() []Entry { return entries(j.feed.inState(wire.State.Ended)) }

func entries(open []stored) []Entry {
	out := make([]Entry, len(open))
	for i, s := range open {
		out[i] = s.entry()
	}
	return out
}

// Unrecorded tells how many attempts ended and are not marked as recorded.
func (j *Journal) Unrecorded() int {
	return len(j.feed.inState(wire.State.Ended))
}

// Page is part of the change feed.
type Page struct {
	Revision int64 // ask for this next
	Runs     []wire.Attempt
	More     bool
}

// Changes lists what changed after a revision of this boot, oldest change first, up to a number of encoded bytes. Attempts
// that are recorded are not in it: nobody has anything left to do about them. An attempt that ended stays until it is.
func (j *Journal) Changes(since int64, maxBytes int) (Page, error) {
	f := &j.feed
	f.mu.RLock()
	defer f.mu.RUnlock()
	e := f.byChange.Back()
	for e != nil && e.Value.(*item).revision > since {
		e = e.Prev()
	}
	if e == nil {
		e = f.byChange.Front()
	} else {
		e = e.Next()
	}
	page := Page{Revision: max(since, f.revision), Runs: []wire.Attempt{}}
	size, last := 0, since
	for ; e != nil; e = e.Next() {
		it := e.Value.(*item)
		encoded, err := wire.Encode(it.Attempt)
		if err != nil {
			return Page{}, err //nolint:wrapcheck // says what it is
		}
		size += len(encoded) + 1
		if size > maxBytes && len(page.Runs) > 0 {
			page.Revision, page.More = last, true
			return page, nil
		}
		page.Runs = append(page.Runs, it.Attempt)
		last = it.revision
	}
	return page, nil
}

// Revision is the newest revision of the feed.
func (j *Journal) Revision() int64 {
	j.feed.mu.RLock()
	defer j.feed.mu.RUnlock()
	return j.feed.revision
}
