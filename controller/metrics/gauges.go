package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// States of a target, in which it can be delivered to or not.
const (
	TargetReady           = "ready"
	TargetBusy            = "busy"     // every slot and queue place is taken, or it asked to be left alone
	TargetDraining        = "draining" // it finishes what it has
	TargetNotReady        = "not_ready"
	TargetUnreachable     = "unreachable"
	TargetUnauthenticated = "unauthenticated"
	TargetIncompatible    = "incompatible"
)

// TargetStates are all of them: each has a series, so that one that comes is no new series.
func TargetStates() []string {
	return []string{TargetReady, TargetBusy, TargetDraining, TargetNotReady, TargetUnreachable, TargetUnauthenticated, TargetIncompatible}
}

// State is what the leader knows at the moment of a scrape.
type State struct {
	// Links is how many there are, by state.
	Links map[string]int
	// Agents are those that take deliveries.
	Agents []Agent
}

// Agent is what waits for an Agent and what it could be delivered to.
type Agent struct {
	Namespace, Name string
	// Waiting runs have no target.
	Waiting int
	// Targets is how many standing runs there are, by state.
	Targets map[string]int
}

// watched is what the gauges are read from: the state of the controller that leads in this process.
type watched struct {
	mu     sync.Mutex
	source *func() (State, bool)

	links, queue, targets *prometheus.Desc
}

var leading = &watched{links: desc(Links), queue: desc(QueueDepth), targets: desc(Targets)}

func init() { metrics.Registry.MustRegister(leading) }

func desc(name string) *prometheus.Desc {
	m := of(name)
	return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
}

// Lead has the gauges read from a source at each scrape until stop is called. The source must be cheap, wait for nobody, and say false
// when it cannot tell: then there are no gauges.
func Lead(source func() (State, bool)) (stop func()) {
	mine := &source
	leading.set(nil, mine)
	return func() { leading.set(mine, nil) }
}

// set replaces the source; with an old one only if that is still the present one.
func (w *watched) set(old, source *func() (State, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old == nil || w.source == old {
		w.source = source
	}
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.links, w.queue, w.targets} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watched) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	source := w.source
	w.mu.Unlock()
	if source == nil {
		return
	}
	state, ok := (*source)()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for name, n := range state.Links {
		gauge(w.links, n, name)
	}
	for _, a := range state.Agents {
		gauge(w.queue, a.Waiting, a.Namespace, a.Name)
		for _, name := range TargetStates() {
			gauge(w.targets, a.Targets[name], a.Namespace, a.Name, name)
		}
	}
}
