package admission

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The paths that config/webhook calls.
const (
	PathMutateRun     = "/mutate-agentrun"
	PathValidateRun   = "/validate-agentrun"
	PathValidateAgent = "/validate-agent"
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch

// SetupWithManager serves the webhooks on the manager's webhook server, in every replica. controllerUser is the user name that
// the controller itself writes as; what it writes is not resolved and not guarded. namespaces are those that the controller
// serves, none means all: nothing is read in another one, and nothing is admitted there.
func SetupWithManager(mgr manager.Manager, controllerUser string, namespaces []string) error {
	if controllerUser == "" {
		return fmt.Errorf("controller user: expected the user name that the controller writes as")
	}
	decoder := admission.NewDecoder(mgr.GetScheme())
	r := &runs{cached: mgr.GetClient(), live: mgr.GetAPIReader(), decoder: decoder, controller: controllerUser, served: namespaces}
	a := &agents{decoder: decoder, controller: controllerUser, served: namespaces}
	server := mgr.GetWebhookServer()
	server.Register(PathMutateRun, &webhook.Admission{Handler: admission.HandlerFunc(r.mutate)})
	server.Register(PathValidateRun, &webhook.Admission{Handler: admission.HandlerFunc(r.validate)})
	server.Register(PathValidateAgent, &webhook.Admission{Handler: admission.HandlerFunc(a.validate)})
	return nil
}
