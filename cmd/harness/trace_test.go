package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/internal/tracing/tracetest"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	givenTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	givenSpan   = "00f067aa0ba902b7"
	givenParent = "00-" + givenTrace + "-" + givenSpan + "-01"
	exportKey   = "secret-of-the-collector"
)

// traced is a Pod whose harness exports to a collector.
func traced(t *testing.T) (*place, *tracetest.Collector) {
	t.Helper()
	p, c := newPlace(t), tracetest.New(t)
	p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key=" + exportKey}
	return p, c
}

// spans waits for a span of that name whose attribute has that value, and returns it.
func awaitSpan(t *testing.T, c *tracetest.Collector, name, key, value string) tracetest.Span {
	t.Helper()
	var found tracetest.Span
	require.Eventually(t, func() bool {
		for _, s := range c.Spans() {
			if s.Name == name && s.Attributes[key] == value {
				found = s
				return true
			}
		}
		return false
	}, patience, tick, "no %s with %s=%s: %v", name, key, value, c.Spans())
	return found
}

// SPEC.md, Traces: one run is one tree, from the caller's span to the agent's prompt and its tools, and has no word of the goal.
func TestADeliveryIsOneTree(t *testing.T) {
	p, c := traced(t)
	b := p.ready()
	b.headers = http.Header{"Traceparent": {givenParent}, "Tracestate": {"vendor=opaque"}}
	goal := "meta: ;; tool: completed ;; tool: failed ;; env: OTEL_EXPORTER_OTLP_HEADERS ;; env: OTEL_EXPORTER_OTLP_ENDPOINT ;; say: wonderful"
	b.accepted("run", goal, wire.StateFinished)
	turn := awaitSpan(t, c, "hearth.turn", "hearth.run.uid", "run")
	accept := awaitSpan(t, c, "hearth.accept", "hearth.run.uid", "run")
	assert.Equal(t, []string{givenTrace, givenSpan}, []string{accept.Trace, accept.Parent})
	assert.Equal(t, "accepted", accept.Attributes["hearth.answer"])
	assert.Equal(t, []string{givenTrace, accept.ID}, []string{turn.Trace, turn.Parent})
	for key, want := range map[string]string{
		"hearth.run.name": "review-run", "k8s.namespace.name": "team", "hearth.outcome": "Succeeded", "hearth.reason": "Completed", "hearth.attempt": "int_value:1",
	} {
		assert.Equal(t, want, turn.Attributes[key], key)
	}
	tools := 0
	for _, s := range c.Spans() {
		if s.Name == "hearth.tool" {
			tools++
			assert.Equal(t, []string{givenTrace, turn.ID}, []string{s.Trace, s.Parent})
		}
		for key, value := range s.Attributes {
			assert.NotContains(t, value, "wonderful", key)
			assert.NotContains(t, value, "meta:", key)
		}
		assert.Equal(t, service, s.Service)
	}
	assert.Equal(t, 2, tools)

	output := b.attempt("run").Envelope.Output.Value
	assert.Contains(t, output, `"traceparent":"00-`+givenTrace+"-"+turn.ID+`-01"`, "the agent's spans would be the turn's children")
	assert.Contains(t, output, `"tracestate":"vendor=opaque"`)
	assert.Contains(t, output, "OTEL_EXPORTER_OTLP_HEADERS=OTEL_EXPORTER_OTLP_ENDPOINT=wonderful", "the agent has not the collector's key, nor does it know where it is")
	assert.Equal(t, exportKey, c.Requests()[0].Header.Get("X-Key"))
	for _, line := range []string{"accepted", "started", "finished"} {
		b.log.Await(t, "level=INFO msg="+line+" namespace=team run=review-run runUID=run attempt=1 trace_id="+givenTrace)
	}
	for _, secret := range []string{exportKey, "wonderful"} {
		assert.NotContains(t, b.log.String(), secret)
	}
}

// SPEC.md, Traces: without a collector a context is passed on as it came; without a context nothing is made up, and nobody is told.
func TestWithoutACollectorAContextIsPassedOn(t *testing.T) {
	b := newPlace(t).ready()
	for run, c := range map[string]struct {
		headers http.Header
		says    string
	}{
		"given":     {http.Header{"Traceparent": {givenParent}}, `meta={"traceparent":"` + givenParent + `"}`},
		"none":      {nil, "meta="},
		"malformed": {http.Header{"Traceparent": {"00-" + strings.Repeat("z", 500)}, "Tracestate": {"???"}}, "meta="},
		"two":       {http.Header{"Traceparent": {givenParent, givenParent}}, "meta="},
		"bad state": {http.Header{"Traceparent": {givenParent}, "Tracestate": {strings.Repeat("x", 600)}}, `meta={"traceparent":"` + givenParent + `"}`},
	} {
		b.headers = c.headers
		run = strings.ReplaceAll(run, " ", "-")
		b.accepted(run, "meta:", wire.StateFinished)
		assert.Equal(t, c.says, b.attempt(run).Envelope.Output.Value, run)
		b.headers = nil
		require.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/"+run+"/recorded?attempt=1", nil, nil))
	}
	assert.Regexp(t, `msg=finished namespace=team run=review-none runUID=none attempt=1 outcome`, b.log.String())
}

