package deliver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/trace"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

const secretGoal = "goal-that-nobody-may-see"

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p) //nolint:wrapcheck // a buffer
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// traced has the controllers that are started from now on make spans.
func (w *world) traced() *tracetest.SpanRecorder {
	recorder := tracetest.NewSpanRecorder()
	w.spans = trace.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithIDGenerator(trace.IDs())))
	return recorder
}

// figures are all series of ours, of histograms how many values they have.
func figures(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "hearth_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// moved is what counters and histograms moved by since before.
func moved(t *testing.T, before map[string]float64) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for name, value := range figures(t) {
		gauge := strings.HasPrefix(name, metrics.Links) && !strings.HasPrefix(name, metrics.LinkPanics) || strings.HasPrefix(name, metrics.Targets) || strings.HasPrefix(name, metrics.QueueDepth)
		if d := value - before[name]; d != 0 && !gauge {
			out[strings.TrimSpace(name)] = d
		}
	}
	return out
}

// linked waits until the Agent's one target can be delivered to.
func (w *world) linked() {
	w.t.Helper()
	require.True(w.t, w.eventually(func() bool { return figures(w.t)["hearth_targets "+w.agent.Name+" "+w.ns+" "+metrics.TargetReady] == 1 }))
}

// told are the reasons of a run's Events, sorted, each as often as it was made.
func (w *world) told(run *hearthv1.AgentRun) []string {
	w.t.Helper()
	var list eventsv1.EventList
	require.NoError(w.t, w.kube.List(w.t.Context(), &list, kube.InNamespace(w.ns)))
	var out []string
	for _, e := range list.Items {
		if e.Regarding.UID == run.UID {
			assert.Nil(w.t, e.Series, "nothing was told twice")
			assert.NotContains(w.t, e.Note, secretGoal)
			out = append(out, e.Reason)
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) says(run *hearthv1.AgentRun, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if !w.eventually(func() bool { return slices.Equal(want, w.told(run)) }) {
		assert.Equal(w.t, want, w.told(run), run.Name)
	}
}

// SPEC.md, Signals: what one run moves, says, logs and traces, also when a second controller goes on with it; each once.
func TestARunIsToldOnceByWhoeverCarriesItOut(t *testing.T) {
	w := newWorld(t)
	log := &lines{}
	w.log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var mu sync.Mutex
	var headers []string
	x := w.standing("reviewer-1", harness.Options{Queue: 3, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if strings.HasPrefix(r.URL.Path, wire.RunsPath) && (r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, wire.RecordedSuffix) || r.Method == http.MethodDelete) {
				headers = append(headers, r.Method+" "+r.Header.Get("traceparent")+" "+r.Header.Get("tracestate"))
			}
			mu.Unlock()
			next.ServeHTTP(rw, r)
		})
	}})
	const parent, traceID = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"
	earlier, first := w.traced(), w.controller()
	w.linked()
	before := figures(t)
	short := w.deliver("short", secretGoal)
	w.ended(short)
	w.says(short, "Reserved", "Completed")
	assert.Equal(t, map[string]float64{
		"hearth_runs_finished_total delivered Succeeded Completed": 1, "hearth_run_waiting_seconds": 1, "hearth_delivery_seconds": 1,
		"hearth_run_duration_seconds Succeeded": 1, "hearth_record_seconds": 1,
	}, moved(t, before))

	before = figures(t)
	long := w.deliver("long", harness.HoldPrefix+secretGoal, func(r *hearthv1.AgentRun) {
		r.Annotations = map[string]string{hearthv1.AnnotationTraceparent: parent, hearthv1.AnnotationTracestate: "vendor=1"}
	})
	w.reasonIs(long, hearthv1.ReasonRunning)
	w.says(long, "Reserved", "Started")
	first.stop()
	later, second := w.traced(), w.controller()
	mine := " " + w.agent.Name + " " + w.ns
	w.linked()
	assert.InDelta(t, 1, figures(t)["hearth_links verified"], 0)
	assert.InDelta(t, 0, figures(t)["hearth_queue_depth"+mine], 0)
	require.NoError(t, w.kube.Patch(t.Context(), long.DeepCopy(), kube.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))))
	w.ended(long)
	require.True(t, w.eventually(func() bool { return slices.Contains(w.told(long), "Cancelled") }))
	assert.Subset(t, []string{"Cancelled", "Cancelling", "Reserved", "Started"}, w.told(long), "nothing is told again after a restart")
	assert.Equal(t, map[string]float64{
		"hearth_runs_finished_total delivered Cancelled Cancelled": 1, "hearth_run_waiting_seconds": 1, "hearth_delivery_seconds": 1,
		"hearth_run_duration_seconds Cancelled": 1, "hearth_record_seconds": 1,
	}, moved(t, before))
	second.stop()
	assert.NotContains(t, figures(t), "hearth_links verified", "who does not lead any more says nothing")

	spans := append(earlier.Ended(), later.Ended()...)
	tree(t, spans, short, w.spans.ID(short), "0000000000000000")
	deliver := tree(t, spans, long, traceID, "00f067aa0ba902b7")
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, headers, 3)
	assert.Equal(t, "POST 00-"+traceID+"-"+deliver+"-01 vendor=1", headers[1])
	assert.True(t, strings.HasPrefix(headers[2], "DELETE 00-"+traceID+"-"), headers[2])
	about(t, log.String(), map[string]string{"short": w.spans.ID(short), "long": traceID})
	assert.NotContains(t, log.String(), secretGoal)
	assert.NotContains(t, log.String(), harness.Root)
	for name := range figures(t) {
		for _, of := range []string{"short", "long", x.run.Name} {
			assert.NotContains(t, strings.Fields(name), of, "no series is of a run or a Pod")
		}
	}
}

