package server

import (
	"net/http"

	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/internal/tracing"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// cancel stops an attempt, or voids it when it has not started.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) {
	key, q, p := attemptKey(r, wire.QueryIfNotStarted)
	value, ifNotStarted := q[wire.QueryIfNotStarted]
	if p == nil && value != "" && value != "true" {
		p = wire.Malformed(wire.QueryIfNotStarted, "no value, or true")
	}
	if p == nil {
		p = noBody(r)
	}
	status := 0
	if p == nil {
		status, p = s.stop(key, ifNotStarted)
	}
	if p != nil {
		writeProblem(w, p)
		return
	}
	s.log(key, wire.RunRef{}, tracing.FromHeaders(r.Header)).Info("cancel asked for", "status", status)
	s.writeAttempt(w, status, key)
}

// stop decides about a cancel and carries it out under the run's lock: between the look and the void nothing can start.
func (s *Server) stop(key journal.Key, ifNotStarted bool) (int, *wire.Problem) {
	defer s.runs.lock(key.RunUID)()
	held, err := s.held(key)
	if err != nil {
		return 0, s.fault(err)
	}
	c := delivery.Cancel(held, ifNotStarted)
	switch c.Kind {
	case delivery.CancellationVoid:
		if a := s.alive(key); a != nil {
			err = s.void(a)
		} else {
			_, err = s.cfg.Journal.VoidUnseen(key)
		}
		if err != nil {
			return 0, s.fault(err)
		}
		return http.StatusOK, nil
	case delivery.CancellationStop:
		s.stopRunning(key, c.Known.CancelRequested)
		return http.StatusAccepted, nil
	case delivery.CancellationEnded:
		return http.StatusOK, nil
	case delivery.CancellationRefuse:
		return 0, c.Problem
	default:
		return 0, wire.NewProblem(wire.CodeInternal, "no such decision")
	}
}

// stopRunning asks a turn to stop. A journal that cannot note it does not stand in the way: the work stops in this boot, and
// no other boot continues it.
func (s *Server) stopRunning(key journal.Key, requested bool) {
	if !requested {
		if _, err := s.cfg.Journal.RequestCancel(key); err != nil {
			s.cfg.Log.Error("a cancel could not be journalled; the turn is stopped all the same", "runUID", key.RunUID, "cause", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.active[key]; a != nil {
		a.cancel(ErrCancelled)
	}
}
