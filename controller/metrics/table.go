// Package metrics has the controller's metrics: one table that says what they are called, what moves them and by what they are told
// apart, and a function for each thing that happens. Callers tell what happened after it was stored, once; what that moves is decided
// here. No label ever holds the name of a run, a Pod or a session (SPEC.md, Signals).
package metrics

import "slices"

// Kind is what kind of metric it is, in Prometheus' words.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one row of the table.
type Metric struct {
	Name string
	Kind Kind
	// Help says what moves it.
	Help string
	// Labels are their names, in the order in which the code gives their values.
	Labels []string
	// Buckets are the upper bounds of a histogram's, in seconds.
	Buckets []float64
	// Leader: only the replica that leads has it, because another one does not know.
	Leader bool
}

// The metrics' names.
const (
	BuildInfo          = "hearth_build_info"
	RunsFinished       = "hearth_runs_finished_total"
	RunWaiting         = "hearth_run_waiting_seconds"
	RunDuration        = "hearth_run_duration_seconds"
	Delivery           = "hearth_delivery_seconds"
	Record             = "hearth_record_seconds"
	Links              = "hearth_links"
	DeliveryUnknowns   = "hearth_delivery_unknowns_total"
	DeliveryLosses     = "hearth_delivery_losses_total"
	ReserveConflicts   = "hearth_reserve_conflicts_total"
	QueueDepth         = "hearth_queue_depth"
	Targets            = "hearth_targets"
	Recasts            = "hearth_recasts_total"
	AdmissionRefusals  = "hearth_admission_refusals_total"
	LateResults        = "hearth_late_results_total"
	CancelsUnconfirmed = "hearth_cancels_unconfirmed_total"
	LinkPanics         = "hearth_link_panics_total"
	EventsDropped      = "hearth_events_dropped_total"
	Overlaps           = "hearth_shard_overlaps"
	Unserved           = "hearth_agents_unserved"
)

var (
	// quick are for what takes milliseconds where all is well.
	quick = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	// long are for work and for waiting for it: up to a day.
	long = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400}
)

var table = []Metric{
	{Name: BuildInfo, Kind: Gauge, Labels: []string{"component", "version", "revision", "goversion"},
		Help: "1; the labels say what this program was built from."},
	{Name: RunsFinished, Kind: Counter, Labels: []string{"kind", "outcome", "reason"},
		Help: "Records written: one for each run that ended, by kind (delivered, pod: one-shot with a Pod of its own, standing), outcome and reason."},
	{Name: RunWaiting, Kind: Histogram, Buckets: long,
		Help: "Seconds from the creation of a delivered run until the harness started it, of runs that lost no attempt before."},
	{Name: Delivery, Kind: Histogram, Buckets: quick,
		Help: "Seconds from the reservation of a target until the harness accepted the attempt."},
	{Name: RunDuration, Kind: Histogram, Labels: []string{"outcome"}, Buckets: long,
		Help: "Seconds that a run took, from its start to its end, by outcome; standing runs are not counted."},
	{Name: Record, Kind: Histogram, Buckets: quick,
		Help: "Seconds from the end of a delivered run in the harness until its record was written."},
	{Name: Links, Kind: Gauge, Labels: []string{"state"}, Leader: true,
		Help: "Connections to standing Pods, by state."},
	{Name: DeliveryUnknowns, Kind: Counter,
		Help: "Deliveries of which nobody could say, when the call was over, whether the harness accepted them. Each is cleared up before anything else is done with the run."},
	{Name: DeliveryLosses, Kind: Counter, Labels: []string{"reason"},
		Help: "Attempts of delivered runs that infrastructure lost, by reason, whether or not another followed."},
	{Name: ReserveConflicts, Kind: Counter,
		Help: "Reservations that lost a race against another write of the run. Nothing was sent."},
	{Name: QueueDepth, Kind: Gauge, Labels: []string{"namespace", "agent"}, Leader: true,
		Help: "Delivered runs of an Agent that have no target."},
	{Name: Targets, Kind: Gauge, Labels: []string{"namespace", "agent", "state"}, Leader: true,
		Help: "Standing runs of an Agent that takes deliveries, by whether they can be delivered to."},
	{Name: Recasts, Kind: Counter, Labels: []string{"namespace", "agent"},
		Help: "Standing runs that ended and were replaced, by Agent; without series of Agents that are gone."},
	{Name: AdmissionRefusals, Kind: Counter, Labels: []string{"code"},
		Help: "Requests that admission refused, once for each code in the answer; dry runs included."},
	{Name: LateResults, Kind: Counter,
		Help: "Results that came after the run had been recorded; the record stays. One that was told before a restart of the controller may be counted again."},
	{Name: CancelsUnconfirmed, Kind: Counter,
		Help: "Records with reason CancelUnconfirmed: asked to stop, and nobody confirmed; the work may still go on."},
	{Name: LinkPanics, Kind: Counter,
		Help: "Panics in the connections to standing Pods. Each was survived, and its stack is in the log."},
	{Name: EventsDropped, Kind: Counter,
		Help: "Events that were not written because too many waited, Normal ones first. Records, log and metrics have what they would have told."},
	{Name: Overlaps, Kind: Gauge,
		Help: "Other controllers that lead for Agents of this one's --agent-selector. While there is one, this one waits, or is about to; one without a selector does not look."},
	{Name: Unserved, Kind: Gauge, Leader: true,
		Help: "Agents of shards for which no controller leads, as seen once a minute by one with an --agent-selector."},
}

// Table is every metric of ours that the controller serves, for documentation and for checks of expressions.
func Table() []Metric { return slices.Clone(table) }

// of is a metric's row; a name that has none is a fault of the program.
func of(name string) Metric {
	i := slices.IndexFunc(table, func(m Metric) bool { return m.Name == name })
	return table[i]
}
