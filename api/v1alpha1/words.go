package v1alpha1

// Labels and names the controller stamps. Everything under hearth.dev/ is the controller's alone, but for what says otherwise.
const (
	// LabelPrefix begins every label of ours.
	LabelPrefix = "hearth.dev/"
	// LabelAgent holds the Agent's name, on runs and Pods.
	LabelAgent = "hearth.dev/agent"
	// LabelRun holds the name of the run that a Pod belongs to. The controller's Pod cache is restricted to it (R6).
	LabelRun = "hearth.dev/run"
	// LabelShard holds the shard of an Agent, and of all that is made for it: which controller works for it (SPEC.md, Shards). People
	// write it on an Agent, or on a run without one, once, at creation; without it that is the default shard.
	LabelShard = "hearth.dev/shard"
	// AnnotationGeneration holds, on a standing run, the generation of the Agent it was made from.
	AnnotationGeneration = "hearth.dev/agent-generation"

	// AnnotationScheduledAt holds, on a run that a schedule made, the time of the schedule that it is for, in RFC 3339.
	AnnotationScheduledAt = "hearth.dev/scheduled-at"

	// AnnotationTraceparent and AnnotationTracestate hold the trace context (W3C Trace Context) that a run's author has it work in. They
	// are the only annotations of ours that people write, once, at creation.
	AnnotationTraceparent = "hearth.dev/traceparent"
	AnnotationTracestate  = "hearth.dev/tracestate"

	// SecretToken and SecretGoal are the keys of a Pod-backed run's Secret.
	SecretToken = "token" //nolint:gosec // a key's name, not a secret
	SecretGoal  = "goal"
	// SecretKey is the key of an Agent's two Secrets for people, which KeySecretNames names.
	SecretKey = "secret-key" //nolint:gosec // a key's name, not a secret

	// PortACP is the name and PortACPNumber the number of the ACP endpoint's port (R1).
	PortACP       = "acp"
	PortACPNumber = 4000

	// MaxAgentName bounds an Agent's name, so that names made from it fit.
	MaxAgentName = 50
	// MaxOutputBytes bounds output.value in status; what is longer is cut and the cut recorded.
	MaxOutputBytes = 256 << 10
	// MaxMessageBytes bounds status.message.
	MaxMessageBytes = 4096
)

// Condition types.
const (
	// AgentRunConditionSucceeded decides how a run ended; Unknown while it lives (R11).
	AgentRunConditionSucceeded = "Succeeded"
	// AgentRunConditionACPReady tells whether an ACP client may dial (R4, R5). Dial on it, never on phase.
	AgentRunConditionACPReady = "ACPReady"
	// AgentRunConditionDelivered tells whether the harness has journalled a delivered run.
	AgentRunConditionDelivered = "Delivered"
	// AgentRunConditionCredentialReady is False on a standing run whose Secret was lost while its Pod lives.
	AgentRunConditionCredentialReady = "CredentialReady"

	// AgentConditionReady tells whether a standing run can take work.
	AgentConditionReady = "Ready"
	// AgentConditionProgressing tells whether the controller is bringing a standing run up.
	AgentConditionProgressing = "Progressing"
)

// Reasons of the Succeeded condition while it is Unknown: where the run is.
const (
	ReasonResolved              = "Resolved"              // admitted, not looked at yet
	ReasonWaitingForService     = "WaitingForService"     // the Agent has no standing run
	ReasonServiceRecasting      = "ServiceRecasting"      // its standing run ended and is being replaced
	ReasonTargetNotReady        = "TargetNotReady"        // a standing run exists and does not listen
	ReasonTargetBusy            = "TargetBusy"            // every standing run is at capacity
	ReasonTargetUnreachable     = "TargetUnreachable"     // nobody there gave a valid answer
	ReasonTargetUnauthenticated = "TargetUnauthenticated" // the harness does not accept our proof
	ReasonTargetIncompatible    = "TargetIncompatible"    // the harness serves no version we speak, or refuses its form
	ReasonReserved              = "Reserved"              // a target was chosen
	ReasonQueued                = "Queued"                // accepted, waiting inside the harness
	ReasonPodNotRunning         = "PodNotRunning"         // the run's own Pod is not running yet
	ReasonRunning               = "Running"
	ReasonContactLost           = "ContactLost" // it runs, and its target has not answered for a while
	ReasonCancelling            = "Cancelling"
)

// Terminal reasons that the controller gives; the others come in the envelope (SPEC.md, Envelope).
const (
	ReasonCompleted                = "Completed"
	ReasonDeadlineExceeded         = "DeadlineExceeded"
	ReasonStartingDeadlineExceeded = "StartingDeadlineExceeded"
	ReasonCancelled                = "Cancelled"
	ReasonCancelUnconfirmed        = "CancelUnconfirmed"
	ReasonTargetLost               = "TargetLost"     // the Pod went away while it had the run
	ReasonInterrupted              = "Interrupted"    // the harness ended while the run ran
	ReasonOutcomeUnknown           = "OutcomeUnknown" // contact lost past the deadline, or the journal was lost
	ReasonRejected                 = "Rejected"       // the harness refused the request as malformed
	ReasonNotAdmitted              = "NotAdmitted"    // stored without admission
	ReasonAgentNotFound            = "AgentNotFound"
	ReasonPodFailed                = "PodFailed" // the run's own Pod failed, and nothing says why but the Pod
	// ReasonInvalidTemplate ends a run whose Pod can never be made; on an Agent it is a reason of Ready.
	ReasonInvalidTemplate = "InvalidTemplate"
)

// Reasons of the ACPReady, Delivered and Agent conditions.
const (
	ReasonListening      = "Listening"
	ReasonNotListening   = "NotListening"
	ReasonFinished       = "Finished"
	ReasonAccepted       = "Accepted"
	ReasonCredentialLost = "CredentialLost" //nolint:gosec // a reason, not a credential

	ReasonStanding      = "Standing"      // a standing run can take work
	ReasonNoStandingRun = "NoStandingRun" // none can
	ReasonRecasting     = "Recasting"     // waiting out the backoff
	ReasonRolling       = "Rolling"       // standing runs are being replaced by ones of the present template
	ReasonDraining      = "Draining"      // cordoned standing runs finish what they have
	ReasonScaledToZero  = "ScaledToZero"  // replicas is 0
	ReasonNoFreeName    = "NoFreeName"    // all names of standing runs are taken
	ReasonAcceptsRuns   = "AcceptsRuns"   // of a Task Agent: runs can be made
	ReasonScheduled     = "Scheduled"     // of a Scheduled Agent: the message says when next
	ReasonSuspended     = "Suspended"     // its times go by
)
