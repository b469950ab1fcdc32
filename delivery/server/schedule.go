package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// attempt is one that is alive in this boot. Its fields are under Server.mu; started and voided change with the run's lock held, too.
type attempt struct {
	key     journal.Key
	run     wire.RunRef
	order   int64 // in which it was accepted
	started bool
	voided  bool
	cancel  context.CancelCauseFunc // set while it is active
	expiry  *time.Timer             // voids it when it has not started in time
	in      trace.SpanContext       // the trace that it belongs to
}

func (a *attempt) stopTimer() {
	if a.expiry != nil {
		a.expiry.Stop()
	}
}

// takeOver queues what the last boot left accepted and somebody still wants; s.mu is held. What nobody will ask about is put
// right: an accepted attempt of another contract, or one whose callers ended with the last boot, never starts, and what ended
// under another contract than the wire's counts as recorded, because that contract has no way to say so.
func (s *Server) takeOver() error {
	for _, e := range s.cfg.Journal.Accepted() {
		key := journal.Key{RunUID: e.Run.UID, Attempt: e.Attempt.Attempt}
		wanted := e.Contract == wire.APIVersion
		if s.cfg.Wanted != nil {
			wanted = s.cfg.Wanted(key)
		}
		if wanted {
			if err := s.resume(e.Attempt); err != nil {
				return err
			}
			continue
		}
		if _, err := s.cfg.Journal.Void(key); err != nil {
			return fmt.Errorf("attempt %d of run %s, which nobody waits for: %w", key.Attempt, key.RunUID, err)
		}
		s.cfg.Log.Info("voided: nobody waits for it any more", "runUID", key.RunUID, "attempt", key.Attempt)
	}
	for _, e := range s.cfg.Journal.Ended() {
		if e.Contract == wire.APIVersion {
			continue
		}
		if err := s.cfg.Journal.Recorded(journal.Key{RunUID: e.Run.UID, Attempt: e.Attempt.Attempt}); err != nil {
			return fmt.Errorf("attempt %d of run %s, which nobody marks as recorded: %w", e.Attempt.Attempt, e.Run.UID, err)
		}
	}
	return nil
}

// resume queues an accepted attempt; s.mu is held. Across a restart only the wall clock can say how long it has waited.
func (s *Server) resume(a wire.Attempt) error {
	key := journal.Key{RunUID: a.Run.UID, Attempt: a.Attempt}
	work, err := s.cfg.Journal.Work(key)
	if err != nil {
		return fmt.Errorf("accepted attempt %d of run %s: %w", key.Attempt, key.RunUID, err)
	}
	var waited time.Duration
	if a.AcceptedAt != nil {
		waited = max(0, s.cfg.Now().Sub(*a.AcceptedAt))
	}
	s.enqueue(key, a.Run, work.Limits, waited, Recall(work.Trace))
	return nil
}

// enqueue puts an accepted attempt at the end of the queue; s.mu is held.
func (s *Server) enqueue(key journal.Key, run wire.RunRef, limits wire.Limits, waited time.Duration, in trace.SpanContext) *attempt {
	s.orders++
	a := &attempt{key: key, run: run, order: s.orders, in: in}
	s.queue = append(s.queue, a)
	if limits.StartWithinSeconds != nil && s.life.Err() == nil {
		left := max(0, time.Duration(*limits.StartWithinSeconds)*time.Second-waited)
		a.expiry = time.AfterFunc(left, func() { s.expire(a) })
	}
	return a
}

