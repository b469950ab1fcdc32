package admission

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// served are the namespaces that the controller serves; none means all.
type served []string

// refusals: what is created where nobody serves would be stored and never looked at. What is there already may be changed and
// deleted as everywhere: that needs no reading.
func (s served) refusals(request admission.Request) []Refusal {
	if len(s) == 0 || request.Operation != admissionv1.Create || slices.Contains(s, request.Namespace) {
		return nil
	}
	return []Refusal{{v1alpha1.RefusalNamespaceNotServed, "metadata.namespace",
		"expected a namespace that the controller serves: " + shown(s) + "; use one of them, or have this one added to the controller's --namespaces"}}
}
