package certs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// allows is a webhook server that allows everything, with the keeper's certificate, and a handshake for each call.
func allows(t *testing.T, k *Keeper) int32 {
	t.Helper()
	raw, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: k.GetCertificate},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review admissionv1.AdmissionReview
			if json.NewDecoder(r.Body).Decode(&review) == nil {
				review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(review)
		})}
	s.SetKeepAlivesEnabled(false)
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(raw, "", "") }()
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return int32(raw.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
}

// pointAt makes the webhooks' Service mean a port of this machine. The name in the certificate stays the Service's.
func pointAt(t *testing.T, c client.Client, port int32) {
	t.Helper()
	ctx := t.Context()
	service := &corev1.Service{}
	require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: "hearth-system", Name: "hearth-webhook"}, service))
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	require.NoError(t, c.Update(ctx, service))
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: "hearth-admission"}, &v))
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig.Service.Port = &port
	}
	require.NoError(t, c.Update(ctx, &v))
}

// The API server itself calls a server whose certificate and then whose authority is replaced while calls come in without a pause,
// each with a handshake of its own: none fails, and nothing was restarted. The keeper's clock comes from the past, because the API
// server's is the real one.
func TestCertificatesRotateUnderTheAPIServersCalls(t *testing.T) {
	ctx, admin := t.Context(), server.Client(t)
	root, err := apiserver.Root()
	require.NoError(t, err)
	require.NoError(t, apiserver.Apply(ctx, server.Admin(t), filepath.Join(root, "config", "webhook")))
	today := time.Now()
	var clock atomic.Pointer[time.Time]
	at := func(when time.Time) { clock.Store(&when) }
	at(today.Add(-(authorityLife - servingLife - renewBefore) - day))
	k := &Keeper{Client: server.ControllerClient(t), Secret: client.ObjectKey{Namespace: "hearth-system", Name: "hearth-webhook-certificate"}, Configuration: "hearth-admission",
		Names: names, Now: func() time.Time { return *clock.Load() }, Log: logr.Discard()}
	require.NoError(t, k.Keep(ctx)) // an authority that is old today
	at(today.Add(-servingLife + renewBefore - day))
	require.NoError(t, k.Keep(ctx)) // a certificate that is due today
	pointAt(t, admin, allows(t, k))

	someone := server.ClientAsGroup(t, "someone", "system:masters")
	call := func(ctx context.Context) error {
		return someone.Create(ctx, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "a-"}, Spec: v1alpha1.AgentSpec{
			Runtime:  v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i"}}}}}}, client.DryRunAll)
	}
	require.Eventually(t, func() bool { return call(ctx) == nil }, time.Minute, 50*time.Millisecond, "the API server takes a moment to see where they are")

	stop, calls := make(chan struct{}), atomic.Int64{}
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if !assert.NoError(t, call(ctx)) {
					return
				}
				calls.Add(1)
			}
		})
	}
	some := func() { // calls under what is served now
		until := calls.Load() + 20
		require.Eventually(t, func() bool { return t.Failed() || calls.Load() > until }, time.Minute, 5*time.Millisecond)
	}
	seen := map[string]bool{}
	note := func() {
		some()
		serving, err := k.GetCertificate(nil)
		require.NoError(t, err)
		seen[string(serving.Certificate[0])] = true
	}
	note()
	for range 3 { // the authority is due and with it the certificate; one look has it trusted, the next serves it, a third changes nothing
		at(today)
		require.NoError(t, k.Keep(ctx))
		note()
	}
	close(stop)
	callers.Wait()
	assert.Len(t, seen, 2, "the certificate was replaced")
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, admin.Get(ctx, client.ObjectKey{Name: "hearth-admission"}, &v))
	serving, err := k.GetCertificate(nil)
	require.NoError(t, err)
	for _, w := range v.Webhooks {
		assert.True(t, believed(t, w.ClientConfig.CABundle, encode(typeCertificate, serving.Certificate[0]), today.Add(200*day)))
	}
	t.Logf("%d calls", calls.Load())
}
