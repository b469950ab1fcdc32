// Package v1alpha1 is the warm-delivery wire contract hearth.dev/delivery/v1alpha1: its types, limits, codes, strict
// decoding and result envelope. It does no I/O and knows nothing of Kubernetes, so a foreign runtime or caller can import it.
// The normative text is SPEC.md; every identifier here names the clause it follows.
package v1alpha1

// Versions and places of the contract (SPEC.md, Wire).
const (
	// APIVersion is the apiVersion of every request and answer.
	APIVersion = "hearth.dev/delivery/v1alpha1"
	// ResultAPIVersion is the apiVersion of the result envelope.
	ResultAPIVersion = "hearth.dev/result/v1alpha1"
	// BasePath is the path under which all endpoints live.
	BasePath = "/hearth.dev/v1alpha1"
	// ChallengePath is POSTed to learn who answers; it is the only call without a boot.
	ChallengePath = BasePath + "/challenge"
	// RunsPath is POSTed to deliver and read to watch; RunsPath/{uid} is one attempt.
	RunsPath = BasePath + "/agent-runs"
	// RecordedSuffix follows RunsPath/{uid}: the record is written, the payload may be dropped.
	RecordedSuffix = "/recorded"

	// PortName is the name of the container port of the delivery listener.
	PortName = "delivery"
	// DefaultPort is the delivery listener's port unless the Agent says otherwise.
	DefaultPort = 4100
)

// Scheme is how the delivery listener is spoken to (SPEC.md, Confidentiality).
type Scheme string

// The schemes. HTTP is for foreign runtimes that only do the MACs; it hides nothing from who can read the wire.
const (
	SchemeHTTPS Scheme = "HTTPS"
	SchemeHTTP  Scheme = "HTTP"
)

// Headers of the contract (SPEC.md, Challenge).
const (
	HeaderChallenge = "Hearth-Challenge"
	HeaderBoot      = "Hearth-Boot"
	HeaderProof     = "Hearth-Proof"
	HeaderAnswer    = "Hearth-Answer"
)

// Query parameters of the contract (SPEC.md, Endpoints).
const (
	QueryAttempt      = "attempt"
	QuerySince        = "since"
	QueryIfNotStarted = "ifNotStarted"
)

// Limits of the contract (SPEC.md, Limits).
const (
	// MaxBodyBytes bounds a request's body; more is 413.
	MaxBodyBytes = 1 << 20
	// MaxAnswerBytes bounds what a caller reads of an answer: an envelope of MaxEnvelopeBytes within an attempt's state.
	MaxAnswerBytes = MaxEnvelopeBytes + 64<<10
	// MaxGoalBytes bounds goal and parameters together; admission refuses more.
	MaxGoalBytes = 256 << 10
	// MaxEnvelopeBytes bounds an encoded envelope.
	MaxEnvelopeBytes = 1 << 20
	// MaxPageBytes bounds one answer of the change feed.
	MaxPageBytes = 1 << 20
	// MaxWaitSeconds bounds Prefer: wait=N.
	MaxWaitSeconds = 30
	// FeedWaitSeconds is the wait a caller asks for on the change feed.
	FeedWaitSeconds = 25
	// MaxNameBytes and MaxUIDBytes bound names and UIDs in a request.
	MaxNameBytes = 253
	MaxUIDBytes  = 128
	// MaxAttempt bounds attempt numbers.
	MaxAttempt = 1 << 30
	// MaxSeconds bounds every duration given in seconds: about 31 years.
	MaxSeconds = 1_000_000_000
)
