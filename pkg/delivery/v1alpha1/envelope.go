package v1alpha1

import (
	"strings"
	"time"
)

// Outcome is how a run ended (SPEC.md, Envelope).
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded   Outcome = "Succeeded"
	OutcomeFailed      Outcome = "Failed"
	OutcomeCancelled   Outcome = "Cancelled"
	OutcomeInterrupted Outcome = "Interrupted" // the harness ended while the attempt ran
)

// Reason is why, in one word (SPEC.md, Envelope).
type Reason string

// The reasons that an envelope may carry.
const (
	ReasonCompleted        Reason = "Completed"
	ReasonAgentError       Reason = "AgentError"
	ReasonAgentCrashed     Reason = "AgentCrashed"
	ReasonAgentSilent      Reason = "AgentSilent"
	ReasonLimitReached     Reason = "LimitReached"
	ReasonRefused          Reason = "Refused"
	ReasonDeadlineExceeded Reason = "DeadlineExceeded"
	ReasonBudgetExceeded   Reason = "BudgetExceeded"
	ReasonResultTooLarge   Reason = "ResultTooLarge"
	ReasonInvalidOutput    Reason = "InvalidOutput"
	ReasonNoEvidence       Reason = "NoEvidence"
	ReasonCancelled        Reason = "Cancelled"
	ReasonInterrupted      Reason = "Interrupted"
)

// Envelope is the one versioned result of an attempt (R27; SPEC.md, Envelope).
type Envelope struct {
	APIVersion string      `json:"apiVersion"`
	Outcome    Outcome     `json:"outcome"`
	Reason     Reason      `json:"reason"`
	Message    string      `json:"message,omitzero"`
	Output     *Output     `json:"output,omitzero"`
	Usage      *Usage      `json:"usage,omitzero"`
	Timing     Timing      `json:"timing"`
	StopReason string      `json:"stopReason,omitzero"` // the Agent Client Protocol's own word
	Tools      Tools       `json:"tools"`
	Session    string      `json:"session,omitzero"`
	Truncation *Truncation `json:"truncation,omitzero"`
	Warnings   []string    `json:"warnings,omitzero"`
}

// Output is what the run produced. Value is always text; for JSON it is the JSON text.
type Output struct {
	MediaType string `json:"mediaType"`
	Value     string `json:"value"`
}

// Cut is the output with a shorter value, which may be empty. What is left of JSON is none, so it is text.
func (o Output) Cut(value string) *Output {
	if strings.EqualFold(o.MediaType, "application/json") && len(value) < len(o.Value) {
		o.MediaType = "text/plain"
	}
	o.Value = value
	return &o
}

// Usage is what the agent measured. An absent figure was not measured; a zero was measured as zero.
type Usage struct {
	InputTokens  *int64 `json:"inputTokens,omitzero"`
	OutputTokens *int64 `json:"outputTokens,omitzero"`
	TotalTokens  *int64 `json:"totalTokens,omitzero"`
	Cost         *Cost  `json:"cost,omitzero"`
}

// Timing is the run's own time. DurationMillis is monotonic, so it need not equal the difference of the two times.
type Timing struct {
	StartedAt      time.Time `json:"startedAt"`
	FinishedAt     time.Time `json:"finishedAt"`
	DurationMillis int64     `json:"durationMillis"`
}

// Tools counts the agent's tool calls and how many of them failed.
type Tools struct {
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
}

// Truncation says that the output was cut, how long it was in bytes, and the SHA-256 (base64url) of the whole.
type Truncation struct {
	OriginalBytes int64  `json:"originalBytes"`
	SHA256        string `json:"sha256"`
}
