package turn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/hearthdev/hearth/internal/tracing"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// traced makes the turns of a stage spans that the test sees, and notes those of which Turned is told.
func (s *stage) traced() (recorder *tracetest.SpanRecorder, turned *[]string) {
	recorder, turned = tracetest.NewSpanRecorder(), new([]string)
	s.runner.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	s.runner.Turned = func(e wire.Envelope, took time.Duration, kept string) {
		*turned = append(*turned, fmt.Sprintf("%s/%s %s %s", e.Outcome, e.Reason, took, kept))
	}
	return recorder, turned
}

func given(t *testing.T) Goal {
	t.Helper()
	sc, err := tracing.Parse(parent, "")
	require.NoError(t, err)
	return Goal{Text: "hello", Trace: sc, Run: Run{UID: "u", Name: "n", Namespace: "ns", Attempt: 1}}
}

// SPEC.md, Traces: tool calls are the turn's children, a bounded number of them, and each ends with it at the latest.
func TestToolCallsAreTheTurnsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		recorder, turned := s.traced()
		s.begin(t.Context(), given(t))
		tool := func(id int, rest string) {
			s.update(fmt.Sprintf(`"sessionUpdate":"tool_call","toolCallId":"t%d","title":"secret title"%s`, id, rest))
		}
		tool(0, `,"kind":"execute","status":"pending"`)
		tool(1, `,"kind":"my secret kind","status":"in_progress"`)
		for i := 2; i < maxToolSpans+50; i++ {
			tool(i, `,"kind":"read","status":"pending"`)
		}
		s.update(`"sessionUpdate":"tool_call_update","toolCallId":"t0","status":"failed"`)
		s.update(`"sessionUpdate":"tool_call_update","toolCallId":"t0","status":"completed"`)
		s.say("done")
		time.Sleep(time.Second)
		s.end("end_turn")
		e := (<-s.done).envelope
		assert.Equal(t, maxToolSpans+50, e.Tools.Calls)
		spans := recorder.Ended()
		require.Len(t, spans, maxToolSpans+1)
		assert.Len(t, recorder.Started(), len(spans), "none is left open")
		turn := spans[len(spans)-1]
		assert.Equal(t, spanTurn, turn.Name())
		assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", turn.SpanContext().TraceID().String())
		assert.Equal(t, "00f067aa0ba902b7", turn.Parent().SpanID().String())
		kinds := map[string]int{}
		for _, span := range spans[:maxToolSpans] {
			assert.Equal(t, turn.SpanContext().SpanID(), span.Parent().SpanID())
			require.Len(t, span.Attributes(), 1, "its kind, and nothing of what it does")
			kinds[span.Attributes()[0].Value.AsString()]++
		}
		assert.Equal(t, map[string]int{"execute": 1, "other": 1, "read": maxToolSpans - 2}, kinds)
		assert.Equal(t, codes.Error, spans[0].Status().Code, "it failed, and that was its end")
		require.Len(t, *turned, 1)
		// A millisecond more for each update that was read in quick succession.
		assert.Regexp(t, `^Succeeded/Completed 1(\.[0-9]{1,3})?s 4bf92f3577b34da6a3ce929d0e0e4736$`, (*turned)[0])
	})
}

func TestOnlyWhatStartedIsATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		recorder, turned := s.traced()
		s.startFn = func() error { return errors.New("the disk is full") }
		s.run(t.Context(), given(t))
		<-s.done
		assert.Empty(t, recorder.Started())
		assert.Empty(t, *turned)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		recorder, turned := s.traced()
		s.begin(t.Context(), given(t))
		s.answer([]byte(s.prompt), `{"stopReason":"refusal"}`)
		<-s.done
		assert.Len(t, *turned, 1)
		require.Len(t, recorder.Ended(), 1)
		assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "Refused"}, recorder.Ended()[0].Status())
	})
}

// What the prompt's _meta takes is part of what an agent's limit allows.
func TestAPromptIsMeasuredWithItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		n, err := s.seat.Session.PromptBytes(nil, "")
		require.NoError(t, err)
		g := given(t)
		g.Text = strings.Repeat("x", goosePromptBytes-n)
		s.startFn = func() error { return errors.New("far enough") }
		s.run(t.Context(), g)
		assert.Equal(t, wire.ReasonLimitReached, (<-s.done).envelope.Reason)
		assert.Empty(t, s.starts)
	})
}

// SPEC.md, Traces and JSON output: the second prompt of a turn is in the same span.
func TestTheSecondPromptOfATurnIsInItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.traced()
		s.runner.Output = JSON
		s.run(t.Context(), given(t))
		first := s.read()
		s.prompt = string(first.ID)
		s.say("no JSON")
		s.end("end_turn")
		second := s.read()
		assert.Equal(t, "session/prompt", second.Method)
		metas := metaIn(t, string(first.Params))
		assert.Contains(t, metas, "00-4bf92f3577b34da6a3ce929d0e0e4736-")
		assert.NotContains(t, metas, "00f067aa0ba902b7", "the span is the turn's own")
		assert.Equal(t, metas, metaIn(t, string(second.Params)))
		s.prompt = string(second.ID)
		s.say("{}")
		s.end("end_turn")
		<-s.done
	})
}

func metaIn(t *testing.T, params string) string {
	t.Helper()
	_, rest, found := strings.Cut(params, `"_meta":{`)
	require.True(t, found, params)
	meta, _, _ := strings.Cut(rest, "}")
	return meta
}
