package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/internal/tracing"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The names of the spans.
const (
	SpanRun     = "hearth.run"
	SpanAdmit   = "hearth.admit"
	SpanReserve = "hearth.reserve"
	SpanDeliver = "hearth.deliver"
	SpanRecord  = "hearth.record"
)

// Spans makes the spans of runs. A nil one makes none and knows of no trace.
type Spans struct{ tracer trace.Tracer }

// New makes spans with a provider whose identifiers come from IDs.
func New(provider trace.TracerProvider) *Spans {
	return &Spans{provider.Tracer("github.com/hearthdev/hearth/controller")}
}

// Of is the context of a run's root span: under the one that its author gave, or the first of a trace of its own where spans are
// exported. Otherwise, and for a standing run, which is no piece of work, it is none.
func (s *Spans) Of(run *hearthv1.AgentRun) trace.SpanContext {
	_, span := s.root(run, time.Time{})
	return span.SpanContext() // never ended, so never exported: only Recorded does that
}

// ID is that of the run's trace, for a log line; "" without one.
func (s *Spans) ID(run *hearthv1.AgentRun) string {
	return tracing.ID(trace.ContextWithSpanContext(context.Background(), s.Of(run)))
}

// Exemplar is the ID of the run's trace if that is kept, for a metric; else "".
func (s *Spans) Exemplar(run *hearthv1.AgentRun) string {
	return tracing.Exemplar(trace.ContextWithSpanContext(context.Background(), s.Of(run)))
}

func (s *Spans) root(run *hearthv1.AgentRun, begun time.Time) (context.Context, trace.Span) {
	ctx := context.Background()
	if s == nil || run.UID == "" || run.Standing() {
		return ctx, trace.SpanFromContext(ctx)
	}
	// One that was stored without admission may be malformed: it is none then.
	if given, err := tracing.Parse(run.Annotations[hearthv1.AnnotationTraceparent], run.Annotations[hearthv1.AnnotationTracestate]); err == nil {
		ctx = tracing.Under(ctx, given)
	}
	return s.tracer.Start(with(ctx, identityOf(string(run.UID))), SpanRun, trace.WithTimestamp(begun), trace.WithAttributes(about(run)...))
}

// begin starts a span under the run's root.
func (s *Spans) begin(run *hearthv1.AgentRun, name string, at time.Time, kind trace.SpanKind) trace.Span {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), s.Of(run))
	if s == nil {
		return trace.SpanFromContext(ctx)
	}
	_, span := s.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithSpanKind(kind), trace.WithAttributes(about(run)...))
	return span
}

// Admitted tells that admission let the run pass.
func (s *Spans) Admitted(run *hearthv1.AgentRun, begun, done time.Time) {
	s.begin(run, SpanAdmit, begun, trace.SpanKindServer).End(trace.WithTimestamp(done))
}

// Written tells the spans of a status write that succeeded: that of a reservation, and those of a record with the run as a whole.
func (s *Spans) Written(before, after *hearthv1.AgentRun, begun, done time.Time) {
	if s == nil {
		return
	}
	end := trace.WithTimestamp(done)
	if d := after.Status.Delivery; d != nil && d.ReservedAt != nil && (before.Status.Delivery == nil || before.Status.Delivery.ReservedAt == nil) {
		s.begin(after, SpanReserve, begun, trace.SpanKindInternal).End(end)
	}
	if before.Ended() || !after.Ended() {
		return
	}
	outcome, reason := metrics.OutcomeOf(after), after.Status.Reason
	_, root := s.root(after, after.CreationTimestamp.Time)
	for _, span := range []trace.Span{s.begin(after, SpanRecord, begun, trace.SpanKindInternal), root} {
		span.SetAttributes(attribute.String("hearth.outcome", outcome), attribute.String("hearth.reason", reason))
		if outcome != string(wire.OutcomeSucceeded) && outcome != string(wire.OutcomeCancelled) {
			span.SetStatus(codes.Error, reason)
		}
		span.End(end)
	}
}

// Delivery is the span of one delivery, from when it is handed over until its end is known.
type Delivery struct {
	// Parent and State are what the request carries in the headers of these names; "" for none.
	Parent, State string

	span trace.Span
}

// Delivering begins the span of a delivery. One that is never ended is not exported.
func (s *Spans) Delivering(run *hearthv1.AgentRun, at time.Time) Delivery {
	d := Delivery{span: s.begin(run, SpanDeliver, at, trace.SpanKindClient)}
	d.Parent, d.State = tracing.Format(d.span.SpanContext())
	return d
}

// End ends it: how the delivery ended, and the code of a refusal or "".
func (d Delivery) End(at time.Time, outcome, code string) {
	d.span.SetAttributes(attribute.String("hearth.delivery", outcome))
	if code != "" {
		d.span.SetAttributes(attribute.String("hearth.code", code))
		d.span.SetStatus(codes.Error, code)
	}
	d.span.End(trace.WithTimestamp(at))
}

// about is what each span says of its run; never a goal, parameters, output or a secret.
func about(run *hearthv1.AgentRun) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("hearth.run.uid", string(run.UID)), attribute.String("hearth.run.name", run.Name),
		attribute.String("k8s.namespace.name", run.Namespace),
	}
	if run.Spec.AgentRef.Name != "" {
		out = append(out, attribute.String("hearth.agent", run.Spec.AgentRef.Name))
	}
	if d := run.Status.Delivery; d != nil && d.Attempt > 0 {
		out = append(out, attribute.Int64("hearth.attempt", d.Attempt))
	}
	if run.Status.PodName != "" {
		out = append(out, attribute.String("k8s.pod.name", run.Status.PodName))
	}
	return out
}
