package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	maxTries        = 3               // of one batch
	firstPause      = time.Second     // before it is tried again, doubled
	maxPause        = 5 * time.Second // what Retry-After may make of that
	maxAnswerBytes  = 64 << 10        // read of an answer, so that its connection can be used again
	maxCertificates = 1 << 20         // bytes of the file of authorities
)

// readFile reads a file that may be anything, a device included, up to a limit.
func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) // #nosec G304 -- who writes the Pod's template names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("expected a file of at most %d bytes", limit)
	}
	return content, err
}

func readPair(certificate, key string) (tls.Certificate, error) {
	public, err := readFile(certificate, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := readFile(key, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(public, private)
}

// uploader posts spans by OTLP over HTTP. OpenTelemetry's own client for that links gRPC, 5 MiB of a binary that never speaks it.
type uploader struct {
	settings
	http *http.Client
}

func newUploader(s settings) (*uploader, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.authority != "" {
		pem, err := readFile(s.authority, maxCertificates)
		if err != nil {
			return nil, fmt.Errorf("%sCERTIFICATE: %w", otlp, err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%sCERTIFICATE: expected certificates in PEM", otlp)
		}
	}
	if s.certificate != "" || s.privateKey != "" {
		pair, err := readPair(s.certificate, s.privateKey)
		if err != nil {
			return nil, fmt.Errorf("%sCLIENT_CERTIFICATE and %sCLIENT_KEY: %w", otlp, otlp, err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	return &uploader{settings: s, http: &http.Client{
		Timeout: s.timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true,
			MaxConnsPerHost: 2, MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswerBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the headers are for this place only
	}}, nil
}

// Start implements otlptrace.Client.
func (u *uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error {
	u.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // an ExportTraceServiceRequest has the same one field
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if u.gzip {
		body = packed(body)
	}
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		asked, err := u.post(ctx, body)
		if err == nil || asked == 0 || try == maxTries {
			return err
		}
		timer := time.NewTimer(min(max(pause, asked), maxPause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func packed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // memory does not fail
	_ = w.Close()
	return b.Bytes()
}

// post sends one batch once. A failure that may pass has the pause that was asked for, at least a moment; another has none.
func (u *uploader) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, plain(err)
	}
	for name, values := range u.headers {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if u.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := u.http.Do(r)
	if err != nil {
		return time.Millisecond, plain(err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswerBytes))
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		again = max(time.Millisecond, time.Duration(min(max(seconds, 0), int(maxPause/time.Second)))*time.Second)
	}
	return again, fmt.Errorf("the collector answered %d", answer.StatusCode)
}

// plain is an error without the URL, in which there may be a password.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// quiet logs when exporting begins to fail, and when it works again; a collector that is away for a day is two lines.
type quiet struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	failing bool // exports come one after the other
	dropped int
}

// ExportSpans implements sdktrace.SpanExporter.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := plain(q.SpanExporter.ExportSpans(ctx, spans))
	switch {
	case err != nil:
		if q.dropped += len(spans); !q.failing {
			q.log.Warn("traces: spans cannot be exported and are dropped", "cause", err)
		}
	case q.failing:
		q.log.Info("traces: exported again", "dropped", q.dropped)
		q.dropped = 0
	}
	q.failing = err != nil
	return nil
}
