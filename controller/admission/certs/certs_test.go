package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var (
	names = []string{"hearth-webhook.hearth-system.svc", "hearth-webhook.hearth-system.svc.cluster.local"}
	start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

const day = 24 * time.Hour

func made(t *testing.T, data map[string][]byte, now time.Time) (map[string][]byte, bool) {
	t.Helper()
	data, changed, err := renew(data, names, now)
	require.NoError(t, err)
	return data, changed
}

// believed: a client that trusts the bundle believes the certificate under each name.
func believed(t *testing.T, bundle, certificate []byte, now time.Time) bool {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	block, _ := pem.Decode(certificate)
	require.NotNil(t, block)
	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, name := range names {
		if _, err := parsed.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

func TestAnEmptySecretIsFilledOnce(t *testing.T) {
	data, changed := made(t, nil, start)
	assert.True(t, changed)
	assert.True(t, believed(t, data[keyAuthority], data[keyServing], start))
	_, err := tls.X509KeyPair(data[keyServing], data[keyServingKey])
	require.NoError(t, err)
	again, changed := made(t, data, start.Add(200*day))
	assert.False(t, changed)
	assert.Equal(t, data, again)
}

// Rotation leaves nobody behind: what other replicas still serve is believed until it ends.
func TestTheServingCertificateIsRenewedUnderTheSameAuthority(t *testing.T) {
	data, _ := made(t, nil, start)
	later := start.Add(servingLife - renewBefore + time.Hour)
	fresh, changed := made(t, maps.Clone(data), later)
	require.True(t, changed)
	assert.Equal(t, data[keyAuthority], fresh[keyAuthority])
	assert.NotEqual(t, data[keyServing], fresh[keyServing])
	assert.True(t, believed(t, fresh[keyAuthority], data[keyServing], later))
	assert.True(t, believed(t, data[keyAuthority], fresh[keyServing], later.Add(300*day)))
}

func TestARenewedAuthorityLeavesTheOldOneTrustedUntilItEnds(t *testing.T) {
	data, _ := made(t, nil, start)
	later := start.Add(authorityLife - servingLife)
	data, _ = made(t, data, later.Add(-200*day))
	fresh, changed := made(t, maps.Clone(data), later)
	require.True(t, changed)
	assert.True(t, bytes.HasSuffix(fresh[keyAuthority], data[keyAuthority]))
	assert.True(t, believed(t, fresh[keyAuthority], data[keyServing], later))
	assert.False(t, believed(t, data[keyAuthority], fresh[keyServing], later))
	much, _ := made(t, maps.Clone(fresh), start.Add(2*authorityLife))
	assert.Equal(t, 1, bytes.Count(much[keyAuthority], []byte("BEGIN CERTIFICATE")), "an authority that ended is forgotten")
}

func TestBrokenDataIsReplaced(t *testing.T) {
	good, _ := made(t, nil, start)
	other, _ := made(t, nil, start)
	for name, change := range map[string]func(map[string][]byte){
		"not PEM":       func(d map[string][]byte) { d[keyAuthority] = []byte("x") },
		"no key":        func(d map[string][]byte) { delete(d, keyServingKey) },
		"another's key": func(d map[string][]byte) { d[keyServingKey] = other[keyServingKey] },
		"another's authority": func(d map[string][]byte) {
			d[keyAuthority], d[keyAuthorityKey] = other[keyAuthority], other[keyAuthorityKey]
		},
		"another's authority key": func(d map[string][]byte) { d[keyAuthorityKey] = other[keyAuthorityKey] },
	} {
		broken := maps.Clone(good)
		change(broken)
		fixed, changed := made(t, broken, start)
		assert.True(t, changed, name)
		assert.True(t, believed(t, fixed[keyAuthority], fixed[keyServing], start), name)
	}
	_, changed, err := renew(good, append(names, "another.name.svc"), start)
	require.NoError(t, err)
	assert.True(t, changed, "another name needs another certificate")
}

func keeper(t *testing.T, objects ...client.Object) *Keeper {
	t.Helper()
	return &Keeper{Client: fake.NewClientBuilder().WithObjects(objects...).Build(), Secret: client.ObjectKey{Namespace: "hearth-system", Name: "cert"},
		Configuration: "hearth", Names: names, Now: func() time.Time { return start }, Log: logr.Discard()}
}

func TestKeeperServesAndIsTrusted(t *testing.T) {
	k := keeper(t, configured()...)
	require.Error(t, k.Ready(nil))
	_, err := k.GetCertificate(nil)
	require.ErrorIs(t, err, errNoCertificate)
	require.NoError(t, k.Keep(t.Context()))
	require.NoError(t, k.Ready(nil))
	serving, err := k.GetCertificate(nil)
	require.NoError(t, err)

	var v admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "hearth"}, &v))
	for _, w := range v.Webhooks {
		assert.True(t, believed(t, w.ClientConfig.CABundle, encode(typeCertificate, serving.Certificate[0]), start))
	}
	before := v.ResourceVersion
	require.NoError(t, k.Keep(t.Context()))
	require.NoError(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "hearth"}, &v))
	assert.Equal(t, before, v.ResourceVersion, "nothing is written when nothing changed")

	second := keeper(t)
	second.Client = k.Client
	require.NoError(t, second.Keep(t.Context()))
	other, err := second.GetCertificate(nil)
	require.NoError(t, err)
	assert.Equal(t, serving.Certificate, other.Certificate, "all replicas serve the same")
}

