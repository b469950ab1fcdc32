package kontext

import (
	"context"
	"errors"
	"fmt"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// errAgain: nothing can be told now and nothing was started; the caller is to come again.
var errAgain = errors.New("come again")

// deliver finds out how a run ended: from the journal when it was seen before, or by waiting for its turn. A *wire.Problem is a
// refusal for good; errAgain means that the caller left, or that it is to come again.
func (s *Server) deliver(ctx context.Context, r Request) (wire.Envelope, error) {
	t, known, err := s.find(ctx, r)
	switch {
	case err != nil:
		return wire.Envelope{}, err
	case known != nil:
		return told(known)
	}
	select {
	case <-t.ended:
		s.waiting.leave(t, ctx)
		return told(t.entry)
	case <-ctx.Done():
		s.leave(t, ctx)
		return wire.Envelope{}, errAgain
	}
}

// find decides about a request: what the journal has, or a turn to wait for, which it starts when the run was never started. A
// run has one start, so an attempt that was voided, which never started, may be followed by another.
func (s *Server) find(ctx context.Context, r Request) (*turn, *journal.Entry, error) {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	if ctx.Err() != nil || s.life.Err() != nil {
		return nil, nil, errAgain
	}
	key := journal.Key{RunUID: r.Run.UID, Attempt: 1}
	last, err := s.cfg.Journal.History(key)
	if err != nil {
		return nil, nil, s.fault("look up a run", key, err)
	}
	if last.Highest == 0 {
		return s.start(ctx, key, r)
	}
	key.Attempt = last.Highest
	entry, err := s.cfg.Journal.Get(key)
	if err != nil {
		return nil, nil, s.fault("read a run", key, err)
	}
	switch {
	case entry.Digest != "" && entry.Digest != wire.Digest(key.RunUID, key.Attempt, r.Goal):
		return nil, nil, wire.NewProblem(wire.CodeDigestMismatch, "the run is known with another goal")
	case entry.State == wire.StateVoided:
		key.Attempt++
		return s.start(ctx, key, r)
	case entry.State == wire.StateFinished:
		return nil, &entry, nil
	}
	if t := s.waiting.join(key, ctx); t != nil {
		return t, nil, nil
	}
	t := s.waiting.open(key, ctx) // everybody left, and it has not ended yet
	s.watch(t)
	return t, nil, nil
}

// start journals an attempt and has it run. The turn is there before it can start, or nobody would seem to want it.
func (s *Server) start(ctx context.Context, key journal.Key, r Request) (*turn, *journal.Entry, error) {
	t := s.waiting.open(key, ctx)
	p := s.runs.Submit(wire.DeliveryRequest{APIVersion: APIVersion, Run: r.Run, Attempt: key.Attempt, Goal: r.Goal}) //nolint:contextcheck // what was admitted outlives who asked for it
	if p == nil {
		s.watch(t)
		return t, nil, nil
	}
	s.waiting.close(t)
	switch p.Code { //nolint:exhaustive // the rest is for good
	case wire.CodeBusy, wire.CodeDraining, wire.CodeAgentUnavailable:
		return nil, nil, fmt.Errorf("%w: %s", errAgain, p.Code)
	default:
		return nil, nil, p
	}
}

// leave takes a caller out; when it was the last, the turn is stopped, before anybody else can join it.
func (s *Server) leave(t *turn, caller context.Context) {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	if !s.waiting.leave(t, caller) {
		return
	}
	if p := s.runs.Withdraw(t.key); p != nil {
		s.cfg.Log.Error("a run that nobody waits for could not be stopped", "runUID", t.key.RunUID, "cause", p)
		return
	}
	s.cfg.Log.Info("nobody waits for the run any more: stopped", "runUID", t.key.RunUID, "attempt", t.key.Attempt)
}

// watch tells a turn's callers when it ended. The journal then counts it as recorded: this contract has no call that says so.
func (s *Server) watch(t *turn) {
	s.watched.Go(func() {
		defer close(t.ended)
		for over := false; ; {
			changed := s.cfg.Journal.Changed()
			if entry, err := s.cfg.Journal.Get(t.key); err == nil && entry.State.Ended() {
				t.entry = &entry
				s.waiting.close(t)
				if p := s.runs.Recorded(t.key); p != nil {
					s.cfg.Log.Error("an ended run could not be marked; the next boot does", "runUID", t.key.RunUID, "cause", p)
				}
				return
			}
			if over {
				return
			}
			select {
			case <-changed:
			case <-s.life.Done():
				over = true // one more look: what ended last is told, too
			}
		}
	})
}

// told is what a caller is told of an attempt that is over.
func told(e *journal.Entry) (wire.Envelope, error) {
	switch {
	case e == nil:
		return wire.Envelope{}, fmt.Errorf("%w: the harness ends", errAgain)
	case e.State == wire.StateVoided:
		return wire.Envelope{}, fmt.Errorf("%w: it was not started", errAgain)
	case e.Forgotten || e.Envelope == nil:
		return wire.Envelope{}, wire.NewProblem(wire.CodeForgotten, "the run ended long ago and its result was dropped")
	default:
		return *e.Envelope, nil
	}
}

// fault logs what the journal said; its text may name paths, so no caller gets it.
func (s *Server) fault(what string, key journal.Key, err error) *wire.Problem {
	s.cfg.Log.Error("the journal failed", "while", what, "runUID", key.RunUID, "cause", err)
	return wire.NewProblem(wire.CodeInternal, "the journal failed")
}
