package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission/certs"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/sandbox"
	"github.com/hearthdev/hearth/controller/sharding"
	"github.com/hearthdev/hearth/controller/signals/paced"
)

// serve runs the controller until ctx ends, and gives its lease up then.
func serve(ctx context.Context, o options) error {
	lines := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.level})
	log := logr.FromSlogHandler(lines)
	ctrl.SetLogger(logr.New(lazySink{LogSink: log.GetSink()}))
	klog.SetLogger(log)
	sample(o)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	config.QPS = -1 // the API server's own fairness is the limit
	keeper, err := newKeeper(config, o)
	if err != nil {
		return err
	}
	keeper.Log = log.WithName("certs")
	election, err := newElection(config, o, slog.New(lines))
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, keeper, election, slog.New(lines))
	if err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	user, err := whoami(ctx, direct)
	if err != nil {
		return err
	}
	if err := granted(ctx, direct, o); err != nil {
		return err
	}
	spans, endSpans := newSpans(ctx, slog.New(lines))
	defer endSpans()
	if err := setup(mgr, keeper, election, o, user, slog.New(lines), spans); err != nil { //nolint:contextcheck // nothing runs yet
		return err
	}
	log.Info("starting", "user", user, "namespace", o.namespace, "serves", cmp.Or(strings.Join(o.namespaces, ","), "all namespaces"), "agents", o.agents.String())
	return mgr.Start(ctx)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("built-in types: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("types of %s: %w", v1alpha1.GroupVersion, err)
	}
	if err := sandbox.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("types of %s: %w", sandbox.GroupVersion, err)
	}
	return scheme, nil
}

func newManager(config *rest.Config, o options, keeper *certs.Keeper, election *sharding.Election, log *slog.Logger) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	cached := pod.CacheOptionsOf(o.agents)
	for _, namespace := range o.namespaces {
		if cached.DefaultNamespaces == nil {
			cached.DefaultNamespaces = map[string]cache.Config{}
		}
		cached.DefaultNamespaces[namespace] = cache.Config{}
	}
	cached.DefaultTransform = cache.TransformStripManagedFields()
	cached.ByObject[&v1alpha1.AgentRun{}] = cache.ByObject{Label: o.agents.Selector(), Transform: deliver.Transform}
	var lock resourcelock.Interface // nil is the usual one
	if election != nil {
		lock = election.Lock(o.namespace)
	}
	var checked *record.Checked
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		NewClient: func(config *rest.Config, o client.Options) (client.Client, error) {
			direct, err := client.New(config, o)
			checked = record.NewChecked(direct, log, time.Now)
			return checked, err //nolint:wrapcheck // wrapped below
		},
		Cache:                         cached,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.agents.Lease(),
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,

		LeaderElectionResourceLockInterface: lock,

		Metrics:                metricsserver.Options{BindAddress: o.metrics, HandlerOpts: []func(*promhttp.HandlerOpts){openMetrics}},
		HealthProbeBindAddress: o.probes,
		PprofBindAddress:       o.profiles,
		WebhookServer: webhook.NewServer(webhook.Options{Port: o.webhookPort, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS13
			c.GetCertificate = keeper.GetCertificate
		}}}),
	})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	recorders := paced.New(scheme, time.Now)
	if err := mgr.Add(manager.RunnableFunc(recorders.Run)); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	mgr = calm{mgr, recorders}
	checked.Tell(mgr.GetEventRecorder("hearth"))
	for name, check := range map[string]healthz.Checker{"webhooks": mgr.GetWebhookServer().StartedChecker(), "certificate": keeper.Ready} {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return nil, fmt.Errorf("readiness check %s: %w", name, err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("health check: %w", err)
	}
	return mgr, nil
}
