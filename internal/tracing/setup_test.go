package tracing

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/hearthdev/hearth/internal/tracing/tracetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setUp(t *testing.T, log *bytes.Buffer, env map[string]string) (trace.Tracer, func(context.Context) error, error) {
	t.Helper()
	provider, shutdown, err := Setup(t.Context(), Config{
		Service: "hearth-test", Version: "v1", Log: slog.New(slog.NewTextHandler(log, nil)), Getenv: func(name string) string { return env[name] },
		Attributes: []attribute.KeyValue{attribute.String("k8s.pod.name", "pod-1")},
	})
	require.NotNil(t, provider)
	require.NotNil(t, shutdown)
	return provider.Tracer("test"), shutdown, err
}

// Issue of one tree: what is begun under a context from elsewhere arrives as its child, with the headers that were asked for.
func TestSpansArriveAtTheCollectorThatTheVariablesName(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"a base":               {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,other=2"},
		"a place for traces":   {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-key=a%20b", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1"},
		"protobuf, and named":  {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL/", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_SERVICE_NAME": "mine", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"},
		"its own attributes":   {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_RESOURCE_ATTRIBUTES": "service.name=mine,zone=a%2Cb", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"},
		"some, from elsewhere": {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"},
	} {
		t.Run(name, func(t *testing.T) {
			collector := tracetest.New(t)
			for k, v := range env {
				env[k] = strings.ReplaceAll(v, "URL", collector.URL)
			}
			var log bytes.Buffer
			tracer, shutdown, err := setUp(t, &log, env)
			require.NoError(t, err)
			above, err := Parse(known, "")
			require.NoError(t, err)
			_, span := tracer.Start(Under(t.Context(), above), "hearth.test", trace.WithAttributes(attribute.String("long", strings.Repeat("x", 2*maxValue))))
			span.End()
			require.NoError(t, shutdown(t.Context()))
			spans := collector.Spans()
			require.Len(t, spans, 1)
			assert.Equal(t, "hearth.test", spans[0].Name)
			assert.Equal(t, traceID, spans[0].Trace)
			assert.Equal(t, "00f067aa0ba902b7", spans[0].Parent)
			assert.Len(t, spans[0].Attributes["long"], maxValue)
			want := "hearth-test"
			if env["OTEL_SERVICE_NAME"]+env["OTEL_RESOURCE_ATTRIBUTES"] != "" {
				want = "mine"
			}
			assert.Equal(t, want, spans[0].Service)
			require.Len(t, collector.Requests(), 1)
			assert.Equal(t, "/v1/traces", collector.Requests()[0].URL.Path)
			assert.Equal(t, "a b", collector.Requests()[0].Header.Get("X-Key"))
			assert.NotContains(t, log.String(), "a b", "a header may be a key")
		})
	}
}

func TestWithoutAnEndpointContextsAreOnlyPassedOn(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":     nil,
		"disabled":    {"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1"},
		"no exporter": {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1"},
		"empty":       {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, shutdown, err := setUp(t, &bytes.Buffer{}, env)
			require.NoError(t, err)
			above, err := Parse(known, "a=1")
			require.NoError(t, err)
			ctx, span := tracer.Start(Under(t.Context(), above), "x")
			assert.False(t, span.IsRecording())
			parent, state := Format(trace.SpanContextFromContext(ctx))
			assert.Equal(t, known, parent)
			assert.Equal(t, "a=1", state)
			ctx, _ = tracer.Start(t.Context(), "x")
			assert.Empty(t, ID(ctx), "no trace is made up")
			require.NoError(t, shutdown(t.Context()))
		})
	}
}

func TestAWrongVariableIsNamedAndNothingSecretRepeated(t *testing.T) {
	const secret = "hunter2"
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://user:" + secret + "@host", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://user:" + secret + "@ho st",
		"OTEL_EXPORTER_OTLP_HEADERS": "key " + secret, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "k=" + secret + "%0a", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "0", "OTEL_EXPORTER_OTLP_COMPRESSION": "zip", "OTEL_TRACES_SAMPLER": "sometimes", "OTEL_TRACES_EXPORTER": "zipkin",
		"OTEL_RESOURCE_ATTRIBUTES": "=x", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/nowhere",
	} {
		t.Run(variable, func(t *testing.T) {
			var log bytes.Buffer
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1", variable: value}
			tracer, shutdown, err := setUp(t, &log, env)
			require.ErrorContains(t, err, variable)
			assert.NotContains(t, err.Error()+log.String(), secret)
			_, span := tracer.Start(t.Context(), "x") // and work goes on
			span.End()
			require.NoError(t, shutdown(t.Context()))
		})
	}
	_, _, err := setUp(t, &bytes.Buffer{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/dev/zero"})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_CERTIFICATE: expected a file of at most 1048576 bytes")
	_, _, err = setUp(t, &bytes.Buffer{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"})
	require.ErrorContains(t, err, "OTEL_TRACES_SAMPLER_ARG")
}

// A collector that is away is two lines in the log, however long it is, and costs nobody anything but the spans.
func TestACollectorThatIsAwayIsToldOnce(t *testing.T) {
	collector := tracetest.New(t)
	collector.Answer(http.StatusBadRequest, http.StatusUnauthorized, http.StatusPermanentRedirect)
	var log bytes.Buffer
	up, err := newUploader(settings{endpoint: must(t, collector.URL), timeout: time.Minute})
	require.NoError(t, err)
	defer func() { _ = up.Stop(t.Context()) }()
	q := &quiet{SpanExporter: &through{up}, log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 5 {
		require.NoError(t, q.ExportSpans(t.Context(), nil))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "cannot be exported"))
	assert.Equal(t, 1, strings.Count(log.String(), "exported again"))
	assert.Len(t, collector.Requests(), 5, "none is tried again that would fail again, and no redirect is followed")
}

func TestABatchIsTriedAgainWhereThatMayHelp(t *testing.T) {
	collector := tracetest.New(t)
	collector.Answer(http.StatusServiceUnavailable)
	up, err := newUploader(settings{endpoint: must(t, collector.URL), timeout: time.Minute})
	require.NoError(t, err)
	defer func() { _ = up.Stop(t.Context()) }()
	require.NoError(t, (&through{up}).ExportSpans(t.Context(), nil))
	assert.Len(t, collector.Requests(), 2)
}

// The end of the process waits for a collector that never answers no longer than it was told, and says nothing of the address.
func TestShutdownIsBounded(t *testing.T) {
	arrived, leave := make(chan struct{}, 9), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-leave
	}))
	defer silent.Close()
	defer close(leave)
	var log bytes.Buffer
	tracer, shutdown, err := setUp(t, &log, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": strings.Replace(silent.URL, "://", "://me:hunter2@", 1)})
	require.NoError(t, err)
	_, span := tracer.Start(t.Context(), "x")
	span.End()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	err = shutdown(ctx)
	require.Error(t, err)
	assert.NotContains(t, err.Error()+log.String(), "hunter2")
}