// expire voids an attempt that did not start in time (startWithinSeconds, on the monotonic clock). One that started goes on.
func (s *Server) expire(a *attempt) {
	defer s.runs.lock(a.key.RunUID)()
	if !s.waits(a) || s.life.Err() != nil {
		return
	}
	if err := s.void(a); err != nil {
		s.log(a.key, a.run, a.in).Error("an attempt that did not start in time could not be voided; it is tried again", "cause", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.life.Err() == nil {
			a.expiry = time.AfterFunc(firstRetry, func() { s.expire(a) })
		}
		return
	}
	s.log(a.key, a.run, a.in).Info("voided: not started within its limit")
}

// waits: it has not started and still may; the run's lock is held.
func (s *Server) waits(a *attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !a.started && !a.voided
}

// void journals that an attempt never starts and takes it out of the way; the run's lock is held.
func (s *Server) void(a *attempt) error {
	if _, err := s.cfg.Journal.Void(a.key); err != nil {
		return fmt.Errorf("void: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.voided = true
	a.stopTimer()
	if a.cancel != nil {
		a.cancel(errVoided)
	}
	s.queue = slices.DeleteFunc(s.queue, func(q *attempt) bool { return q == a })
	return nil
}

// alive is find for who does not hold s.mu.
func (s *Server) alive(key journal.Key) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(key)
}

// find is an attempt that is alive, or nil; s.mu is held.
func (s *Server) find(key journal.Key) *attempt {
	if a := s.active[key]; a != nil {
		return a
	}
	for _, a := range s.queue {
		if a.key == key {
			return a
		}
	}
	return nil
}

// dispatch starts what may start, first in first out; s.mu is held. An attempt outlives the request that delivered it.
//
//nolint:contextcheck // an attempt's context ends with Close
func (s *Server) dispatch() {
	for len(s.queue) > 0 && len(s.active) < s.cfg.Concurrency {
		if s.pause.on || s.draining.Load() || s.life.Err() != nil || s.cfg.Runner.Agent().State != wire.AgentReady {
			return
		}
		a := s.queue[0]
		s.queue = s.queue[1:]
		s.active[a.key] = a
		ctx, cancel := context.WithCancelCause(s.life)
		a.cancel = cancel
		s.work.Go(func() {
			defer cancel(nil)
			s.run(ctx, a)
		})
	}
}

// run carries out one attempt and puts it back when it did not start: the agent went away before it took the goal.
func (s *Server) run(ctx context.Context, a *attempt) {
	envelope := s.carryOut(ctx, a)
	s.mu.Lock()
	started := a.started
	s.mu.Unlock()
	if started {
		s.store(a, envelope)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, a.key)
	if !started && !a.voided {
		a.cancel = nil
		s.queue = append(s.queue, a)
		slices.SortFunc(s.queue, func(x, y *attempt) int { return cmp.Compare(x.order, y.order) })
		s.pause.begin(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pause.on = false
			s.dispatch()
		})
	} else {
		a.stopTimer()
		s.pause.reset()
	}
	select {
	case s.left <- struct{}{}:
	default:
	}
	s.dispatch()
}

// carryOut calls the runner. A runner that panics ends the attempt as failed; the process lives (row 42).
func (s *Server) carryOut(ctx context.Context, a *attempt) (envelope wire.Envelope) {
	began := s.cfg.Now()
	defer func() {
		if r := recover(); r != nil {
			s.log(a.key, a.run, a.in).Error("panic while running an attempt", "type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			envelope = failed(wire.ReasonAgentError, "the harness failed while running the goal", began, s.cfg.Now())
		}
	}()
	work, err := s.cfg.Journal.Work(a.key)
	if err != nil {
		s.log(a.key, a.run, a.in).Error("the goal of an accepted attempt cannot be read; it is tried again", "cause", err)
		return wire.Envelope{}
	}
	w := Work{Run: a.run, Attempt: a.key.Attempt, Goal: work.Goal, Session: work.Session, Limits: work.Limits, Trace: a.in}
	return s.cfg.Runner.Run(ctx, w, func(session string) error {
		err := s.start(ctx, a, session)
		if err == nil {
			s.log(a.key, a.run, a.in).Info("started")
		}
		return err
	})
}

// start journals that the goal is about to be sent. It is durable before the runner sends it.
func (s *Server) start(ctx context.Context, a *attempt, session string) error {
	defer s.runs.lock(a.key.RunUID)()
	s.mu.Lock()
	started, voided := a.started, a.voided
	s.mu.Unlock()
	switch {
	case started:
		return fmt.Errorf("start: %w: it was called before", journal.ErrState)
	case voided || s.draining.Load():
		return errVoided
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.cfg.Wanted != nil && !s.cfg.Wanted(a.key):
		return errors.Join(errVoided, s.void(a))
	}
	defer func() { // also after a panic: an attempt that the journal has as running is never started again (fault row 42)
		if e, err := s.cfg.Journal.Get(a.key); err == nil && e.State == wire.StateRunning {
			s.mu.Lock()
			defer s.mu.Unlock()
			a.started = true
			a.stopTimer()
		}
	}()
	if _, err := s.cfg.Journal.Start(a.key, sessionName(session)); err != nil {
		s.log(a.key, a.run, a.in).Error("an attempt could not be journalled as started, so it was not; it is tried again", "cause", err)
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// pause is how long nothing is started after an attempt could not start: doubling, until one does or the agent changes.
type pause struct {
	on    bool
	next  time.Duration
	timer *time.Timer
}

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

func (p *pause) begin(over func()) {
	p.stop()
	p.on = true
	p.next = min(max(firstPause, 2*p.next), maxPause)
	p.timer = time.AfterFunc(p.next, over)
}

func (p *pause) reset() {
	p.stop()
	*p = pause{}
}

func (p *pause) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
