package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/hearthdev/hearth/controller/signals/paced"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/internal/tracing"
	"github.com/hearthdev/hearth/internal/version"
)

// openMetrics has /metrics answer in OpenMetrics who asks for it: exemplars exist in no other text format.
func openMetrics(o *promhttp.HandlerOpts) { o.EnableOpenMetrics = true }

// calm is a manager whose Events wait for their turn.
type calm struct {
	manager.Manager

	recorders *paced.Recorders
}

// GetEventRecorder implements cluster.Cluster.
func (c calm) GetEventRecorder(name string) recorder.EventRecorder {
	at := c.Manager.GetEventRecorder(name)
	return struct {
		events.EventRecorder
		events.AnnotatedEventRecorder // of these we have none
	}{c.recorders.To(at), at}
}

// newSpans exports spans where the standard OTEL_ variables say where to. A variable that is wrong costs the traces and nothing else.
func newSpans(ctx context.Context, log *slog.Logger) (spans *trace.Spans, end func()) {
	provider, shutdown, err := tracing.Setup(ctx, tracing.Config{
		Service: "hearth-controller", Version: version.Of(), Getenv: os.Getenv, Log: log, IDs: trace.IDs(),
		Attributes: []attribute.KeyValue{attribute.String("k8s.pod.name", os.Getenv("HOSTNAME"))},
	})
	if err != nil {
		log.Error("traces are not exported", "cause", err)
	}
	return trace.New(provider), func() {
		if err := shutdown(context.WithoutCancel(ctx)); err != nil {
			log.Warn("the last spans were not exported", "cause", err)
		}
	}
}
