// Package webhooks serves admission beside a test API server with Options.Webhooks, as the controller's service account does.
package webhooks

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/test/apiserver"
)

// Start serves admission, and more handlers by their paths, until stop is called; that tells how it ended. ControllerUser is the test
// API server's own unless set.
func Start(t testing.TB, s *apiserver.Server, o admission.Options, more map[string]webhook.AdmissionHandler) (stop func() error) {
	t.Helper()
	at := s.Webhook(t)
	mgr, err := ctrl.NewManager(s.Controller(t), ctrl.Options{
		Scheme: apiserver.Scheme(t), Cache: pod.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: at.Host, Port: at.Port, CertDir: at.CertDir}),
	})
	require.NoError(t, err)
	o.ControllerUser = cmp.Or(o.ControllerUser, apiserver.ControllerUser)
	require.NoError(t, admission.SetupWithManager(mgr, o))
	for path, handler := range more {
		mgr.GetWebhookServer().Register(path, &webhook.Admission{Handler: handler})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	require.Eventually(t, func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil }, time.Minute, 20*time.Millisecond)
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// Serve is Start until the test ends, or the stop that it returns is called.
func Serve(t testing.TB, s *apiserver.Server, o admission.Options, more map[string]webhook.AdmissionHandler) (stop func()) {
	t.Helper()
	end := Start(t, s, o, more)
	stop = func() { assert.NoError(t, end()) }
	t.Cleanup(stop)
	return stop
}
