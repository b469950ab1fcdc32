package client

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge/pinned"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// understood is what somebody in between could read after taking TLS away.
type understood struct {
	mu   sync.Mutex
	text strings.Builder
}

func (u *understood) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.Write(p)
}

func (u *understood) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.String()
}

// terminate has a stranger speak TLS with a configuration of its own, and passes what it could read to the real harness.
func terminate(t *testing.T, config *tls.Config, into io.Writer, onward string) *stranger {
	t.Helper()
	return strangerWho(t, "127.0.0.1:0", func(c net.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), patience) //nolint:usetesting // a connection may outlive the test's context
		defer cancel()
		s := tls.Server(c, config)
		if s.HandshakeContext(ctx) != nil {
			return
		}
		up, err := (&tls.Dialer{Config: pinned.Client(harness.Keys(t, "pod-1"))}).DialContext(ctx, "tcp", onward)
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		go func() { _, _ = io.Copy(s, up) }()
		_, _ = io.Copy(io.MultiWriter(up, into), s)
	})
}

func strangersCertificate(t *testing.T) *tls.Config {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	bare := &x509.Certificate{SerialNumber: big.NewInt(7), DNSNames: []string{"reviewer-1"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, bare, bare, public, key)
	require.NoError(t, err)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}}
}

// forger signs with a key of its own and says that it has the Pod's.
type forger struct {
	ed25519.PrivateKey
	public crypto.PublicKey
}

func (f forger) Public() crypto.PublicKey { return f.public }

// podsCertificate is what everybody gets who connects to the Pod once; its key is not there.
func podsCertificate(t *testing.T, more ...tls.Certificate) *tls.Config {
	t.Helper()
	genuine, err := pinned.Server(harness.Keys(t, "pod-1")).GetCertificate(nil)
	require.NoError(t, err)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	c := tls.Certificate{Certificate: genuine.Certificate, PrivateKey: forger{key, harness.Keys(t, "pod-1").TLSKey().Public()}}
	for _, before := range more { // the stranger's own first, and the Pod's behind it
		c = tls.Certificate{Certificate: slices.Concat(before.Certificate, c.Certificate), PrivateKey: before.PrivateKey}
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c}, NextProtos: []string{"http/1.1"}}
}

