package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// lookEvery is how often a replica looks for a certificate that another one renewed; retryEvery when a look failed.
	lookEvery  = 10 * time.Minute
	retryEvery = 2 * time.Second
	// settleFor is how long the API server has to read a new authority before what that one signed is served.
	settleFor = 30 * time.Second
)

// Its own namespace's Role allows the Secret, by name; the ClusterRole the two configurations, by name.
// +kubebuilder:rbac:groups="",namespace=hearth-system,resources=secrets,resourceNames=hearth-webhook-certificate,verbs=get;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=hearth-admission,verbs=get;update

// Keeper keeps the certificate. Every replica runs one, whether it leads or not.
type Keeper struct {
	// Client must not cache.
	Client client.Client
	// Secret holds the certificate; it exists already, so that no right to create Secrets here is needed.
	Secret client.ObjectKey
	// Configuration is the name of the two webhook configurations that trust the authority.
	Configuration string
	// Names are the webhook Service's DNS names.
	Names []string
	Now   func() time.Time
	Log   logr.Logger

	serving atomic.Pointer[tls.Certificate]
	trusted atomic.Bool
	bundle  []byte // that the API server was told to trust at an earlier look
	holding bool   // a new certificate back, until the API server trusts its authority
}

// NeedLeaderElection is false: every replica serves the webhooks.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx ends. It returns no error: what is wrong is logged, shows as not ready, and is tried again.
func (k *Keeper) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := lookEvery
		if err := k.Keep(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(err, "keep the webhook certificate", "secret", k.Secret.String())
			wait = retryEvery
		} else if k.holding {
			wait = settleFor
		}
		timer.Reset(wait)
	}
}

// Keep looks once: renews the certificate if it is time, has it trusted, and serves it; one under a new authority at the next look.
func (k *Keeper) Keep(ctx context.Context) error {
	var secret corev1.Secret
	if err := k.Client.Get(ctx, k.Secret, &secret); err != nil {
		return fmt.Errorf("read the Secret that config/webhook makes: %w", err)
	}
	data, changed, err := renew(secret.Data, k.Names, k.Now())
	if err != nil {
		return err
	}
	if changed {
		secret.Data = data
		if err := k.Client.Update(ctx, &secret); err != nil {
			return fmt.Errorf("store the certificate: %w", err) // after a conflict another replica's is taken at the next look
		}
		k.Log.Info("renewed the webhook certificate", "secret", k.Secret.String())
	}
	pair, err := tls.X509KeyPair(data[keyServing], data[keyServingKey])
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	if err := k.trust(ctx, data[keyAuthority]); err != nil {
		return err
	}
	if k.holding = k.early(data[keyAuthority]); !k.holding {
		k.serving.Store(&pair)
	}
	k.bundle = data[keyAuthority]
	k.trusted.Store(true)
	return nil
}

// early: while the API server may not know a new authority yet, calls go on under the old certificate, as long as that is believed.
func (k *Keeper) early(bundle []byte) bool {
	old := k.serving.Load()
	if old == nil || bytes.Equal(k.bundle, bundle) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := old.Leaf.Verify(x509.VerifyOptions{DNSName: k.Names[0], Roots: roots, CurrentTime: k.Now()})
	return err == nil
}

// trust writes the authority into both webhook configurations.
func (k *Keeper) trust(ctx context.Context, authority []byte) error {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	for _, c := range []struct {
		object  client.Object
		clients func() []*admissionregistrationv1.WebhookClientConfig
	}{
		{&mutating, func() (all []*admissionregistrationv1.WebhookClientConfig) {
			for i := range mutating.Webhooks {
				all = append(all, &mutating.Webhooks[i].ClientConfig)
			}
			return all
		}},
		{&validating, func() (all []*admissionregistrationv1.WebhookClientConfig) {
			for i := range validating.Webhooks {
				all = append(all, &validating.Webhooks[i].ClientConfig)
			}
			return all
		}},
	} {
		if err := k.Client.Get(ctx, client.ObjectKey{Name: k.Configuration}, c.object); err != nil {
			return fmt.Errorf("read webhook configuration: %w", err)
		}
		changed := false
		for _, to := range c.clients() {
			changed = changed || !bytes.Equal(to.CABundle, authority)
			to.CABundle = authority
		}
		if !changed {
			continue
		}
		if err := k.Client.Update(ctx, c.object); err != nil {
			return fmt.Errorf("write webhook configuration: %w", err)
		}
	}
	return nil
}

var errNoCertificate = errors.New("the webhook certificate is not there yet")

// GetCertificate is for a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errNoCertificate
}

// Ready is a readiness check: the API server can call the webhooks of this replica.
func (k *Keeper) Ready(*http.Request) error {
	if !k.trusted.Load() {
		return errNoCertificate
	}
	return nil
}
