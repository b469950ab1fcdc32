package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	"github.com/hearthdev/hearth/internal/tracing"
	"github.com/hearthdev/hearth/internal/version"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/attach"
	"github.com/hearthdev/hearth/runtime/metrics"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/runtime/turn"
)

const (
	flagMetrics = "metrics-listen"
	service     = "hearth-harness"
)

// metricsFlag adds the flag that says where metrics are served.
func metricsFlag(fs *pflag.FlagSet, into *string) {
	fs.StringVar(into, flagMetrics, fmt.Sprintf(":%d", metrics.DefaultPort), "where "+metrics.Path+" is served; 0 or off: nowhere")
}

// signals are a harness's metrics and traces.
type signals struct {
	set    *metrics.Set
	tracer trace.Tracer
	log    *slog.Logger

	flush    func(context.Context) error // the last spans
	listener net.Listener                // for metrics; nil: none
	stop     func()                      // ends it
}

// newSignals makes both, and serves nothing yet. Work is worth more than its signals: what is in their way is a line in the log,
// and the harness goes on.
func newSignals(ctx context.Context, environ []string, log *slog.Logger) *signals {
	s := &signals{set: metrics.New(version.Of(), version.Revision()), log: log, stop: func() {}}
	getenv := func(name string) string {
		value, _ := lookup(environ, name)
		return value
	}
	var pod []attribute.KeyValue
	for name, key := range map[string]string{"POD_NAMESPACE": "k8s.namespace.name", "POD_NAME": "k8s.pod.name", "POD_UID": "k8s.pod.uid"} {
		if value := getenv(name); value != "" {
			pod = append(pod, attribute.String(key, value))
		}
	}
	provider, flush, err := tracing.Setup(ctx, tracing.Config{Service: service, Version: version.Of(), Getenv: getenv, Log: log, Attributes: pod})
	if err != nil {
		log.Error("traces: off", "cause", err)
	}
	s.tracer, s.flush = provider.Tracer(service), flush
	return s
}

// listen opens the port for metrics, where there is to be one.
func (s *signals) listen(ctx context.Context, address string) {
	if address == "0" || strings.EqualFold(address, "off") {
		return
	}
	listener, err := metrics.Listen(ctx, address)
	if err != nil {
		s.log.Error("metrics: off; --"+flagMetrics+" ("+variable(flagMetrics)+") says where they are served", "cause", err)
		return
	}
	s.listener, s.stop = listener, func() { _ = listener.Close() }
}

// serve answers on that port.
func (s *signals) serve(ctx context.Context) {
	if s.listener == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.log.Info("metrics: listening", "addr", s.listener.Addr().String())
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.set.Serve(ctx, s.listener, s.log); err != nil {
			s.log.Error("metrics: closed by themselves", "cause", err)
		}
	})
	s.stop = func() {
		cancel()
		served.Wait()
	}
}

// close exports the last spans and closes the port.
func (s *signals) close(ctx context.Context) {
	if err := s.flush(ctx); err != nil {
		s.log.Warn("traces: the last could not be exported", "cause", err)
	}
	s.stop()
}

// agents is what a pool tells.
func (s *signals) agents() standing.Signals {
	return standing.Signals{
		Tracer: s.tracer, Up: s.set.Up, Restarted: s.set.Restarted, Decided: s.set.Decided,
		Turned: func(e wire.Envelope, took time.Duration, kept string) { s.set.Turned(e.Outcome, e.Reason, took, kept) },
	}
}

// attached is what the endpoint tells.
func (s *signals) attached(access attach.Access, transport string, more int) {
	s.set.Attached(access.String(), transport, more)
}

// interrupted tells of the turns that the last boot did not end.
func (s *signals) interrupted(ctx context.Context, of []journal.Unfinished) {
	for _, u := range of {
		s.set.Interrupted()
		e := wire.Envelope{Outcome: wire.OutcomeInterrupted, Reason: wire.ReasonInterrupted}
		if u.StartedAt != nil && u.FinishedAt != nil {
			e.Timing.StartedAt, e.Timing.FinishedAt = *u.StartedAt, *u.FinishedAt
		}
		turn.Interrupt(ctx, s.tracer, turn.Goal{
			Run: turn.Run{Namespace: u.Run.Namespace, Name: u.Run.Name, UID: u.Run.UID, Attempt: u.Attempt.Attempt}, Trace: server.Recall(u.Trace),
		}, e)
	}
}

// traceOf is the context that the environment of a one-shot run's Pod carries; a malformed one is none.
func traceOf(environ []string) trace.SpanContext {
	parent, _ := lookup(environ, envTraceParent)
	state, _ := lookup(environ, envTraceState)
	return tracing.Take(parent, state)
}

// Names of OpenTelemetry's convention for contexts in environment variables.
const (
	envTraceParent = "TRACEPARENT"
	envTraceState  = "TRACESTATE"
)
