package server

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// store journals the end of an attempt. While the journal cannot take it nobody is told: the attempt stays running in the
// feed and the write is tried again, loudly, until it works or the harness ends (then the next boot says Interrupted).
func (s *Server) store(a *attempt, envelope wire.Envelope) {
	envelope = envelope.Fit(wire.MaxEnvelopeBytes) // whatever it holds, it is valid and a cut is recorded (SPEC.md, Envelope)
	for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
		err := s.finish(a, envelope)
		if err == nil {
			s.log(a.key, a.run, a.in).Info("finished", "outcome", envelope.Outcome, "reason", envelope.Reason)
			return
		}
		s.log(a.key, a.run, a.in).Error("the result of an attempt cannot be stored and is not served", "retry", wait, "cause", err)
		if errors.Is(err, journal.ErrState) {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.life.Done():
			timer.Stop()
			return
		}
	}
}

// finish journals the end of an attempt once. A panic is an error: nobody else would end the attempt in this boot (fault row 42).
func (s *Server) finish(a *attempt, envelope wire.Envelope) (err error) {
	defer s.runs.lock(a.key.RunUID)()
	defer func() {
		if p := recover(); p != nil { // it may hold an output: its type is enough
			err = fmt.Errorf("panic while storing: %T:\n%s", p, debug.Stack())
		}
	}()
	if _, err := s.cfg.Journal.Finish(a.key, envelope); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}

// sessionName makes an agent's word into a name of the wire (SPEC.md, Limits): callers refuse a state with a longer one.
func sessionName(session string) string {
	return wire.CutText(wire.CleanText(session), wire.MaxNameBytes)
}

func failed(reason wire.Reason, message string, began, ended time.Time) wire.Envelope {
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeFailed, Reason: reason, Message: message,
		Timing: wire.Timing{StartedAt: began.UTC(), FinishedAt: ended.UTC(), DurationMillis: max(0, ended.Sub(began).Milliseconds())},
	}
}
