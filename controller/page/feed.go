package page

import "sync"

// feed counts changes and wakes who waits for the next one. Nothing is queued: who comes late finds the latest count.
type feed struct {
	mu      sync.Mutex
	version uint64
	next    chan struct{} // closed at the next change; nil while nobody waits
}

func newFeed() *feed { return &feed{} }

func (f *feed) bump() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	if f.next != nil {
		close(f.next)
		f.next = nil
	}
}

// now is the count of changes so far.
func (f *feed) now() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

// wait gives the count of changes so far and what closes at the next one.
func (f *feed) wait() (uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = make(chan struct{})
	}
	return f.version, f.next
}
