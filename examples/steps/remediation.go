// Command steps is an operator that solves problems with agents, in steps: analyze → execute → verify → escalate, each an AgentRun.
//
// +kubebuilder:object:generate=true
// +groupName=examples.hearth.dev
// +versionName=v1alpha1
package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var groupVersion = schema.GroupVersion{Group: "examples.hearth.dev", Version: "v1alpha1"}

// Remediation is a problem, and what was done about it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Remediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="expected no change: make another Remediation"
	Spec Spec `json:"spec"`
	// +optional
	Status Status `json:"status,omitzero"`
}

// Spec is what is asked for.
type Spec struct {
	// problem in words.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Problem string `json:"problem"`
	// attempts is how often a fix is tried before people are told.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// Status is how far it is. Nothing else is remembered anywhere.
type Status struct {
	// phase is Working, and in the end Resolved, Escalated (people have been told) or Failed (they could not be).
	// +optional
	Phase string `json:"phase,omitempty"`
	// message says what is under way, or what hinders it.
	// +optional
	Message string `json:"message,omitempty"`
	// steps in the order in which they were decided; the last one may be under way.
	// +kubebuilder:validation:MaxItems=12
	// +optional
	Steps []Step `json:"steps,omitempty"`
}

// Step is one AgentRun, and once it has ended what came of it.
type Step struct {
	// +kubebuilder:validation:Enum=analyze;execute;verify;escalate
	Name    string `json:"name"`
	Attempt int32  `json:"attempt"`
	// run and uid are the AgentRun's. Without a uid it is decided, and may have been created or not.
	Run string `json:"run"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// reason is the run's own, or RecordGone; absent while it is under way.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Succeeded bool `json:"succeeded,omitempty"`
	// output of the run, cut to 4 KiB.
	// +optional
	Output string `json:"output,omitempty"`
}
