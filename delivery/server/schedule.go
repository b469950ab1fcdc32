package server

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// job is an attempt that is alive in this boot. Its fields are under Server.mu.
type job struct {
	key     journal.Key
	run     wire.RunRef
	order   int64 // in which it was accepted
	started bool
	voided  bool
	cancel  context.CancelCauseFunc // set while it is active
	expiry  *time.Timer             // voids it when it has not started in time
}

func (j *job) stopTimer() {
	if j.expiry != nil {
		j.expiry.Stop()
	}
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
	s.enqueue(key, a.Run, work.Limits, waited)
	return nil
}

// enqueue puts an accepted attempt at the end of the queue; s.mu is held.
func (s *Server) enqueue(key journal.Key, run wire.RunRef, limits wire.Limits, waited time.Duration) {
	s.orders++
	j := &job{key: key, run: run, order: s.orders}
	s.queue = append(s.queue, j)
	if limits.StartWithinSeconds != nil {
		left := max(0, time.Duration(*limits.StartWithinSeconds)*time.Second-waited)
		j.expiry = time.AfterFunc(left, func() { s.expire(j) })
	}
}

// expire voids an attempt that did not start in time (startWithinSeconds, on the monotonic clock). One that started goes on.
func (s *Server) expire(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.started || j.voided || s.life.Err() != nil {
		return
	}
	if _, err := s.void(j); err != nil {
		s.cfg.Log.Error("an attempt that did not start in time could not be voided; it is tried again", "run", j.key.RunUID, "cause", err)
		j.expiry = time.AfterFunc(firstRetry, func() { s.expire(j) })
		return
	}
	s.cfg.Log.Info("voided: not started within its limit", "run", j.key.RunUID, "attempt", j.key.Attempt)
}

// void journals that a job never starts and takes it out of the way; s.mu is held.
func (s *Server) void(j *job) (wire.Attempt, error) {
	a, err := s.cfg.Journal.Void(j.key)
	if err != nil {
		return a, fmt.Errorf("void: %w", err)
	}
	j.voided = true
	j.stopTimer()
	if j.cancel != nil {
		j.cancel(errVoided)
	}
	s.queue = slices.DeleteFunc(s.queue, func(q *job) bool { return q == j })
	return a, nil
}

// find is the living job of an attempt; s.mu is held.
func (s *Server) find(key journal.Key) *job {
	if j := s.active[key]; j != nil {
		return j
	}
	for _, j := range s.queue {
		if j.key == key {
			return j
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
		j := s.queue[0]
		s.queue = s.queue[1:]
		s.active[j.key] = j
		ctx, cancel := context.WithCancelCause(s.life)
		j.cancel = cancel
		s.jobs.Go(func() {
			defer cancel(nil)
			s.run(ctx, j)
		})
	}
}

// run carries out one job and puts it back when it did not start: the agent went away before it took the goal.
func (s *Server) run(ctx context.Context, j *job) {
	envelope := s.carryOut(ctx, j)
	s.mu.Lock()
	started := j.started
	s.mu.Unlock()
	if started {
		s.store(j, envelope)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, j.key)
	if !started && !j.voided {
		j.cancel = nil
		s.queue = append(s.queue, j)
		slices.SortFunc(s.queue, func(a, b *job) int { return cmp.Compare(a.order, b.order) })
		s.pause.begin(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pause.on = false
			s.dispatch()
		})
	} else {
		j.stopTimer()
		s.pause.reset()
	}
	select {
	case s.left <- struct{}{}:
	default:
	}
	s.dispatch()
}

// carryOut calls the runner. A runner that panics ends the attempt as failed; the process lives (row 42).
func (s *Server) carryOut(ctx context.Context, j *job) (envelope wire.Envelope) {
	began := s.cfg.Now()
	defer func() {
		if r := recover(); r != nil {
			s.panics.Add(1)
			s.cfg.Log.Error("panic while running an attempt", "run", j.key.RunUID, "type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			envelope = failed(wire.ReasonAgentError, "the harness failed while running the goal", began, s.cfg.Now())
		}
	}()
	work, err := s.cfg.Journal.Work(j.key)
	if err != nil {
		s.cfg.Log.Error("the goal of an accepted attempt cannot be read; it is tried again", "run", j.key.RunUID, "cause", err)
		return wire.Envelope{}
	}
	w := Work{Run: j.run, Attempt: j.key.Attempt, Goal: work.Goal, Session: work.Session, Limits: work.Limits}
	return s.cfg.Runner.Run(ctx, w, func(session string) error { return s.start(ctx, j, session) })
}

// start journals that the goal is about to be sent. It is durable before the runner sends it.
func (s *Server) start(ctx context.Context, j *job, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.started:
		return fmt.Errorf("start: %w: it was called before", journal.ErrState)
	case j.voided || s.draining.Load():
		return errVoided
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if _, err := s.cfg.Journal.Start(j.key, sessionName(session)); err != nil {
		s.cfg.Log.Error("an attempt could not be journalled as started, so it was not; it is tried again", "run", j.key.RunUID, "cause", err)
		return fmt.Errorf("start: %w", err)
	}
	j.started = true
	j.stopTimer()
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
