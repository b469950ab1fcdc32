package delivery

import (
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Reservation is the persisted choice of a target for one attempt (SPEC.md, Lifecycle). It is written, with the resource
// version as its lock, before a byte leaves.
type Reservation struct {
	// Attempt is the number of the attempt, from 1. It only grows, and stays when the rest is given back (I7).
	Attempt int64
	PodName string
	PodUID  string
	// Journal is the ID of the target's journal at that moment: with another journal nothing can be concluded from silence.
	Journal string
	// Digest of the attempt's content (wire.Digest).
	Digest string
	// Generation of the Agent that the target's standing run was made from.
	Generation int64
	// By is the controller process that made it, a name new at every start. Only that process may conclude anything from not
	// having sent it. Another one clears By, under the lock, before it sends: from then on nobody may (fault rows 7, 8).
	By string
	// At is when it was made, by the controller's clock; zero means that there is none.
	At time.Time
}

// Live tells whether there is a reservation, and not only the number of the last one.
func (r Reservation) Live() bool { return !r.At.IsZero() }

// Seal adds the digest of the content, which Assign does not need to see.
func (r Reservation) Seal(runUID, goal string) Reservation {
	r.Digest = wire.Digest(runUID, r.Attempt, goal)
	return r
}

// Progress is what status.delivery and status.startTime persist of a delivered run.
type Progress struct {
	Reservation
	// AcceptedAt and StartedAt are the harness's clock; zero while unknown.
	AcceptedAt time.Time
	StartedAt  time.Time
	// Session is the agent's session that the attempt runs in.
	Session string
	// Losses counts attempts that infrastructure lost.
	Losses int32
	// Spent is how long lost attempts had been running. That was not waiting, so the starting deadline moves by it.
	Spent time.Duration
	// NextTime: not reserved again before it; zero means at once.
	NextTime time.Time
}

// Run is a delivered AgentRun as the API server has it.
type Run struct {
	UID, Namespace, Name string
	// Generation of the Agent that the run was resolved from.
	Generation int64
	Created    time.Time
	Cancel     bool
	// Admitted: admission resolved it; without that it must never be executed (fault row 45).
	Admitted bool
	// Starting bounds all time not started; Active is the run's own time. Zero means the default, never unbounded.
	Starting, Active time.Duration
	BackoffLimit     int32
	// Terminal: the record is written; nothing happens to the run any more.
	Terminal bool
	// Phase, and the Succeeded condition's present reason.
	Phase  Phase
	Reason Reason
	Progress
}

// Phase summarises where a run is (R2).
type Phase string

// The phases.
const (
	PhasePending   Phase = "Pending"
	PhaseRunning   Phase = "Running"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
)

// ConditionStatus is a condition's truth.
type ConditionStatus string

// Condition statuses.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// Condition is one condition's wanted value. Message never holds a goal or a secret.
type Condition struct {
	Status  ConditionStatus
	Reason  Reason
	Message string
}

// Status is the wanted status of a run, whole: what it does not name is to be absent.
type Status struct {
	Phase     Phase
	Succeeded Condition
	Delivered Condition
	// ACPReady is set with Ending (False/Finished); otherwise it is the target's and the caller's to fill in (R4).
	ACPReady *Condition
	Progress
	// Ending makes it the terminal status.
	Ending *Ending
}

// Ending is the terminal record. It is written once, together with everything else in Status, and never changes (I2).
type Ending struct {
	// Outcome is empty when the end is the controller's word and not an envelope's.
	Outcome    wire.Outcome
	Reason     Reason
	Message    string
	Output     *wire.Output
	Usage      *wire.Usage
	Truncation *wire.Truncation
	// Data is what a runtime that knows no envelope left, as it was, at most MaxMessageBytes of valid text; never of a delivered run.
	Data           string
	CompletionTime time.Time // the harness's clock if an envelope ended it
	RecordedAt     time.Time // the controller's clock
	// DurationSeconds is the run's own time; nil when it is not known.
	DurationSeconds *int64
}

// Action is the one thing to do next for a run.
type Action int

// The actions. With ActionNone a Status may still want writing.
const (
	ActionNone        Action = iota
	ActionSend               // deliver this same attempt to this same Pod UID
	ActionLook               // GET the attempt; on a Link that is not verified it fails, and has the target challenged at once
	ActionVoid               // DELETE with ifNotStarted
	ActionCancel             // DELETE
	ActionReadPod            // read the target's Pod from the API server, not from a cache
	ActionReadRun            // read the run from the API server, not from a cache, and decide again
	ActionGiveBack           // write Status (locked): the reservation is given back, no loss counted
	ActionNextAttempt        // write Status (locked): the attempt was lost, another may follow
	ActionRecord             // write Status (locked): the envelope's terminal record; then tell the harness
	ActionFinish             // write Status (locked): a terminal record of the controller's own
	ActionDisown             // write Status (locked): By is cleared, so that a send by this process is allowed
)

// Decision is what Decide wants.
type Decision struct {
	Action Action
	// Status is to be written if it differs from what is stored; nil leaves it as it is.
	Status *Status
	// Lost is why infrastructure lost the attempt, where Status counts a loss; else empty.
	Lost Reason
	// RequeueAt is when to ask again though nothing was observed; zero when only an event can change anything.
	RequeueAt time.Time
}

// LinkState is how the Link to a target stands.
type LinkState int

// The states of a Link.
const (
	LinkNone            LinkState = iota // no Link is open
	LinkChallenging                      // it was not answered yet
	LinkVerified                         // the last challenge was answered
	LinkUnreachable                      // nobody there gave a valid answer
	LinkUnauthenticated                  // a verified 401: it does not accept our proof
	LinkIncompatible                     // a verified 406: no version in common
)

// SendOutcome is what the reply to a delivery proves.
type SendOutcome int

// The outcomes of a send. The zero value is the cautious one.
const (
	SendUnknown  SendOutcome = iota // it may have been accepted
	SendAccepted                    // 200 or 202
	SendRejected                    // a verified 400
	SendNotTaken                    // it never left, or a verified refusal that journals nothing
)

// Sent is what this process remembers of its sends of the reserved attempt.
type Sent struct {
	// Count of sends begun by this process. Raised before the first byte leaves.
	Count int
	// Outcome of the last one; means nothing while Count is 0 or a call is in flight.
	Outcome SendOutcome
	// Code of the refusal; empty when it never left (dial or TLS failed).
	Code wire.Code
	// Message for people: why it was not taken or rejected.
	Message string
	// RetryAt is when the target asked to be tried again; zero when it did not. It is about deliveries: a void need not wait for it.
	RetryAt time.Time
}

// PodRead is what a live read of the target's Pod said.
type PodRead int

// The results of reading a Pod.
const (
	PodNotRead  PodRead = iota // not read yet, or the read failed
	PodPresent                 // that very UID is there and not in a terminal phase
	PodGone                    // not found, or another UID has the name
	PodTerminal                // phase Succeeded or Failed
)

// Observed is what the controller knows of the reserved attempt besides the run itself. Everything here is memory.
type Observed struct {
	// Self is this process's name, as in Reservation.By. Mine: it made the reservation and remembers all it did about it.
	// A reservation found after a restart is not mine: its sends are unknown.
	Self string
	Mine bool
	// AgentGone: the Agent does not exist any more, or another has its name.
	AgentGone bool
	// Since is when this process first saw the reservation, and CancelSince when it first saw cancel; zero means now.
	Since       time.Time
	CancelSince time.Time
	// LiveRun: the run was just read from the API server, not from a cache.
	LiveRun bool

	Link        LinkState
	LinkMessage string
	// Journal is the one the last challenge was answered with.
	Journal string
	// LastContact is the last verified answer; before the first one, when the Link was opened.
	LastContact time.Time
	// Cordoned: the target takes no new work.
	Cordoned bool

	// InFlight: a call about this attempt is under way.
	InFlight bool
	// NotBefore: the next call about this attempt is due then (backoff, Retry-After).
	NotBefore time.Time

	Sent Sent
	// Seen is the attempt as the harness last told it, by any call or the feed, and SeenJournal the journal it was told under.
	Seen        *wire.Attempt
	SeenJournal string
	// SeenSince is when this process first saw Seen in that state.
	SeenSince time.Time
	// Absent: a look begun after the last send ended, and after this process saw that it was accepted, was answered 404 unknown, under
	// journal SeenJournal. A send clears it.
	Absent bool

	// PodSuspect: the cache shows the Pod missing, terminal or with another UID.
	PodSuspect bool
	PodRead    PodRead
	PodReadAt  time.Time
}

// Target is a standing run's Pod as a candidate.
type Target struct {
	PodName, PodUID string
	// Generation of the Agent that its standing run was made from.
	Generation int64
	Cordoned   bool
	// Listening: the Pod counts as ready (R4). Message says why not.
	Listening bool
	Message   string

	Link        LinkState
	LinkMessage string
	Journal     string
	Agent       wire.AgentState
	Capacity    wire.Capacity
	// Reserved counts attempts reserved for it, persisted or assumed, that Capacity does not count yet.
	Reserved int
	// BackoffUntil: nothing is reserved for it before then.
	BackoffUntil time.Time
}

// Pool is everything one Agent could deliver to.
type Pool struct {
	// By is the name of this controller process, for its reservations.
	By      string
	Targets []Target
	// Recasting: a standing run ended and its replacement waits out its backoff. Message is shown with it.
	Recasting bool
	Message   string
}

// Reserve is one reservation to be written.
type Reserve struct {
	Run         string // UID
	Reservation Reservation
}

// Refusal is why runs have to wait: all of a pass for the same.
type Refusal struct {
	Reason  Reason
	Message string
}

// Assignments is what Assign wants.
type Assignments struct {
	// Reserves are of the oldest runs, oldest first.
	Reserves []Reserve
	// Refused are the runs that have to wait, in no order, and Refusal is why; they are those that were given.
	Refused []*Run
	Refusal Refusal
	// RequeueAt is when a backoff ends that kept something waiting; zero when only an event can change anything.
	RequeueAt time.Time
}