// R25, R26, rows 23 and 27; SPEC.md, Confidentiality: who is not the Pod sees no byte of a goal, nor anything else of the contract,
// and each kind of stranger has its own sentence.
func TestNoStrangerGetsBeyondTheHandshake(t *testing.T) {
	const otherKey, noTLS, noHandshake = "another TLS key than the Pod's", "does not speak TLS 1.3", "nobody at the Pod's address ended the TLS handshake"
	h := harness.Start(t, harness.Options{})
	another := harness.Start(t, harness.Options{Identity: wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-2"}})
	var read understood
	old := pinned.Server(harness.Keys(t, "pod-1"))
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	says := func(text string) func([]byte, net.Conn) {
		return func(_ []byte, c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	for name, c := range map[string]struct {
		stranger func(t *testing.T) *stranger
		says     string
	}{
		"plain HTTP":                  {func(t *testing.T) *stranger { return newStranger(t, "127.0.0.1:0", says(response(200, "", "{}"))) }, noTLS},
		"another protocol":            {func(t *testing.T) *stranger { return newStranger(t, "127.0.0.1:0", says("SSH-2.0-OpenSSH_9\r\n")) }, noTLS},
		"TLS 1.2, with the Pod's key": {func(t *testing.T) *stranger { return terminate(t, old, &read, h.Address) }, noTLS},
		"a mute one":                  {func(t *testing.T) *stranger { return newStranger(t, "127.0.0.1:0", func([]byte, net.Conn) {}) }, noHandshake},
		"one that hangs up": {func(t *testing.T) *stranger {
			return newStranger(t, "127.0.0.1:0", func(_ []byte, c net.Conn) { _ = c.Close() })
		}, noHandshake},
		"a TLS stranger, as a relay":            {func(t *testing.T) *stranger { return terminate(t, strangersCertificate(t), &read, h.Address) }, otherKey},
		"the Pod's certificate without its key": {func(t *testing.T) *stranger { return terminate(t, podsCertificate(t), &read, h.Address) }, otherKey},
		"the Pod's certificate behind another": {func(t *testing.T) *stranger {
			return terminate(t, podsCertificate(t, strangersCertificate(t).Certificates...), &read, h.Address)
		}, otherKey},
		"another Pod behind the address": {func(t *testing.T) *stranger { return pass(t, another.Address) }, otherKey},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.stranger(t)
			cfg := testConfig(t, s.listener.Addr().String())
			if c.says == noHandshake {
				cfg.Timeouts.Dial = time.Second // the mute one is waited for
			}
			l := open(t, cfg)
			require.NoError(t, l.Send(Delivery{DeliveryRequest: wire.DeliveryRequest{APIVersion: wire.APIVersion, Run: runRef("a"), Attempt: 1, Goal: secretGoal}}, 99))
			eventually(t, "tried more than once", func() bool { return s.connections() > 2 && l.Status().State == StateUnreachable })
			require.NoError(t, l.Send(Delivery{DeliveryRequest: wire.DeliveryRequest{APIVersion: wire.APIVersion, Run: runRef("a"), Attempt: 1, Goal: secretGoal}}, 99))
			assert.Equal(t, delivery.SendNotTaken, idle(t, l, "a", 1).Sent.Outcome, "no byte of it left")
			assertDistrusted(t, l)
			assert.Contains(t, l.Status().Message, c.says)
			assertNothingShown(t, s.bytes())
		})
	}
	assert.Empty(t, read.String(), "what a stranger read inside TLS")
	assert.Empty(t, h.Runner.Started())
	assert.Empty(t, another.Runner.Started())
}

// assertNothingShown checks every byte that went to somebody else.
func assertNothingShown(t *testing.T, got string) {
	t.Helper()
	require.NotEmpty(t, got)
	for _, word := range []string{secretGoal, harness.Root, "reviewer-1", "pod-1", "uid-a", "Hearth", "hearth.dev", "HTTP/1.1\r\n"} {
		assert.NotContains(t, got, word)
	}
}

// pass copies bytes both ways and keeps those of the caller.
func pass(t *testing.T, to string) *stranger {
	t.Helper()
	return strangerWho(t, "127.0.0.1:0", func(c net.Conn) {
		up, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to) //nolint:usetesting // a connection may outlive the test's context
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		go func() {
			_, _ = io.Copy(c, up)
			_ = c.Close()
		}()
		_, _ = io.Copy(up, c)
	})
}

// Somebody who only passes bytes on, the network itself, sees none of the goal, and cannot keep the run from its end.
func TestWhoPassesTheBytesOnReadsNoneOfThem(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	s := pass(t, h.Address)
	l := verifiedLink(t, testConfig(t, s.listener.Addr().String()))
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 0))
	assert.Equal(t, delivery.SendAccepted, idle(t, l, "a", 1).Sent.Outcome)
	assertNothingShown(t, s.bytes())
}

// SPEC.md, Confidentiality: no proxy variable counts and no redirect is followed, whatever the scheme. net/http asks no proxy about
// a loopback address, so it is the transport that is looked at.
func TestNoProxyAndNoRedirect(t *testing.T) {
	for _, scheme := range []wire.Scheme{wire.SchemeHTTPS, wire.SchemeHTTP} {
		keys, told := harness.Keys(t, "pod-1"), &tally{count: map[string]int{}}
		h := harness.Start(t, harness.Options{Scheme: scheme, Wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.URL.Path != wire.RunsPath {
					next.ServeHTTP(w, r)
					return
				}
				told.add(r.Method)
				w.Header().Set("Location", wire.RunsPath)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set(wire.HeaderAnswer, keys.Answer(signedRequest(r), http.StatusTemporaryRedirect, nil)) // even the Pod's own
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
		}})
		cfg := testConfig(t, h.Address)
		cfg.Scheme = scheme
		l := verifiedLink(t, cfg)
		assert.Nil(t, l.through().Proxy)
		require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 99))
		assert.Equal(t, delivery.SendUnknown, idle(t, l, "a", 1).Sent.Outcome)
		assert.Equal(t, StateVerified, l.Status().State)
		assert.Equal(t, 1, told.of(http.MethodPost), "sent once, and not again where the redirect leads")
	}
}

// SPEC.md, Confidentiality: what was kept alive to one boot is not used for the next.
func TestATransportBelongsToOneBoot(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	l := verifiedLink(t, testConfig(t, h.Address))
	first, boot := l.through(), l.Status().Boot
	h.Stop()
	h.Boot()
	eventually(t, "the next boot", func() bool { s := l.Status(); return s.State == StateVerified && s.Boot != boot })
	assert.NotSame(t, first, l.through())
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 0))
	assert.Equal(t, delivery.SendAccepted, idle(t, l, "a", 1).Sent.Outcome)
}

func TestAnUnknownSchemeIsRefused(t *testing.T) {
	cfg := testConfig(t, "127.0.0.1:1")
	cfg.Scheme = "ftp"
	_, err := New(cfg)
	require.ErrorContains(t, err, "scheme: expected HTTPS or HTTP")
}
