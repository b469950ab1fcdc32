// Package sandbox knows the Sandboxes of agents.x-k8s.io/v1beta1: the few fields that Hearth reads or makes, what a Sandbox and
// its Pod say together about a run (R13; SPEC.md, "Which Pod counts as ready"), and whether the API server has the kind at all,
// which is optional.
package sandbox

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind and Resource are what the API calls a Sandbox.
const (
	Kind     = "Sandbox"
	Resource = "sandboxes"
)

// GroupVersion is the version that Hearth reads and makes.
var GroupVersion = schema.GroupVersion{Group: "agents.x-k8s.io", Version: "v1beta1"}

// AddToScheme registers the types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Sandbox{}, &SandboxList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Sandbox has a part of the fields of the real kind. It is created, read and deleted, and never written back: the rest would be
// lost.
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
type Sandbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// SandboxList is a list of them.
// +kubebuilder:object:generate=true
// +kubebuilder:object:root=true
type SandboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sandbox `json:"items"`
}

// Spec is what is wanted.
// +kubebuilder:object:generate=true
type Spec struct {
	// PodTemplate is what the Sandbox's own controller makes the Pod from.
	PodTemplate PodTemplate `json:"podTemplate"`
	// Service asks for a headless Service of the Sandbox's name.
	Service *bool `json:"service,omitempty"`
}

// PodTemplate is a Pod without a name. Only its labels reach the Pod; a Sandbox's own do not.
// +kubebuilder:object:generate=true
type PodTemplate struct {
	Metadata PodMetadata    `json:"metadata,omitempty"`
	Spec     corev1.PodSpec `json:"spec"`
}

// PodMetadata is what a template says of the Pod's metadata.
// +kubebuilder:object:generate=true
type PodMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Status is what the Sandbox's own controller says.
// +kubebuilder:object:generate=true
type Status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// PodIPs are the Pod's addresses, none while it has none.
	PodIPs []string `json:"podIPs,omitempty"`
}
