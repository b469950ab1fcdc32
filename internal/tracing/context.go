// Package tracing carries trace contexts (W3C Trace Context, level 1) and exports spans by OTLP where the standard variables of
// OpenTelemetry say where to (SPEC.md, Traces). Both halves of the wire use it; it holds no global state.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// The names of a context's two parts: headers, keys of the Agent Client Protocol's _meta, and the ends of annotations.
const (
	Parent = "traceparent"
	State  = "tracestate"
)

// Bounds of a trace context.
const (
	// ParentBytes is the length of a traceparent of version 00, the only one that is taken.
	ParentBytes = 55
	// MaxStateBytes bounds a tracestate, as W3C Trace Context asks to carry at least.
	MaxStateBytes = 512
)

// What is wrong with a context; neither repeats it.
var (
	ErrParent = errors.New(Parent + ": expected version 00 of W3C Trace Context: 00-TRACE-SPAN-FLAGS, 55 characters in lower case")
	ErrState  = errors.New(State + ": expected a list of W3C Trace Context, KEY=VALUE[,…], at most 512 bytes, beside a " + Parent)
)

const version = "00"

// flagsOf are the flags that mean anything: sampled and, of level 2, random.
var flagsOf = map[string]trace.TraceFlags{"00": 0, "01": trace.FlagsSampled, "02": trace.FlagsRandom, "03": trace.FlagsSampled | trace.FlagsRandom}

// Parse reads a context strictly. Nothing at all is the zero context and no error; else the error is ErrParent or ErrState.
func Parse(parent, state string) (trace.SpanContext, error) {
	if parent == "" {
		if state != "" {
			return trace.SpanContext{}, ErrState
		}
		return trace.SpanContext{}, nil
	}
	parts := strings.Split(parent, "-")
	if len(parent) != ParentBytes || len(parts) != 4 || parts[0] != version {
		return trace.SpanContext{}, ErrParent
	}
	id, wrongID := trace.TraceIDFromHex(parts[1])
	span, wrongSpan := trace.SpanIDFromHex(parts[2])
	flags, known := flagsOf[parts[3]]
	if wrongID != nil || wrongSpan != nil || !known {
		return trace.SpanContext{}, ErrParent
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: flags, Remote: true})
	if state == "" {
		return sc, nil
	}
	list, err := trace.ParseTraceState(state)
	if err != nil || len(state) > MaxStateBytes {
		return trace.SpanContext{}, ErrState
	}
	return sc.WithTraceState(list), nil
}

// Format writes a context; both are empty for one that is none. A state over the bound is left out.
func Format(sc trace.SpanContext) (parent, state string) {
	if !sc.IsValid() {
		return "", ""
	}
	if state = sc.TraceState().String(); len(state) > MaxStateBytes {
		state = ""
	}
	return fmt.Sprintf("%s-%s-%s-%s", version, sc.TraceID(), sc.SpanID(), sc.TraceFlags()&(trace.FlagsSampled|trace.FlagsRandom)), state
}

// Take is the context that somebody hands over. A malformed one is none, and a malformed state is dropped, as W3C Trace Context has it.
func Take(parent, state string) trace.SpanContext {
	sc, err := Parse(parent, state)
	if errors.Is(err, ErrState) {
		sc, _ = Parse(parent, "")
	}
	return sc
}

// FromHeaders is the context of a request, as Take has it: a request is never refused for its trace.
func FromHeaders(h http.Header) trace.SpanContext {
	parents := h.Values(Parent)
	if len(parents) != 1 {
		return trace.SpanContext{}
	}
	return Take(parents[0], strings.Join(h.Values(State), ","))
}

// Under makes a context the remote parent of what is begun with the returned one; the zero context changes nothing.
func Under(ctx context.Context, sc trace.SpanContext) context.Context {
	if !sc.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}

// ID is the trace's ID for a log line; "" where there is no trace.
func ID(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}

// Exemplar is the ID for an exemplar of a metric: that of a trace that is kept, or nothing.
func Exemplar(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() {
		return sc.TraceID().String()
	}
	return ""
}
