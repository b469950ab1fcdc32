package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Set is the metrics of one harness, in a registry of its own. Its methods may be called from any goroutine and do not block.
type Set struct {
	registry *prometheus.Registry
	own      sync.Once // those of Go and of the process

	turns, restarts, decisions, requests *prometheus.CounterVec
	up, clients                          *prometheus.GaugeVec
	turnSeconds, writeSeconds            *prometheus.HistogramVec
}

// New makes the metrics of a harness of that build.
func New(version, revision string) *Set {
	r := prometheus.NewRegistry()
	s := &Set{
		registry: r,
		turns:    counter(r, Turns), restarts: counter(r, AgentRestarts), decisions: counter(r, PermissionDecisions), requests: counter(r, DeliveryRequests),
		up: gauge(r, AgentUp), clients: gauge(r, ACPClients),
		turnSeconds: histogram(r, TurnSeconds), writeSeconds: histogram(r, JournalWriteSeconds),
	}
	gauge(r, BuildInfo).WithLabelValues("harness", version, revision, runtime.Version()).Set(1)
	s.restarts.WithLabelValues() // what has not happened yet is 0
	s.up.WithLabelValues()
	s.turnSeconds.WithLabelValues()
	s.writeSeconds.WithLabelValues()
	return s
}

// Watch says who is asked, at each scrape, how many attempts are queued and how many are running. It is called once.
func (s *Set) Watch(runs func() (queued, running int)) {
	s.registry.MustRegister(&scraped{description(row(HarnessRuns)), runs})
}

// scraped is what is looked up at each scrape.
type scraped struct {
	*prometheus.Desc
	runs func() (queued, running int)
}

// Describe implements prometheus.Collector.
func (s *scraped) Describe(to chan<- *prometheus.Desc) { to <- s.Desc }

// Collect implements prometheus.Collector.
func (s *scraped) Collect(to chan<- prometheus.Metric) {
	queued, running := s.runs()
	to <- prometheus.MustNewConstMetric(s.Desc, prometheus.GaugeValue, float64(queued), Queued)
	to <- prometheus.MustNewConstMetric(s.Desc, prometheus.GaugeValue, float64(running), Running)
}

// Turned counts a turn that ended; trace is the ID of the trace that it is kept in, or "".
func (s *Set) Turned(outcome wire.Outcome, reason wire.Reason, took time.Duration, trace string) {
	s.turns.WithLabelValues(string(outcome), string(reason)).Inc()
	seconds := s.turnSeconds.WithLabelValues()
	if e, ok := seconds.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	seconds.Observe(took.Seconds())
}

// Interrupted counts a turn that the last boot did not end; how long it took nobody knows.
func (s *Set) Interrupted() {
	s.turns.WithLabelValues(string(wire.OutcomeInterrupted), string(wire.ReasonInterrupted)).Inc()
}

// Restarted counts one start of an agent that was started before.
func (s *Set) Restarted() { s.restarts.WithLabelValues().Inc() }

// Up says how many agents answer.
func (s *Set) Up(agents int) { s.up.WithLabelValues().Set(float64(agents)) }

// Decided counts an answer to a permission question.
func (s *Set) Decided(decision, by string) { s.decisions.WithLabelValues(decision, by).Inc() }

// Attached says that so many more clients are attached with this access by this transport; fewer, where it is negative.
func (s *Set) Attached(access, transport string, more int) {
	s.clients.WithLabelValues(access, transport).Add(float64(more))
}

// Wrote says how long a durable write of the journal took.
func (s *Set) Wrote(took time.Duration) { s.writeSeconds.WithLabelValues().Observe(took.Seconds()) }

// Answered counts an answer of the delivery port.
func (s *Set) Answered(endpoint string, status int) {
	s.requests.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
}

// handler serves the metrics, as OpenMetrics with exemplars where that is asked for. What tells of Go and of the process is looked for at
// the first scrape, because that takes as long as a good deal of a start.
func (s *Set) handler() http.Handler {
	scrape := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: maxScrapes, Timeout: writeTimeout / 2,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.own.Do(func() {
			s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		})
		scrape.ServeHTTP(w, r)
	})
}

func row(name string) Metric {
	for _, m := range Table {
		if m.Name == name {
			return m
		}
	}
	panic("no metric " + name) // of constants of this package
}

func description(m Metric) *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

func counter(r *prometheus.Registry, name string) *prometheus.CounterVec {
	m := row(name)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
	r.MustRegister(v)
	return v
}

func gauge(r *prometheus.Registry, name string) *prometheus.GaugeVec {
	m := row(name)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
	r.MustRegister(v)
	return v
}

func histogram(r *prometheus.Registry, name string) *prometheus.HistogramVec {
	m := row(name)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.buckets}, m.Labels)
	r.MustRegister(v)
	return v
}
