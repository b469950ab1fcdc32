package server

import (
	"context"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Submit, Withdraw and Recorded are for the listener of another contract in this process (SPEC.md, The older contract). Each
// decides and acts as the endpoint of the wire does. Authenticating and decoding are that listener's.

// Submit accepts an attempt as POST …/agent-runs does; its apiVersion says which contract it is journalled under. Target and
// journal are the server's own and need not be set. A nil Problem means that it is journalled and will run.
func (s *Server) Submit(r wire.DeliveryRequest) *wire.Problem {
	r.Target = wire.Target{Name: s.cfg.Identity.PodName, UID: s.cfg.Identity.PodUID}
	r.Journal = s.cfg.Journal.ID()
	_, p := s.admitIn(context.Background(), journal.Key{RunUID: r.Run.UID, Attempt: r.Attempt}, r)
	return p
}

// Withdraw stops an attempt as DELETE …/agent-runs/{uid} does: one that has not started never will, one that runs is cancelled.
func (s *Server) Withdraw(key journal.Key) *wire.Problem {
	_, p := s.stop(key, false)
	return p
}

// Recorded marks an ended attempt as POST …/recorded does.
func (s *Server) Recorded(key journal.Key) *wire.Problem { return s.record(key) }
