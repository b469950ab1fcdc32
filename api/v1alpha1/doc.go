// Package v1alpha1 has the resources of the API group hearth.dev: Agent and AgentRun, with their conditions, reasons and
// labels (SPEC.md, Resources).
//
// +kubebuilder:object:generate=true
// +groupName=hearth.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "hearth.dev", Version: "v1alpha1"}

// AddToScheme registers the resources.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Agent{}, &AgentList{}, &AgentRun{}, &AgentRunList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
