// Package tracetest is a collector of traces for tests.
package tracetest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that arrived, as far as tests look at it. Parent is empty for a root.
type Span struct {
	Service, Name, Trace, ID, Parent string
	Attributes                       map[string]string
	Events                           []string
	Failed                           bool
}

// Collector takes OTLP over HTTP in protobuf.
type Collector struct {
	URL string // for OTEL_EXPORTER_OTLP_ENDPOINT

	mu       sync.Mutex
	spans    []Span
	requests []*http.Request
	status   []int
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer makes the next requests end with these statuses, one each, their spans not taken.
func (c *Collector) Answer(status ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// Spans are those that have arrived, in order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Requests are those that came, refused ones too; their bodies were read.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*http.Request(nil), c.requests...)
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	c.requests = append(c.requests, r)
	if len(c.status) > 0 {
		w.WriteHeader(c.status[0])
		c.status = c.status[1:]
		return
	}
	var data tracepb.TracesData
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range data.GetResourceSpans() {
		service := attributes(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span(service, s))
			}
		}
	}
}

func span(service string, s *tracepb.Span) Span {
	out := Span{
		Service: service, Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Attributes: attributes(s.GetAttributes()),
		Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
	}
	for _, e := range s.GetEvents() {
		out.Events = append(out.Events, e.GetName())
	}
	return out
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		value := a.GetValue()
		if text, ok := value.GetValue().(*commonpb.AnyValue_StringValue); ok {
			out[a.GetKey()] = text.StringValue
			continue
		}
		out[a.GetKey()] = value.String()
	}
	return out
}
