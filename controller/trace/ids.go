// Package trace makes the controller's spans of a run. One run is one tree, whoever works on it and however often the controller starts
// anew, because the identifiers of its root span follow from the run itself (SPEC.md, Traces).
package trace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// identity are the identifiers of a run's root span: of its trace, where its author gave none, and of the span.
type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// domain keeps the digest apart from others of the same text.
const domain = "hearth-trace-v1"

// identityOf: SHA-256(LP(domain) || LP(run UID)), of which the first 16 bytes are the trace's ID and the next 8 the root span's.
func identityOf(runUID string) (i identity) {
	text := make([]byte, 0, 8+len(domain)+len(runUID))
	for _, part := range []string{domain, runUID} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part))) //nolint:gosec // a UID is short
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	copy(i.trace[:], sum[:16])
	copy(i.span[:], sum[16:24])
	return i
}

type wanted struct{}

// with has the next span that is started with the context be this one.
func with(ctx context.Context, i identity) context.Context {
	return context.WithValue(ctx, wanted{}, i)
}

// IDs gives root spans of runs their own identifiers and all others random ones. The tracer provider that Spans work with needs it.
func IDs() sdktrace.IDGenerator { return ids{} }

type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if i, ok := ctx.Value(wanted{}).(identity); ok {
		return i.trace, i.span
	}
	var t trace.TraceID
	for !t.IsValid() {
		binary.BigEndian.PutUint64(t[:8], rand.Uint64()) //nolint:gosec // tells spans apart, protects nothing
		binary.BigEndian.PutUint64(t[8:], rand.Uint64()) //nolint:gosec // as above
	}
	return t, newSpanID()
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if i, ok := ctx.Value(wanted{}).(identity); ok {
		return i.span
	}
	return newSpanID()
}

func newSpanID() (s trace.SpanID) {
	for !s.IsValid() {
		binary.BigEndian.PutUint64(s[:], rand.Uint64()) //nolint:gosec // as above
	}
	return s
}
