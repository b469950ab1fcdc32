package server

import (
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/internal/tracing"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// spanAccept is the span of a delivery, from its decoding to the journal's sync (SPEC.md, Traces).
const spanAccept = "hearth.accept"

// about says which attempt a span is of.
func about(key journal.Key, run wire.RunRef) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("hearth.run.uid", key.RunUID), attribute.String("hearth.run.name", run.Name),
		attribute.Int64("hearth.attempt", key.Attempt), attribute.String("k8s.namespace.name", run.Namespace),
	}
}

// remembered is a context as the journal keeps it, so that a turn after a restart belongs to its trace.
func remembered(sc trace.SpanContext) journal.Trace {
	parent, state := tracing.Format(sc)
	return journal.Trace{Parent: parent, State: state}
}

// Recall is a context that the journal kept; zero where it kept none.
func Recall(t journal.Trace) trace.SpanContext { return tracing.Take(t.Parent, t.State) }

// log names the attempt that is told of, with its run as far as that is known, and the trace that it belongs to.
func (s *Server) log(key journal.Key, run wire.RunRef, in trace.SpanContext) *slog.Logger {
	log := s.cfg.Log
	if run.Name != "" {
		log = log.With("namespace", run.Namespace, "run", run.Name)
	}
	log = log.With("runUID", key.RunUID, "attempt", key.Attempt)
	if in.HasTraceID() {
		log = log.With("trace_id", in.TraceID().String())
	}
	return log
}
