package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The API server evaluates every rule of a run at every write of it, also of its status alone, and each look into a field costs it as much as
// all fields beside that one. So a rule stands where it looks at least, and begins with what is true of most runs: an error on one side of ||
// is none where the other side is true. Where a rule is broken no side is, so what it looks into has to be there: else the user reads of a
// missing key beside the message.

// AgentRunSpec is what a user asks for (agentRef and parameters) together with what admission resolved it to. Once stored it
// is immutable, but for cancel, which may go from false to true.
// +kubebuilder:validation:XValidation:rule="has(self.runtime.delivery) && self.delivery.port == self.runtime.delivery.port || !has(self.delivery) || !has(self.runtime)",message="spec.delivery.port must equal spec.runtime.delivery.port"
type AgentRunSpec struct {
	// agentRef names the Agent that does the work. You write its name; admission adds uid and generation. Only an ad-hoc run, which is
	// complete in itself and has to be allowed by the controller, has none.
	// +optional
	AgentRef AgentRef `json:"agentRef,omitzero"`

	// parameters fill the Agent's goalTemplate. You write them; admission adds declared defaults.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`

	// cancel true asks for the run to be stopped. You write it, at any time; it cannot be taken back. Default false.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// goal is the work in words: the Agent's goal, or its goalTemplate with the parameters filled in. Written by admission.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Goal string `json:"goal,omitempty"`

	// delivery marks a delivered run: one carried out by a standing run's agent. Without it the run has a Pod of its own.
	// Written by admission.
	// +optional
	Delivery *DeliverySpec `json:"delivery,omitempty"`

	// runtime is the Agent's, copied: what the harness starts and how it may be used. Written by admission.
	// +optional
	Runtime *AgentRuntime `json:"runtime,omitempty"`

	// template is the Pod of a run that has one. Written by admission, on a standing run by the controller.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// backend is the Agent's, copied: what the run's Pod is made as. Written by admission; absent on a delivered run, Pod where it is
	// not set.
	// +optional
	Backend Backend `json:"backend,omitempty"`

	// activeDeadlineSeconds is the Agent's, copied: how many seconds the run may work, from its start. Written by admission; absent on a standing run.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// startingDeadlineSeconds is the Agent's, copied: how many seconds the run may not have started. Written by admission; absent on a standing run.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// backoffLimit is the Agent's, copied: how many losses a new attempt is made after. Written by admission; 0 where it is not set.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// ttlSecondsAfterFinished is the Agent's, copied: how many seconds the record stays after the end. Written by admission; absent on a standing run.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`

	// budget is the Agent's, copied: what the run may use. Written by admission; no bound where it is not set, and absent on a standing run.
	// +optional
	Budget *Budget `json:"budget,omitempty"`
}