// SPEC.md, Traces: a trace goes on after a restart, for what had not started and for what the restart ended.
func TestATraceSurvivesARestart(t *testing.T) {
	p, c := traced(t)
	b := p.ready()
	b.headers = http.Header{"Traceparent": {givenParent}}
	b.accepted("running", "mute:", wire.StateRunning)
	b.accepted("waiting", "say: after all", wire.StateAccepted)
	accepts := map[string]string{}
	for _, run := range []string{"running", "waiting"} {
		accepts[run] = awaitSpan(t, c, "hearth.accept", "hearth.run.uid", run).ID
	}
	b.kill()
	b = p.ready()
	b.until("waiting", wire.StateFinished)
	for run, outcome := range map[string]string{"running": "Interrupted", "waiting": "Succeeded"} {
		s := awaitSpan(t, c, "hearth.turn", "hearth.run.uid", run)
		assert.Equal(t, outcome, s.Attributes["hearth.outcome"])
		assert.Equal(t, []string{givenTrace, accepts[run]}, []string{s.Trace, s.Parent}, run)
		assert.Equal(t, outcome == "Interrupted", s.Failed)
	}
	assert.Equal(t, 1, b.series()[`hearth_turns_total{outcome="Interrupted",reason="Interrupted"}`])
	b.log.Await(t, "msg=started namespace=team run=review-waiting runUID=waiting attempt=1 trace_id="+givenTrace)
}

// SPEC.md, Traces: a one-shot run has its context from the environment, and its last spans leave before it ends.
func TestAOneShotRunIsInTheTraceOfItsPod(t *testing.T) {
	p, c := traced(t)
	k := newTask(t, "meta: ;; env: OTEL_EXPORTER_OTLP_HEADERS")
	k.env = append(p.env, "TRACEPARENT="+givenParent, "TRACESTATE=nonsense")
	b := k.start()
	require.Equal(t, exitOK, b.code(), b.log.String())
	require.Len(t, c.Spans(), 1, "they are there when it has ended")
	s := c.Spans()[0]
	assert.Equal(t, []string{"hearth.turn", givenTrace, givenSpan}, []string{s.Name, s.Trace, s.Parent})
	assert.Equal(t, `meta={"traceparent":"00-`+givenTrace+`-`+s.ID+`-01"}`+"OTEL_EXPORTER_OTLP_HEADERS=", k.envelope().Output.Value)
}

// A collector that never answers delays nothing but the process's end, and that by a bounded time; a wrong variable not even that.
func TestWorkIsWorthMoreThanItsTrace(t *testing.T) {
	for name, env := range map[string]string{
		"nobody there": "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "another protocol": "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "no address": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=collector:4317",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", env}
			b := p.ready()
			b.accepted("run", "say: done", wire.StateFinished)
			require.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/run/recorded?attempt=1", nil, nil))
			b.signal(syscall.SIGTERM)
			assert.Equal(t, 0, b.code(), b.log.String())
			if name != "nobody there" {
				assert.Contains(t, b.log.String(), `msg="traces: off"`)
				return
			}
			assert.Contains(t, b.log.String(), "traces: ")
		})
	}
}

// R-row of the logs: whatever becomes of a goal, no line of a harness has a word of it.
func TestNoLineOfTheLogHasAGoal(t *testing.T) {
	p := newPlace(t)
	there := filepath.Join(t.TempDir(), "there")
	b := p.ready()
	for run, goal := range map[string]string{
		"crashes": "crash: 3 xyzzy-stderr", "dies": "die: xyzzy", "fails": "error: 1 xyzzy", "refuses": "stop: refusal ;; say: xyzzy", "asks": "permit: xyzzy,allow_once", "broken": "raw: 78797a7a79",
	} {
		b.accepted(run, goal, wire.StateFinished)
		require.Eventually(t, func() bool {
			b.challenge()
			return b.boot.Agent.State == wire.AgentReady
		}, patience, tick)
		require.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/"+run+"/recorded?attempt=1", nil, nil))
	}
	b.accepted("stopped", "wait: "+there+" ;; say: xyzzy", wire.StateRunning)
	b.kill()
	b = p.ready()
	b.accepted("again", "say: xyzzy", wire.StateFinished)
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	for line := range strings.Lines(b.log.String()) {
		assert.NotContains(t, strings.ReplaceAll(line, "xyzzy-stderr", ""), "xyzzy")
		assert.Regexp(t, `^time=\S+ level=(INFO|WARN|ERROR) msg=|^harness: `, line, "it is structured")
	}
}
