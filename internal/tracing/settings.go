package tracing

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
)

const (
	otlp           = "OTEL_EXPORTER_OTLP_"
	tracesPath     = "v1/traces"
	protobuf       = "http/protobuf"
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
)

// settings are what the OTEL_ variables say.
type settings struct {
	endpoint                *url.URL
	headers                 http.Header
	timeout                 time.Duration // one request
	gzip                    bool
	authority               string // file with the certificates that the collector's is checked with; "": the system's
	certificate, privateKey string // files, for a collector that asks who calls
	sampler                 sdktrace.Sampler
	attributes              []attribute.KeyValue
}

// read reads the variables; false when nothing is to be exported. An error names the variable and repeats nothing that may be secret.
func read(getenv func(string) string) (s settings, on bool, err error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || strings.EqualFold(getenv("OTEL_TRACES_EXPORTER"), "none") {
		return settings{}, false, nil
	}
	own, ownName := specific(getenv, "ENDPOINT")
	if own == "" {
		return settings{}, false, nil
	}
	if e := getenv("OTEL_TRACES_EXPORTER"); e != "" && !strings.EqualFold(e, "otlp") {
		return settings{}, false, fmt.Errorf("OTEL_TRACES_EXPORTER: expected otlp or none, got %.32q", e)
	}
	if p, name := specific(getenv, "PROTOCOL"); p != "" && p != protobuf {
		return settings{}, false, fmt.Errorf("%s: expected %s, got %.32q", name, protobuf, p)
	}
	if s.endpoint, err = url.Parse(own); err != nil || s.endpoint.Host == "" || s.endpoint.Scheme != "http" && s.endpoint.Scheme != "https" {
		return settings{}, false, fmt.Errorf("%s: expected a URL with http or https and a host", ownName)
	}
	if ownName == otlp+"ENDPOINT" { // a base, to which the signal's path is added
		s.endpoint = s.endpoint.JoinPath(tracesPath)
	}
	if err := s.readTransport(getenv); err != nil {
		return settings{}, false, err
	}
	if s.sampler, err = sampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return settings{}, false, err
	}
	pairs, err := list("OTEL_RESOURCE_ATTRIBUTES", getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return settings{}, false, err
	}
	for _, p := range pairs {
		s.attributes = append(s.attributes, attribute.String(p[0], p[1]))
	}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		s.attributes = append(s.attributes, attribute.String("service.name", name))
	}
	return s, true, nil
}

func (s *settings) readTransport(getenv func(string) string) error {
	given, name := specific(getenv, "HEADERS")
	pairs, err := list(name, given)
	if err != nil {
		return err
	}
	s.headers = http.Header{}
	for _, p := range pairs {
		if !httpguts.ValidHeaderFieldName(p[0]) || !httpguts.ValidHeaderFieldValue(p[1]) {
			return fmt.Errorf("%s: expected names and values that a header can carry", name)
		}
		s.headers.Set(p[0], p[1])
	}
	s.timeout = defaultTimeout
	if given, name := specific(getenv, "TIMEOUT"); given != "" {
		n, err := strconv.ParseInt(given, 10, 64)
		if err != nil || n < 1 || n > maxTimeout.Milliseconds() {
			return fmt.Errorf("%s: expected milliseconds from 1 to %d, got %.32q", name, maxTimeout.Milliseconds(), given)
		}
		s.timeout = time.Duration(n) * time.Millisecond
	}
	switch given, name := specific(getenv, "COMPRESSION"); given {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return fmt.Errorf("%s: expected gzip or none, got %.32q", name, given)
	}
	s.authority, _ = specific(getenv, "CERTIFICATE")
	s.certificate, _ = specific(getenv, "CLIENT_CERTIFICATE")
	s.privateKey, _ = specific(getenv, "CLIENT_KEY")
	return nil
}

// specific is a variable of the exporter for traces alone or, without one, for all signals.
func specific(getenv func(string) string, what string) (value, name string) {
	name = otlp + "TRACES_" + what
	if value = getenv(name); value == "" {
		name = otlp + what
		value = getenv(name)
	}
	return strings.TrimSpace(value), name
}

// list reads KEY=VALUE[,…], values percent-encoded.
func list(name, text string) (pairs [][2]string, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		key, value, found := strings.Cut(item, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || key == "" || err != nil {
			return nil, fmt.Errorf("%s: expected KEY=VALUE[,…], values percent-encoded", name)
		}
		pairs = append(pairs, [2]string{key, value})
	}
	return pairs, nil
}

// sampler is the one of that name; a trace that came from elsewhere is kept where it was kept, unless another is chosen.
func sampler(name, arg string) (sdktrace.Sampler, error) {
	ratio := 1.0
	if arg != "" && strings.HasSuffix(name, "traceidratio") {
		var err error
		if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, got %.32q", arg)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: expected one of the standard's names, such as parentbased_traceidratio, got %.32q", name)
}