// configured are the objects that config/webhook makes.
func configured() []client.Object {
	at := metav1.ObjectMeta{Name: "hearth"}
	return []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hearth-system", Name: "cert"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: at, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: at, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "b"}, {Name: "c"}}},
	}
}

// A new authority is trusted a look before anybody serves what it signed, by the replica that made it and by the others.
func TestANewAuthorityIsTrustedBeforeItIsServed(t *testing.T) {
	now := start
	first, second := keeper(t, configured()...), keeper(t)
	second.Client = first.Client
	replicas := []*Keeper{first, second}
	look := func(k *Keeper) []byte {
		require.NoError(t, k.Keep(t.Context()))
		serving, err := k.GetCertificate(nil)
		require.NoError(t, err)
		return serving.Certificate[0]
	}
	bundle := func() []byte {
		var v admissionregistrationv1.ValidatingWebhookConfiguration
		require.NoError(t, first.Client.Get(t.Context(), client.ObjectKey{Name: "hearth"}, &v))
		return v.Webhooks[0].ClientConfig.CABundle
	}
	for _, k := range replicas {
		k.Now = func() time.Time { return now }
		look(k)
	}
	now = start.Add(authorityLife - servingLife - renewBefore - 200*day)
	old := look(first)
	require.Equal(t, old, look(second), "the serving certificate alone is taken at once: its authority is known")
	before := bundle()

	now = now.Add(201 * day)
	for _, k := range replicas {
		assert.Equal(t, old, look(k), "the old one for one more look")
		assert.True(t, k.holding)
		assert.True(t, bytes.HasSuffix(bundle(), before), "both authorities are trusted")
		assert.True(t, believed(t, bundle(), encode(typeCertificate, old), now))
	}
	fresh := look(first)
	assert.NotEqual(t, old, fresh)
	assert.False(t, first.holding)
	assert.True(t, believed(t, bundle(), encode(typeCertificate, fresh), now))
	assert.True(t, believed(t, bundle(), encode(typeCertificate, old), now), "the other replica serves it still")
	assert.Equal(t, fresh, look(second))

	// Somebody emptied the Secret: the old one is believed no longer, so nothing is gained by waiting.
	var secret corev1.Secret
	require.NoError(t, first.Client.Get(t.Context(), first.Secret, &secret))
	secret.Data = nil
	require.NoError(t, first.Client.Update(t.Context(), &secret))
	replaced := look(first)
	assert.NotEqual(t, fresh, replaced)
	assert.True(t, believed(t, bundle(), encode(typeCertificate, replaced), now))
}

func TestKeeperIsNotReadyWithoutItsObjectsAndEndsWithItsContext(t *testing.T) {
	k := keeper(t)
	require.ErrorContains(t, k.Keep(t.Context()), "read the Secret that config/webhook makes")
	require.Error(t, k.Ready(nil))
	assert.False(t, k.NeedLeaderElection())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, k.Start(ctx))
}
