package main

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/controller/admission/certs"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/retention"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/controller/schedule"
	"github.com/hearthdev/hearth/controller/sharding"
	"github.com/hearthdev/hearth/controller/trace"
)

// What config/webhook calls its objects.
const (
	webhookSecret        = "hearth-webhook-certificate" //nolint:gosec // a name
	webhookService       = "hearth-webhook"
	webhookConfiguration = "hearth-admission"
)

// newKeeper keeps the webhook certificate with a client of its own: it works before the caches do.
func newKeeper(config *rest.Config, o options) (*certs.Keeper, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	host := webhookService + "." + o.namespace + ".svc"
	return &certs.Keeper{
		Client: direct, Secret: client.ObjectKey{Namespace: o.namespace, Name: webhookSecret},
		Configuration: webhookConfiguration, Names: []string{host, host + ".cluster.local"}, Now: time.Now,
	}, nil
}

// setup registers everything that runs. user is the name that our own writes come from.
func setup(mgr manager.Manager, keeper *certs.Keeper, election *sharding.Election, o options, user string, log *slog.Logger, spans *trace.Spans) error {
	if err := mgr.Add(keeper); err != nil {
		return fmt.Errorf("webhook certificate: %w", err)
	}
	if err := admission.SetupWithManager(mgr, admission.Options{ControllerUser: user, Namespaces: o.namespaces, AllowAdHocRuns: o.adHoc, Spans: spans, Now: time.Now}); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	if err := watchShards(mgr, election, o, log); err != nil {
		return err
	}
	mgr = sharding.View(mgr, o.agents)
	loads, err := deliver.SetupWithManager(mgr, deliver.Options{Links: deliver.NewLinks(), Now: time.Now, Log: log, Spans: spans})
	if err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	agents := &agent.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Loads: loads, Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Log: log}
	if err := agents.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("agent controller: %w", err)
	}
	sandboxes, err := sandbox.NewPresence(mgr, o.namespaces, pod.SelectorOf(o.agents), time.After, log)
	if err != nil {
		return fmt.Errorf("sandboxes: %w", err)
	}
	runs := &run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Log: log, Spans: spans,
		Random: rand.Reader, Sandboxes: sandboxes}
	if err := runs.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("run controller: %w", err)
	}
	schedules := &schedule.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: time.Now, Log: log}
	if err := schedules.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("schedule controller: %w", err)
	}
	if err := retention.SetupWithManager(mgr, time.Now); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	return servePage(mgr, o, log)
}
