package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hearthdev/hearth/internal/version"
)

var (
	buildInfo          = gauges(BuildInfo)
	runsFinished       = counters(RunsFinished)
	runWaiting         = histograms(RunWaiting)
	runDuration        = histograms(RunDuration)
	deliveryTime       = histograms(Delivery)
	recordTime         = histograms(Record)
	deliveryUnknowns   = counters(DeliveryUnknowns)
	deliveryLosses     = counters(DeliveryLosses)
	reserveConflicts   = counters(ReserveConflicts)
	recasts            = counters(Recasts)
	admissionRefusals  = counters(AdmissionRefusals)
	lateResults        = counters(LateResults)
	cancelsUnconfirmed = counters(CancelsUnconfirmed)
	linkPanics         = counters(LinkPanics)
	eventsDropped      = counters(EventsDropped)
	overlaps           = gauges(Overlaps)
	unserved           = gauges(Unserved)

	counterOf   = map[string]*prometheus.CounterVec{RunsFinished: runsFinished, DeliveryLosses: deliveryLosses, CancelsUnconfirmed: cancelsUnconfirmed}
	histogramOf = map[string]*prometheus.HistogramVec{RunWaiting: runWaiting, RunDuration: runDuration, Delivery: deliveryTime, Record: recordTime}
)

func init() {
	metrics.Registry.MustRegister(buildInfo, runsFinished, runWaiting, runDuration, deliveryTime, recordTime, deliveryUnknowns, deliveryLosses,
		reserveConflicts, recasts, admissionRefusals, lateResults, cancelsUnconfirmed, linkPanics, eventsDropped, overlaps, unserved)
	buildInfo.WithLabelValues("controller", version.Of(), version.Revision(), runtime.Version()).Set(1)
	// What has no labels is there from the beginning, so that a rate of its first change is seen.
	for _, vec := range []*prometheus.CounterVec{deliveryUnknowns, reserveConflicts, lateResults, cancelsUnconfirmed, linkPanics, eventsDropped} {
		vec.WithLabelValues()
	}
	for _, vec := range []*prometheus.HistogramVec{runWaiting, deliveryTime, recordTime} {
		vec.WithLabelValues()
	}
}

func counters(name string) *prometheus.CounterVec {
	m := of(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func gauges(name string) *prometheus.GaugeVec {
	m := of(name)
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func histograms(name string) *prometheus.HistogramVec {
	m := of(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, m.Labels)
}

// observe adds a value to a histogram, with the ID of the trace that shows it as exemplar; "" is none.
func observe(vec *prometheus.HistogramVec, value float64, traceID string, labels ...string) {
	o := vec.WithLabelValues(labels...)
	if with, ok := o.(prometheus.ExemplarObserver); ok && traceID != "" {
		with.ObserveWithExemplar(value, prometheus.Labels{"trace_id": traceID})
		return
	}
	o.Observe(value)
}

// LinkPanicked counts a panic of a Link's goroutine.
func LinkPanicked() { linkPanics.WithLabelValues().Inc() }

// EventDropped counts an Event that is not written.
func EventDropped() { eventsDropped.WithLabelValues().Inc() }

// ShardOverlaps says how many other controllers lead for Agents of this one's selector.
func ShardOverlaps(n int) { overlaps.WithLabelValues().Set(float64(n)) }

// AgentsUnserved says for how many Agents nobody leads.
func AgentsUnserved(n int) { unserved.WithLabelValues().Set(float64(n)) }

// ReserveConflict counts a reservation that lost a race.
func ReserveConflict() { reserveConflicts.WithLabelValues().Inc() }

// DeliveryUnknown counts a delivery of which nobody knows whether it was accepted.
func DeliveryUnknown() { deliveryUnknowns.WithLabelValues().Inc() }

// LateResult counts a result that came after the record.
func LateResult() { lateResults.WithLabelValues().Inc() }

// Recast counts standing runs of an Agent that are replaced because they ended.
func Recast(namespace, agent string, n int) {
	recasts.WithLabelValues(namespace, agent).Add(float64(n))
}

// AgentGone removes what is told of an Agent.
func AgentGone(namespace, agent string) { recasts.DeleteLabelValues(namespace, agent) }

// Refused counts a request that admission refused, once for each of its codes that is known; one that is not counts as Other.
func Refused(codes ...string) {
	seen := map[string]bool{}
	for _, code := range codes {
		code = known(code, refusalCodes)
		if !seen[code] {
			admissionRefusals.WithLabelValues(code).Inc()
		}
		seen[code] = true
	}
}
