package server

import (
	"context"
	"time"
)

// Times of a drain (SPEC.md, Harness, Drain).
const (
	// CancelWait is how long a cancelled turn may take to end: the whole cancel ladder.
	CancelWait = 15 * time.Second
	// HandoverWait is how long ended attempts wait to be marked as recorded.
	HandoverWait = 10 * time.Second
)

// Drain ends the server's work: new deliveries get 503 draining, what has not started is voided, what runs may go on for the
// limit and is then cancelled. It returns when every ended attempt was recorded, or HandoverWait after the last ended. An
// ended ctx cancels what runs at once. The handler keeps answering throughout; Close comes after.
func (s *Server) Drain(ctx context.Context, limit time.Duration) {
	s.mu.Lock()
	s.draining = true
	waiting := append([]*job{}, s.queue...)
	for _, j := range s.active {
		if !j.started {
			waiting = append(waiting, j)
		}
	}
	for _, j := range waiting {
		if _, err := s.void(j); err != nil {
			s.cfg.Log.Error("an attempt that has not started could not be voided; it would run after a restart", "run", j.key.RunUID, "cause", err)
			if j.cancel != nil {
				j.cancel(errVoided)
			}
		}
	}
	s.mu.Unlock()
	s.cfg.Journal.Touch()

	if !s.idle(ctx, limit) {
		s.mu.Lock()
		for _, j := range s.active {
			j.cancel(ErrDrained)
		}
		s.mu.Unlock()
		if !s.idle(context.WithoutCancel(ctx), CancelWait) {
			s.cfg.Log.Error("a cancelled turn did not end in time", "waited", CancelWait)
		}
	}
	s.handover()
}

// idle waits until nothing runs; false when the limit or ctx came first.
func (s *Server) idle(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s.mu.Lock()
		n := len(s.active)
		s.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-s.left:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Server) handover() {
	timer := time.NewTimer(HandoverWait)
	defer timer.Stop()
	for {
		changed := s.cfg.Journal.Changed()
		n := s.cfg.Journal.Unrecorded()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			s.cfg.Log.Warn("ended attempts were not recorded in time; they stay in the journal", "attempts", n)
			return
		}
	}
}
