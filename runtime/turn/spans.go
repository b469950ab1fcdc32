package turn

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hearthdev/hearth/internal/tracing"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
)

// Spans of a turn (SPEC.md, Traces). None of them has a word of the goal, of the agent or of a tool.
const (
	spanTurn     = "hearth.turn"
	spanTool     = "hearth.tool"
	maxToolSpans = 256 // tool calls of one turn that have one
)

// toolKinds are the protocol's; what an agent says beside them may be anything.
var toolKinds = []acp.ToolKind{
	acp.ToolKindRead, acp.ToolKindEdit, acp.ToolKindDelete, acp.ToolKindMove, acp.ToolKindSearch, acp.ToolKindExecute,
	acp.ToolKindThink, acp.ToolKindFetch, acp.ToolKindSwitchMode,
}

// spans are those of one turn. A nil one has none.
type spans struct {
	tracer trace.Tracer
	ctx    context.Context //nolint:containedctx // of the turn's span, for its children
	turn   trace.Span

	mu    sync.Mutex
	began int
	over  bool
	tools map[[sha256.Size]byte]trace.Span // that go on
}

// spans begins the span of a turn.
func (r Runner) spans(ctx context.Context, g Goal, session string) *spans {
	s := &spans{tracer: r.tracer(), tools: map[[sha256.Size]byte]trace.Span{}}
	s.ctx, s.turn = s.tracer.Start(tracing.Under(ctx, g.Trace), spanTurn, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(g.Run.attributes(), attribute.String("hearth.session", Short(session, maxWarning)))...))
	return s
}

func (r Runner) tracer() trace.Tracer {
	if r.Tracer == nil {
		return noop.Tracer{}
	}
	return r.Tracer
}

// attributes say whose work it is.
func (r Run) attributes() []attribute.KeyValue {
	if r.UID == "" {
		return nil
	}
	return []attribute.KeyValue{
		attribute.String("hearth.run.uid", r.UID), attribute.String("hearth.run.name", r.Name),
		attribute.Int64("hearth.attempt", r.Attempt), attribute.String("k8s.namespace.name", r.Namespace),
	}
}

// meta is the turn's context for the agent; nil where there is none.
func (s *spans) meta() router.Meta { return metaOf(s.turn.SpanContext()) }

func metaOf(sc trace.SpanContext) router.Meta {
	parent, state := tracing.Format(sc)
	if parent == "" {
		return nil
	}
	m := router.Meta{tracing.Parent: parent}
	if state != "" {
		m[tracing.State] = state
	}
	return m
}

// longestMeta is as long as what a prompt's will be at most: a span's context has the length and the state of its parent's.
func (p *play) longestMeta() router.Meta {
	switch m := metaOf(p.goal.Trace); {
	case m != nil:
		return m
	case p.Tracer == nil:
		return nil
	}
	return router.Meta{tracing.Parent: strings.Repeat("0", tracing.ParentBytes)}
}

// kept is the ID of the trace where it is kept.
func (s *spans) kept() string { return tracing.Exemplar(s.ctx) }

// called begins the span of a tool call.
func (s *spans) called(id [sha256.Size]byte, kind string) {
	if s == nil || !s.turn.IsRecording() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began++; s.over || s.began > maxToolSpans {
		return
	}
	if !slices.Contains(toolKinds, acp.ToolKind(kind)) {
		kind = string(acp.ToolKindOther)
	}
	_, s.tools[id] = s.tracer.Start(s.ctx, spanTool, trace.WithAttributes(attribute.String("hearth.tool.kind", kind)))
}

// went ends the span of a tool call that is over.
func (s *spans) went(id [sha256.Size]byte, status string) {
	failed := status == string(acp.ToolCallStatusFailed)
	if s == nil || !failed && status != string(acp.ToolCallStatusCompleted) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	span := s.tools[id]
	if span == nil {
		return
	}
	delete(s.tools, id)
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// end ends the turn's span, and those of tool calls that nobody ended.
func (s *spans) end(e wire.Envelope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, tool := range s.tools {
		tool.End()
	}
	clear(s.tools)
	s.turn.SetAttributes(
		attribute.String("hearth.outcome", string(e.Outcome)), attribute.String("hearth.reason", string(e.Reason)),
		attribute.Int64("hearth.tools.calls", int64(e.Tools.Calls)), attribute.Int64("hearth.tools.failed", int64(e.Tools.Failed)))
	if e.Outcome != wire.OutcomeSucceeded && e.Outcome != wire.OutcomeCancelled {
		s.turn.SetStatus(codes.Error, string(e.Reason))
	}
	s.turn.End()
}

// Interrupt makes the span of a turn that was under way when the harness ended, so that its trace has an end.
func Interrupt(ctx context.Context, tracer trace.Tracer, g Goal, e wire.Envelope) {
	s := Runner{Tracer: tracer}
	_, span := s.tracer().Start(tracing.Under(ctx, g.Trace), spanTurn, trace.WithTimestamp(e.Timing.StartedAt),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(append(g.Run.attributes(),
			attribute.String("hearth.outcome", string(e.Outcome)), attribute.String("hearth.reason", string(e.Reason)))...))
	span.SetStatus(codes.Error, string(e.Reason))
	span.End(trace.WithTimestamp(e.Timing.FinishedAt))
}
