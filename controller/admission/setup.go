package admission

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/controller/trace"
)

// The paths that config/webhook calls.
const (
	PathMutateRun     = "/mutate-agentrun"
	PathValidateRun   = "/validate-agentrun"
	PathValidateAgent = "/validate-agent"
)

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch

// Options say whom and what admission serves.
type Options struct {
	// ControllerUser is the user name that the controller itself writes as; what it writes is not resolved and not guarded.
	ControllerUser string
	// Namespaces are those that the controller serves, none means all: nothing is read in another one, and nothing is admitted there.
	Namespaces []string
	// AllowAdHocRuns lets those who may create Pods make runs without an Agent. It needs the right to create SubjectAccessReviews.
	AllowAdHocRuns bool
	// Spans are those of the runs, timed by Now; nil makes none.
	Spans *trace.Spans
	Now   func() time.Time
}

// SetupWithManager serves the webhooks on the manager's webhook server, in every replica.
func SetupWithManager(mgr manager.Manager, o Options) error {
	if o.ControllerUser == "" {
		return fmt.Errorf("controller user: expected the user name that the controller writes as")
	}
	decoder := admission.NewDecoder(mgr.GetScheme())
	r := &runs{cached: mgr.GetClient(), live: mgr.GetAPIReader(), decoder: decoder, controller: o.ControllerUser, served: o.Namespaces, spans: o.Spans, now: o.Now}
	if o.AllowAdHocRuns {
		r.access = func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error {
			return mgr.GetClient().Create(ctx, review)
		}
	}
	a := &agents{decoder: decoder, controller: o.ControllerUser, served: o.Namespaces}
	server := mgr.GetWebhookServer()
	server.Register(PathMutateRun, &webhook.Admission{Handler: counted(r.mutate)})
	server.Register(PathValidateRun, &webhook.Admission{Handler: counted(r.validate)})
	server.Register(PathValidateAgent, &webhook.Admission{Handler: counted(a.validate)})
	return nil
}
