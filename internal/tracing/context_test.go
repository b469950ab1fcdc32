package tracing

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	known   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
)

// W3C Trace Context, version 00.
func TestOnlyAWellFormedContextIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		parent, state string
		want          error
	}{
		"sampled":                 {known, "", nil},
		"not sampled":             {strings.TrimSuffix(known, "1") + "0", "", nil},
		"with a state":            {known, "vendor=opaque,other@tenant=1", nil},
		"nothing":                 {"", "", nil},
		"upper case":              {strings.ToUpper(known), "", ErrParent},
		"a newer version":         {"01" + known[2:], "", ErrParent},
		"the forbidden version":   {"ff" + known[2:], "", ErrParent},
		"one more field":          {known + "-00", "", ErrParent},
		"a line break":            {known + "\n", "", ErrParent},
		"too short":               {known[:54], "", ErrParent},
		"no trace":                {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", ErrParent},
		"no span":                 {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "", ErrParent},
		"unknown flags":           {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", "", ErrParent},
		"other digits":            {"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", "", ErrParent},
		"a state that is none":    {known, "no list", ErrState},
		"a state that is long":    {known, "a=" + strings.Repeat("x", 200) + ",b=" + strings.Repeat("y", 200) + ",c=" + strings.Repeat("z", 200), ErrState},
		"a state and no parent":   {"", "vendor=opaque", ErrState},
		"a state with a new line": {known, "vendor=a\nb", ErrState},
	} {
		t.Run(name, func(t *testing.T) {
			sc, err := Parse(c.parent, c.state)
			require.ErrorIs(t, err, c.want)
			parent, state := Format(sc)
			if c.want != nil {
				c.parent, c.state = "", ""
			}
			assert.Equal(t, c.parent, parent)
			assert.Equal(t, c.state, state)
		})
	}
}

// SPEC.md, Traces: a request is never refused for its trace.
func TestAMalformedHeaderIsNoContext(t *testing.T) {
	for name, c := range map[string]struct {
		h     http.Header
		trace string
		state string
	}{
		"none":                   {http.Header{}, "", ""},
		"one":                    {http.Header{"Traceparent": {known}, "Tracestate": {"a=1"}}, traceID, "a=1"},
		"a state in two headers": {http.Header{"Traceparent": {known}, "Tracestate": {"a=1", "b=2"}}, traceID, "a=1,b=2"},
		"two parents":            {http.Header{"Traceparent": {known, known}}, "", ""},
		"malformed":              {http.Header{"Traceparent": {"00-x"}}, "", ""},
		"its state is malformed": {http.Header{"Traceparent": {known}, "Tracestate": {"???"}}, traceID, ""},
		"a state alone":          {http.Header{"Tracestate": {"a=1"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := Under(t.Context(), FromHeaders(c.h))
			assert.Equal(t, c.trace, ID(ctx))
			assert.Equal(t, c.trace, Exemplar(ctx))
			parent, state := Format(trace.SpanContextFromContext(ctx))
			assert.Equal(t, c.state, state)
			assert.Equal(t, c.trace != "", parent != "")
		})
	}
	unsampled := Under(context.Background(), FromHeaders(http.Header{"Traceparent": {known[:54] + "0"}}))
	assert.Equal(t, traceID, ID(unsampled))
	assert.Empty(t, Exemplar(unsampled), "of a trace that nobody keeps nothing can be looked up")
}

func FuzzParse(f *testing.F) {
	f.Add(known, "a=1")
	f.Add("00-", ",,=")
	f.Fuzz(func(t *testing.T, parent, state string) {
		sc, err := Parse(parent, state)
		p, s := Format(sc)
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{Parent: parent, State: state}))
		if err == nil {
			require.True(t, theirs.Equal(sc), "OpenTelemetry reads another context")
		}
		if err != nil || parent == "" {
			require.False(t, sc.IsValid())
			require.Empty(t, p+s)
			return
		}
		require.Equal(t, parent, p)
		require.LessOrEqual(t, len(s), MaxStateBytes)
		again, err := Parse(p, s)
		require.NoError(t, err)
		require.True(t, again.Equal(sc))
	})
}
