package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Bounds of what waits to be exported, and of a span.
const (
	maxQueued    = 2048             // spans that wait; what comes beyond is dropped
	maxBatch     = 256              // spans of one request
	batchEvery   = 2 * time.Second  // how long a span waits for others
	exportLimit  = 30 * time.Second // one batch, with what is tried again
	endLimit     = 5 * time.Second  // the last batches when the process ends
	maxValue     = 1 << 10          // bytes of an attribute's value
	maxAttribute = 64               // attributes of a span, and of an event
	maxEvents    = 64               // events of a span
	maxLinks     = 16               // links of a span
)

// Config is what Setup needs. Service, Getenv and Log are required.
type Config struct {
	Service, Version string
	Getenv           func(string) string // of the OTEL_ variables
	Log              *slog.Logger        // hears when exporting begins to fail and when it works again, and no secret
	// Attributes are added to the resource: who this is. OTEL_RESOURCE_ATTRIBUTES may replace them.
	Attributes []attribute.KeyValue
	// IDs replaces the random identifiers; nil: they are random.
	IDs sdktrace.IDGenerator
}

// Setup makes the tracer provider that the standard variables of OpenTelemetry ask for. Without an endpoint there is nothing to
// export to: the provider does nothing, and contexts are passed on as they came. The error names the variable that is wrong; then
// the provider does nothing either, and a caller logs it and goes on, because work is worth more than its traces.
// shutdown exports what is left, for at most five seconds, and is to be called once; contexts of spans stay valid.
func Setup(ctx context.Context, cfg Config) (provider trace.TracerProvider, shutdown func(context.Context) error, err error) {
	off := func(context.Context) error { return nil }
	s, on, err := read(cfg.Getenv)
	if err != nil || !on {
		return noop.NewTracerProvider(), off, err
	}
	up, err := newUploader(s)
	if err != nil {
		return noop.NewTracerProvider(), off, err
	}
	exporter, err := otlptrace.New(ctx, up)
	if err != nil {
		return noop.NewTracerProvider(), off, fmt.Errorf("traces: %w", err)
	}
	sdk := sdktrace.NewTracerProvider(append(cfg.options(s),
		sdktrace.WithBatcher(&quiet{SpanExporter: exporter, log: cfg.Log},
			sdktrace.WithMaxQueueSize(maxQueued), sdktrace.WithMaxExportBatchSize(maxBatch),
			sdktrace.WithBatchTimeout(batchEvery), sdktrace.WithExportTimeout(exportLimit)))...)
	cfg.Log.Info("traces: exported", "host", s.endpoint.Host)
	return sdk, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, endLimit)
		defer cancel()
		if err := sdk.Shutdown(ctx); err != nil {
			return fmt.Errorf("export the last spans: %w", plain(err))
		}
		return nil
	}, nil
}

func (c Config) options(s settings) []sdktrace.TracerProviderOption {
	about := append([]attribute.KeyValue{attribute.String("service.name", c.Service), attribute.String("service.version", c.Version)}, c.Attributes...)
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(append(about, s.attributes...)...)), // of two with one name the later counts
		sdktrace.WithSampler(s.sampler),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: maxValue, AttributeCountLimit: maxAttribute, EventCountLimit: maxEvents, LinkCountLimit: maxLinks,
			AttributePerEventCountLimit: maxAttribute, AttributePerLinkCountLimit: maxAttribute,
		}),
	}
	if c.IDs != nil {
		options = append(options, sdktrace.WithIDGenerator(c.IDs))
	}
	return options
}
