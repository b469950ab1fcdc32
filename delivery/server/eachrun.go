package server

import "sync"

// eachRun gives every run a lock of its own. It is held over one decision about the run and the write that follows it, so that each
// decision sees what the one before left; the writes of different runs go to the disk together (SPEC.md, Attempt states). It is
// taken before Server.mu, never while that is held.
type eachRun struct {
	mu   sync.Mutex
	held map[string]*runLock
}

type runLock struct {
	sync.Mutex
	users int // who holds it or waits for it; under eachRun.mu
}

// lock takes a run's lock and returns what releases it.
func (e *eachRun) lock(runUID string) (unlock func()) {
	e.mu.Lock()
	l := e.held[runUID]
	if l == nil {
		l = &runLock{}
		e.held[runUID] = l
	}
	l.users++
	e.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		e.mu.Lock()
		defer e.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(e.held, runUID)
		}
	}
}