// tree checks that the spans of a run are one tree, each once, and gives the ID of the delivery's.
func tree(t *testing.T, spans []sdktrace.ReadOnlySpan, run *hearthv1.AgentRun, traceID, above string) (deliver string) {
	t.Helper()
	var names []string
	root := ""
	parents := map[string]string{}
	for _, s := range spans {
		for _, a := range s.Attributes() {
			assert.NotContains(t, a.Value.AsString(), secretGoal)
			if a.Key != "hearth.run.uid" || a.Value.AsString() != string(run.UID) {
				continue
			}
			names = append(names, s.Name())
			parents[s.Name()] = s.Parent().SpanID().String()
			assert.Equal(t, traceID, s.SpanContext().TraceID().String(), s.Name())
			switch s.Name() {
			case trace.SpanRun:
				root = s.SpanContext().SpanID().String()
			case trace.SpanDeliver:
				deliver = s.SpanContext().SpanID().String()
			}
		}
	}
	assert.ElementsMatch(t, []string{trace.SpanRun, trace.SpanReserve, trace.SpanDeliver, trace.SpanRecord}, names)
	for name, parent := range parents {
		if name == trace.SpanRun {
			assert.Equal(t, above, parent)
		} else {
			assert.Equal(t, root, parent, name)
		}
	}
	return deliver
}

// about checks that each line about a run says of which.
func about(t *testing.T, log string, traces map[string]string) {
	t.Helper()
	seen := map[string]int{}
	for decoder := json.NewDecoder(strings.NewReader(log)); ; {
		var line map[string]any
		if err := decoder.Decode(&line); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		if name, ok := line["run"].(string); ok {
			seen[name]++
			for _, field := range []string{"namespace", "runUID", "attempt", "agent"} {
				assert.Contains(t, line, field, line)
			}
			assert.Equal(t, traces[name], line["trace_id"], line)
		} else {
			assert.False(t, strings.HasPrefix(line["msg"].(string), "run: "), line)
		}
	}
	for name := range traces {
		assert.GreaterOrEqual(t, seen[name], 2, name)
	}
}

// A write that is tried again, and one whose reply was lost, count at most once.
func TestAWriteThatIsRepeatedIsCountedOnce(t *testing.T) {
	w := newWorld(t)
	w.standing("reviewer-1", harness.Options{})
	p := w.controller()
	w.linked()
	p.mu.Lock()
	p.refuse = once("refused", 1, conflict())
	p.mu.Unlock()
	before := figures(t)
	refused := w.deliver("refused", goal)
	w.ended(refused)
	w.says(refused, "Reserved", "Completed")
	after := moved(t, before)
	assert.InDelta(t, 1, after["hearth_reserve_conflicts_total"], 0)
	assert.InDelta(t, 1, after["hearth_runs_finished_total delivered Succeeded Completed"], 0)

	var lost sync.Once
	p.mu.Lock()
	p.fail = func(run string) (err error) {
		if r, e := w.get(&hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: run}}); e == nil && r.Status.CompletionTime != nil && run == "lost" {
			lost.Do(func() { err = timeout() })
		}
		return err
	}
	p.mu.Unlock()
	before = figures(t)
	run := w.deliver("lost", goal)
	w.ended(run)
	next := w.deliver("next", goal)
	w.ended(next)
	w.says(run, "Reserved")
	w.says(next, "Reserved", "Completed") // what is told was counted
	assert.InDelta(t, 1, moved(t, before)["hearth_runs_finished_total delivered Succeeded Completed"], 0, "of the two only the one whose reply came")
}

// A target that goes away, and one that takes a delivery and says nothing.
func TestLossesUnknownsAndWhoWaitsAreCounted(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	silent := 0
	x := w.standing("reviewer-1", harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			cut := r.Method == http.MethodPost && r.URL.Path == wire.RunsPath && silent == 0
			if cut {
				silent++
			}
			mu.Unlock()
			if cut {
				next.ServeHTTP(rw, r)
				panic(http.ErrAbortHandler) // it has it, and the answer is lost
			}
			next.ServeHTTP(rw, r)
		})
	}})
	w.controller()
	w.linked()
	before := figures(t)
	run := w.deliver("run", harness.HoldPrefix+goal, func(r *hearthv1.AgentRun) { *r.Spec.BackoffLimit = 1 })
	w.reasonIs(run, hearthv1.ReasonRunning)
	assert.InDelta(t, 1, moved(t, before)["hearth_delivery_unknowns_total"], 0)
	x.remove()
	w.until(run, "lost once", func(r *hearthv1.AgentRun) bool { return r.Status.Delivery.Losses == 1 })
	require.True(t, w.eventually(func() bool { return slices.Contains(w.told(run), "AttemptLost") }))
	assert.InDelta(t, 1, moved(t, before)["hearth_delivery_losses_total TargetLost"], 0)
	mine := " " + w.agent.Name + " " + w.ns
	require.True(t, w.eventually(func() bool { return figures(t)["hearth_queue_depth"+mine] == 1 }))
	assert.InDelta(t, 1, figures(t)["hearth_targets"+mine+" "+metrics.TargetNotReady], 0)
	require.NoError(t, w.kube.Delete(t.Context(), w.agent))
	require.True(t, w.eventually(func() bool { _, there := figures(t)["hearth_queue_depth"+mine]; return !there }), "the series go with the Agent")
}
