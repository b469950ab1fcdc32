// Package metrics is what a harness tells Prometheus (SPEC.md, Metrics of the harness): one table of names, the collectors made of it, and the
// listener that serves them. No label holds a run, a Pod, a session or a person.
package metrics

// Kind is a metric's type.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one row of the table.
type Metric struct {
	Name, Help string
	Kind       Kind
	Labels     []string
	buckets    []float64
}

// Names of the metrics.
const (
	BuildInfo           = "hearth_build_info"
	Turns               = "hearth_turns_total"
	TurnSeconds         = "hearth_turn_seconds"
	AgentRestarts       = "hearth_agent_restarts_total"
	AgentUp             = "hearth_agent_up"
	PermissionDecisions = "hearth_permission_decisions_total"
	ACPClients          = "hearth_acp_clients"
	JournalWriteSeconds = "hearth_journal_write_seconds"
	HarnessRuns         = "hearth_harness_runs"
	DeliveryRequests    = "hearth_delivery_requests_total"
)

// Buckets of the histograms, in seconds: a turn may be a word or an afternoon, a write is one sync of the disk.
var (
	turnBuckets  = []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200}
	writeBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// Table is every metric of a harness, beside those of the Go runtime (go_…) and of the process (process_…).
var Table = []Metric{
	{Name: BuildInfo, Kind: Gauge, Labels: []string{"component", "version", "revision", "goversion"}, Help: "1: which build of Hearth this is."},
	{Name: Turns, Kind: Counter, Labels: []string{"outcome", "reason"}, Help: "Turns that ended: goals that were sent to an agent, by how the envelope says they ended."},
	{Name: TurnSeconds, Kind: Histogram, buckets: turnBuckets, Help: "How long turns took, from the goal to the envelope."},
	{Name: AgentRestarts, Kind: Counter, Help: "Starts of an agent process after the first of its slot, whyever the one before ended or did not start."},
	{Name: AgentUp, Kind: Gauge, Help: "Agent processes that answer."},
	{Name: PermissionDecisions, Kind: Counter, Labels: []string{"decision", "by"}, Help: "Answers to agents' permission questions: allow, deny, cancelled or other, by the policy, a client, or the timeout where people were asked."},
	{Name: ACPClients, Kind: Gauge, Labels: []string{"access", "transport"}, Help: "Clients that are attached to port 4000, by what their key lets them do and how they came."},
	{Name: JournalWriteSeconds, Kind: Histogram, buckets: writeBuckets, Help: "How long the journal's durable writes took, the sync of the disk included."},
	{Name: HarnessRuns, Kind: Gauge, Labels: []string{"state"}, Help: "Attempts that are queued, or running."},
	{Name: DeliveryRequests, Kind: Counter, Labels: []string{"endpoint", "code"}, Help: "Answers of the delivery port, by endpoint and HTTP status; those to strangers, too."},
}

// Words of labels that are no words of the wire.
const (
	Queued, Running = "queued", "running"
)