// AgentRef names an Agent in the run's namespace.
type AgentRef struct {
	// name of the Agent, in the run's namespace. You write it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the Agent that the run was resolved from. Written by admission.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// generation is the metadata.generation of the Agent that the run was resolved from. Written by admission.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// DeliverySpec is what a delivered run needs to reach its target.
type DeliverySpec struct {
	// port is the TCP port of the harness's delivery listener; equals runtime.delivery.port. Written by admission.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// Phase is a summary of the Succeeded condition and of where the run is.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed
type Phase string

// The phases (R2).
const (
	PhasePending   Phase = "Pending"
	PhaseRunning   Phase = "Running"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
)

// AgentRunStatus is the run's state while it lives and its record once it has ended. Only the controller writes it; with completionTime
// it is final.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.completionTime) || self == oldSelf",message="the run has ended; its status is a record and never changes"
// +kubebuilder:validation:XValidation:rule="has(self.delivery) && has(self.delivery.attempt) || !has(oldSelf.delivery) || !has(oldSelf.delivery.attempt)",message="status.delivery.attempt only grows and never goes away"
type AgentRunStatus struct {
	// phase is Pending until the work has started, then Running, and in the end Succeeded or Failed; it summarises the Succeeded condition.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions: Succeeded decides (True, False, or Unknown while the run lives), ACPReady tells whether an ACP client may
	// dial, Delivered (delivered runs) whether the harness has the work.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// podName is the run's own Pod, or on a delivered run its target's.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`
	// podUID is the UID of that Pod: another one of the same name is not meant.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// address is host:port of the agent's ACP endpoint, for a client to dial; absent unless ACPReady is True.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Address string `json:"address,omitempty"`
	// restarts counts the restarts of the agent container of the run's own Pod.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// cordonedAt is when a standing run was told to take no further work: it is being replaced or scaled away.
	// +optional
	CordonedAt *metav1.MicroTime `json:"cordonedAt,omitempty"`

	// startTime is when the work started: on a delivered run by the harness's clock, otherwise when the container started.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`
	// recordedAt is when the controller wrote the terminal status, by its clock.
	// +optional
	RecordedAt *metav1.MicroTime `json:"recordedAt,omitempty"`
	// completionTime is when the run ended. Once it is set, status never changes again.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`
	// durationSeconds is how many whole seconds the run worked, from startTime to completionTime; absent when it never started.
	// +optional
	DurationSeconds *int64 `json:"durationSeconds,omitempty"`

	// delivery is where a delivered run's current attempt stands; absent on other runs.
	// +optional
	Delivery *DeliveryStatus `json:"delivery,omitempty"`

	// outcome is how the run ended, as its runtime said: Succeeded, Failed, Cancelled or Interrupted. Absent when the runtime said nothing.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Outcome string `json:"outcome,omitempty"`
	// reason is why the run ended, in one word; the same as the Succeeded condition's.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says why the run ended, in a sentence.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// output is what the run produced, as its runtime said it.
	// +optional
	Output *Output `json:"output,omitempty"`
	// usage is what the run used, where the agent measured it.
	// +optional
	Usage *Usage `json:"usage,omitempty"`
	// truncation says that the output was cut, and what it was before; absent when it is whole.
	// +optional
	Truncation *Truncation `json:"truncation,omitempty"`
	// terminationData is what a runtime that is no harness of ours left as its termination message, as it was, cut to 4,096 bytes (R11).
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	TerminationData string `json:"terminationData,omitempty"`
}

// DeliveryStatus is the reservation of the current attempt and what came of it.
type DeliveryStatus struct {
	// attempt is the number of the current attempt, from 1. It only grows.
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="status.delivery.attempt only grows and never goes away"
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// podName is the Pod of the standing run that the attempt is sent to.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`
	// podUID is the UID of the target's Pod; the attempt belongs to it alone.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// journal is the ID of the target's journal when the attempt was reserved.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Journal string `json:"journal,omitempty"`
	// session is the agent's session that the attempt runs in.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Session string `json:"session,omitempty"`
	// digest is a hash of the attempt's content, which the harness computes too.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Digest string `json:"digest,omitempty"`
	// reservedAt is when the controller chose the target, by its clock. Absent while there is no reservation.
	// +optional
	ReservedAt *metav1.MicroTime `json:"reservedAt,omitempty"`
	// reservedBy is the controller process that made the reservation, under a name new at every start; absent once another has
	// taken the attempt over.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ReservedBy string `json:"reservedBy,omitempty"`
	// acceptedAt is when the harness had journalled the attempt, by its clock.
	// +optional
	AcceptedAt *metav1.MicroTime `json:"acceptedAt,omitempty"`
	// losses is the number of attempts that infrastructure lost: the Pod or the harness went away.
	// +optional
	Losses int32 `json:"losses,omitempty"`
	// spentSeconds is how many seconds earlier, lost attempts had been running; the starting deadline moves by it.
	// +optional
	SpentSeconds int64 `json:"spentSeconds,omitempty"`
	// targetGeneration is the metadata.generation of the Agent that the target's standing run was made from.
	// +optional
	TargetGeneration int64 `json:"targetGeneration,omitempty"`
	// nextTime is when a run whose last attempt was lost may be assigned again; absent when it need not wait.
	// +optional
	NextTime *metav1.MicroTime `json:"nextTime,omitempty"`
}

// Output is what the run produced. value is text; for JSON it is the JSON text.
type Output struct {
	// mediaType of value, for example text/plain.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	MediaType string `json:"mediaType,omitempty"`
	// value is the text, cut to 262,144 bytes with the cut recorded in truncation.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Value string `json:"value,omitempty"`
}

// Usage is what the agent measured. An absent figure was not measured; zero was measured as zero.
type Usage struct {
	// inputTokens is the number of tokens that the model read.
	// +optional
	InputTokens *int64 `json:"inputTokens,omitempty"`
	// outputTokens is the number of tokens that the model wrote.
	// +optional
	OutputTokens *int64 `json:"outputTokens,omitempty"`
	// totalTokens is the number of tokens in all, as the agent counts them.
	// +optional
	TotalTokens *int64 `json:"totalTokens,omitempty"`
	// cost is what the run cost, as the agent reports it.
	// +optional
	Cost *Cost `json:"cost,omitempty"`
}

// Cost is an amount of money.
type Cost struct {
	// amount is a decimal number, such as 0.25, in units of currency.
	// +kubebuilder:validation:MaxLength=32
	Amount string `json:"amount"`
	// currency is an ISO 4217 code, such as EUR.
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency"`
}

// Truncation says how long the whole output was, in bytes, and its SHA-256 in base64url.
type Truncation struct {
	// originalBytes is the length of the whole output, in bytes.
	OriginalBytes int64 `json:"originalBytes"`
	// sha256 is the SHA-256 of the whole output, in base64url.
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256"`
}

// AgentRun is one request for work and, once it has ended, its record.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=hearth,shortName=arun
// +kubebuilder:selectablefield:JSONPath=`.spec.agentRef.name`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.spec.agentRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.podName`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.delivery.attempt`
// +kubebuilder:printcolumn:name="ACP",type=string,JSONPath=`.status.conditions[?(@.type=="ACPReady")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Duration",type=integer,JSONPath=`.status.durationSeconds`,description="how many seconds the run worked"
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backend`,priority=1,description="what a Pod of its own was made as"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="has(self.status) || !has(oldSelf.status) || !has(oldSelf.status.completionTime) && (!has(oldSelf.status.delivery) || !has(oldSelf.status.delivery.attempt))",messageExpression="has(oldSelf.status.completionTime) ? 'the run has ended; its status is a record and never changes' : 'status.delivery.attempt only grows and never goes away'"
type AgentRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AgentRunSpec `json:"spec"`
	// +optional
	Status AgentRunStatus `json:"status,omitzero"`
}

// AgentRunList is a list of AgentRuns.
// +kubebuilder:object:root=true
type AgentRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AgentRun `json:"items"`
}
