package deliver_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// eavesdropper keeps all that is sent to an address, and serves each connection as told.
type eavesdropper struct {
	mu  sync.Mutex
	got bytes.Buffer
}

type overheard struct {
	net.Conn
	by *eavesdropper
}

func (c overheard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.got.Write(p[:n])
	return n, err
}

func eavesdrop(t *testing.T, address string, serve func(net.Conn)) *eavesdropper {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	e := &eavesdropper{}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				serve(overheard{c, e})
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return e
}

// heard checks that a stranger heard something, and none of these.
func (e *eavesdropper) heard(t *testing.T, none ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	assert.NotEmpty(t, e.got.String())
	for _, word := range none {
		assert.NotContains(t, e.got.String(), word)
	}
}

func strangersTLS(t *testing.T) *tls.Config {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	bare := &x509.Certificate{SerialNumber: big.NewInt(7), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, bare, bare, public, key)
	require.NoError(t, err)
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// Row 27, R25, R26; SPEC.md, Confidentiality: whoever answers at the Pod's address instead of the Pod sees no byte of a goal. The
// run waits, TargetUnreachable, and its message says what kind of stranger it is.
func TestAStrangerAtThePodsAddressGetsNothingAndTheRunSaysSo(t *testing.T) {
	answer := func(text string) func(*testing.T, *target) func(net.Conn) {
		return func(*testing.T, *target) func(net.Conn) {
			return func(c net.Conn) {
				_, _ = c.Read(make([]byte, 64<<10))
				_, _ = io.WriteString(c, text)
			}
		}
	}
	// onward ends the TLS of who comes, if any, and passes what it reads to somebody else.
	onward := func(secure bool) func(*testing.T, *target) func(net.Conn) {
		return func(t *testing.T, x *target) func(net.Conn) {
			other := harness.Start(t, harness.Options{Identity: wire.Identity{Namespace: x.w.ns, PodName: x.pod.Name, PodUID: "another"}})
			config := strangersTLS(t)
			return func(c net.Conn) {
				if secure {
					c = tls.Server(c, config)
				}
				up, err := (&net.Dialer{}).Dial("tcp", other.Address)
				if err != nil {
					return
				}
				defer func() { _ = up.Close() }()
				go func() {
					_, _ = io.Copy(c, up)
					_ = c.Close()
				}()
				_, _ = io.Copy(up, c)
			}
		}
	}
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	for name, c := range map[string]struct {
		scheme hearthv1.DeliveryScheme
		serve  func(*testing.T, *target) func(net.Conn)
		says   string
	}{
		"plain HTTP":                         {hearthv1.DeliveryHTTPS, answer(ok), "does not speak TLS 1.3"},
		"TLS with a key of its own, a relay": {hearthv1.DeliveryHTTPS, onward(true), "another TLS key than the Pod's"},
		"another Pod on a reused address":    {hearthv1.DeliveryHTTPS, onward(false), "another TLS key than the Pod's"},
		"one that hangs up":                  {hearthv1.DeliveryHTTPS, answer(""), "nobody at the Pod's address ended the TLS handshake"},
		"plain HTTP, with the scheme HTTP":   {hearthv1.DeliveryHTTP, answer(ok), "nobody there could prove to be the Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.scheme = c.scheme
			x := w.placeholder("reviewer-1")
			e := eavesdrop(t, x.address(), c.serve(t, x))
			x.ready()
			w.controller()
			run := w.deliver("run", goal)
			waiting := w.reasonIs(run, hearthv1.ReasonTargetUnreachable)
			assert.Contains(t, meta.FindStatusCondition(waiting.Status.Conditions, hearthv1.AgentRunConditionSucceeded).Message, c.says)
			e.heard(t, goal, harness.Root, wire.RunsPath)
		})
	}
}
