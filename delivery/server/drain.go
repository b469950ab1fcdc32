package server

import (
	"context"
	"time"
)

// Times of a drain (SPEC.md, Harness, Drain). Together with the end of the listener they fit into the 30 s of a grace period
// that are kept for what comes after the drain's limit.
const (
	// CancelWait is how long a cancelled turn may take to end: the whole cancel ladder (10 s for the agent's answer, 2 s for its
	// processes to go, 5 s until SIGKILL) and a second for what SIGKILL ends.
	CancelWait = 18 * time.Second
	// HandoverWait is how long ended attempts wait to be marked as recorded, and what has not ended by then to end.
	HandoverWait = 10 * time.Second
)

// Drain ends the server's work: new deliveries get 503 draining, what has not started is voided, what runs may go on for the
// limit and is then cancelled. It returns when nothing runs and every ended attempt was recorded, or HandoverWait after that was
// cancelled or ended. An ended ctx cancels what runs at once. The handler keeps answering throughout; Close comes after.
func (s *Server) Drain(ctx context.Context, limit time.Duration) {
	s.draining.Store(true)
	s.mu.Lock()
	waiting := append([]*attempt{}, s.queue...)
	for _, a := range s.active {
		if !a.started {
			waiting = append(waiting, a)
		}
	}
	s.mu.Unlock()
	for _, a := range waiting {
		unlock := s.runs.lock(a.key.RunUID)
		s.voidWaiting(a)
		unlock()
	}
	s.cfg.Journal.Touch()

	if !s.idle(ctx, limit) {
		s.mu.Lock()
		for _, a := range s.active {
			a.cancel(ErrDrained)
		}
		s.mu.Unlock()
		if !s.idle(context.WithoutCancel(ctx), CancelWait) {
			s.cfg.Log.Error("a cancelled turn did not end in time", "waited", CancelWait)
		}
	}
	s.handover()
}

// voidWaiting voids what has not started; the run's lock is held.
func (s *Server) voidWaiting(a *attempt) {
	if !s.waits(a) {
		return
	}
	if err := s.void(a); err != nil {
		s.cfg.Log.Error("an attempt that has not started could not be voided; it would run after a restart", "runUID", a.key.RunUID, "cause", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.cancel != nil {
			a.cancel(errVoided)
		}
	}
}

// running counts what has not left the runner; its end may not be journalled yet.
func (s *Server) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}

// idle waits until nothing runs; false when the limit or ctx came first.
func (s *Server) idle(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for s.running() > 0 {
		select {
		case <-s.left:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// handover waits until callers have recorded all that ended. What still runs will end and be handed over too.
func (s *Server) handover() {
	timer := time.NewTimer(HandoverWait)
	defer timer.Stop()
	for {
		changed := s.cfg.Journal.Changed()
		active, unrecorded := s.running(), s.cfg.Journal.Unrecorded()
		if active == 0 && unrecorded == 0 {
			return
		}
		select {
		case <-changed:
		case <-s.left:
		case <-timer.C:
			s.cfg.Log.Warn("the harness ends with work that was not handed over; it stays in the journal", "running", active, "unrecorded", unrecorded)
			return
		}
	}
}
