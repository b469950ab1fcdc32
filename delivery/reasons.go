package delivery

import wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"

// Reason is one CamelCase word of a condition (SPEC.md, Lifecycle).
type Reason string

// Where a living run is.
const (
	ReasonWaitingForService     Reason = "WaitingForService"
	ReasonServiceRecasting      Reason = "ServiceRecasting"
	ReasonTargetNotReady        Reason = "TargetNotReady"
	ReasonTargetBusy            Reason = "TargetBusy"
	ReasonTargetUnreachable     Reason = "TargetUnreachable"
	ReasonTargetUnauthenticated Reason = "TargetUnauthenticated"
	ReasonTargetIncompatible    Reason = "TargetIncompatible"
	ReasonReserved              Reason = "Reserved"
	ReasonQueued                Reason = "Queued"
	ReasonRunning               Reason = "Running"
	ReasonContactLost           Reason = "ContactLost"
	ReasonCancelling            Reason = "Cancelling"
	ReasonAccepted              Reason = "Accepted" // of Delivered
	ReasonFinished              Reason = "Finished" // of ACPReady
)

// How a run ends when no envelope says it, and two that are shared with envelopes.
const (
	ReasonCancelled                Reason = Reason(wire.ReasonCancelled)
	ReasonInterrupted              Reason = Reason(wire.ReasonInterrupted)
	ReasonCancelUnconfirmed        Reason = "CancelUnconfirmed"
	ReasonStartingDeadlineExceeded Reason = "StartingDeadlineExceeded"
	ReasonTargetLost               Reason = "TargetLost"
	ReasonOutcomeUnknown           Reason = "OutcomeUnknown"
	ReasonRejected                 Reason = "Rejected"
	ReasonNotAdmitted              Reason = "NotAdmitted"
	ReasonAgentNotFound            Reason = "AgentNotFound"
)

// ours tells reasons that only the controller gives: an envelope with one would say what nobody but the controller knows.
func ours(r Reason) bool {
	switch r {
	case ReasonCancelUnconfirmed, ReasonStartingDeadlineExceeded, ReasonTargetLost, ReasonOutcomeUnknown, ReasonRejected, ReasonNotAdmitted,
		ReasonAgentNotFound, "InvalidTemplate", "PodFailed":
		return true
	default:
		return false
	}
}
