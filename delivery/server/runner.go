package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Work is one goal to carry out.
type Work struct {
	Run     wire.RunRef
	Attempt int64
	Goal    string
	Session wire.SessionMode
	Limits  wire.Limits
	Trace   trace.SpanContext // what it is a part of; zero: nothing that is known
}

// Runner carries out goals. It is the only view the server has of an agent.
type Runner interface {
	// Run blocks until the work has stopped and returns its end. It calls start exactly once, right before the goal is sent to
	// the agent, with the session it is sent in; when start fails nothing is sent and Run returns. A Run that returns without
	// a successful start did not start the work, whatever it returns: the work is tried again. A cancelled ctx asks it to stop;
	// context.Cause says why, in words for the envelope.
	Run(ctx context.Context, w Work, start func(session string) error) wire.Envelope
	// Agent tells how the agent is. It does not block, and never answers draining.
	Agent() wire.AgentInfo
}

// Why a Run's context ends.
var (
	// ErrCancelled: the caller asked for it.
	ErrCancelled = errors.New("the run was cancelled")
	// ErrDrained: the harness ends and the run took longer than the drain.
	ErrDrained = errors.New("the harness was drained before the run ended")
	// ErrClosing: the harness ends at once.
	ErrClosing = errors.New("the harness is closing")
	// errVoided: the attempt was voided before it started.
	errVoided = errors.New("the attempt was voided before it started")
)
