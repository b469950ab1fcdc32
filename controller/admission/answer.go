package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
)

// codeForbidden marks a refusal that is not about resolving a run but about writing what is the controller's; codeInvalid one
// about an Agent's own fields.
const (
	codeForbidden v1alpha1.RefusalCode = metrics.CodeForbidden
	codeInvalid   v1alpha1.RefusalCode = metrics.CodeInvalid
)

// answer allows when there is no refusal, and otherwise gives each as a cause with its code.
func answer(request admission.Request, refusals []Refusal) admission.Response {
	if len(refusals) == 0 {
		return admission.Allowed("")
	}
	status := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Name: request.Name, Group: request.Kind.Group, Kind: request.Kind.Kind},
	}
	messages := make([]string, 0, len(refusals))
	for _, r := range refusals {
		if r.Code == codeForbidden {
			status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
		}
		messages = append(messages, r.String())
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(r.Code), Field: r.Field, Message: r.Expected})
	}
	status.Message = strings.Join(messages, "; ")
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: status}}
}

// unreadable says in an author's words what a decoder says in Go's: this webhook is asked before the schema is.
func unreadable(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Type.Kind() == reflect.String {
		return fmt.Errorf("%s: expected text, got a %s: put it in quotes", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("%s: expected a %s, got a %s", wrong.Field, wrong.Type.Kind(), wrong.Value)
}

// outrun is the answer when the Agent changed between the two webhooks: nobody is at fault, and the same request works again. A
// webhook that changes the reference looks the same from here.
func outrun(request admission.Request, agent string) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
		Message: "Agent " + agent + " changed while the run was resolved: create the run again; if that never helps, another mutating webhook " +
			"changes spec.agentRef, exempt agentruns.hearth.dev from it",
		Details: &metav1.StatusDetails{Name: request.Name, Group: request.Kind.Group, Kind: request.Kind.Kind},
	}}}
}
