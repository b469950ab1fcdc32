package pinned

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
)

func keys(t *testing.T, root byte, podUID string) challenge.Keys {
	t.Helper()
	k, err := challenge.Derive(bytes.Repeat([]byte{root}, 32), podUID)
	require.NoError(t, err)
	return k
}

func serverConfig(t *testing.T, k challenge.Keys) *tls.Config {
	t.Helper()
	return Server(k)
}

// shake shakes hands over a pipe that keeps what the client sent.
func shake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, sent []byte, clientErr, serverErr error) {
	t.Helper()
	a, b := net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen bytes.Buffer
	done := make(chan error, 1)
	go func() {
		s := tls.Server(&tee{Conn: b, into: &seen}, server)
		err := s.HandshakeContext(ctx)
		if err == nil {
			_, err = io.Copy(io.Discard, s)
		}
		_ = b.Close()
		done <- err
	}()
	c := tls.Client(a, client)
	clientErr = c.HandshakeContext(ctx)
	state = c.ConnectionState()
	if clientErr == nil {
		_ = c.Close()
	}
	_ = a.Close()
	serverErr = <-done
	return state, seen.Bytes(), clientErr, serverErr
}

type tee struct {
	net.Conn
	into *bytes.Buffer
}

func (c *tee) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.into.Write(p[:n])
	return n, err
}

// R26; SPEC.md, Confidentiality: TLS 1.3, the key that both sides derive, HTTP/1.1, no name in the clear.
func TestBothSidesDeriveOneKey(t *testing.T) {
	k := keys(t, 1, "pod-1")
	state, sent, clientErr, serverErr := shake(t, serverConfig(t, k), Client(k))
	require.NoError(t, clientErr)
	require.NoError(t, serverErr)
	assert.Equal(t, uint16(tls.VersionTLS13), state.Version)
	assert.Equal(t, Protocol, state.NegotiatedProtocol)
	assert.Equal(t, k.TLSKey().Public(), state.PeerCertificates[0].PublicKey.(ed25519.PublicKey))
	assert.False(t, state.DidResume)
	assert.NotContains(t, string(sent), "pod-1")
}

// Rows 23, 27: another Pod's key, an authority's certificate, an older TLS: the handshake fails at the caller.
func TestAnyOtherKeyFailsTheHandshake(t *testing.T) {
	mine := keys(t, 1, "pod-1")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	bare := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, bare, bare, ec.Public(), ec)
	require.NoError(t, err)
	for name, server := range map[string]*tls.Config{
		"the same secret, another Pod": serverConfig(t, keys(t, 1, "pod-2")),
		"another secret, the same Pod": serverConfig(t, keys(t, 2, "pod-1")),
		"another kind of key":          {MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: ec}}},
	} {
		_, _, clientErr, serverErr := shake(t, server, Client(mine))
		require.ErrorIs(t, clientErr, ErrOtherKey, name)
		require.Error(t, serverErr, name)
	}
	// Showing the Pod's certificate without having its key is of no use either.
	stolen := serverConfig(t, mine)
	_, thief, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	shown, err := stolen.GetCertificate(nil)
	require.NoError(t, err)
	stolen.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: shown.Certificate, PrivateKey: thief}, nil
	}
	_, _, clientErr, _ := shake(t, stolen, Client(mine))
	require.Error(t, clientErr)
	again, err := serverConfig(t, mine).GetCertificate(nil)
	require.NoError(t, err)
	assert.Equal(t, again.PrivateKey, shown.PrivateKey, "it is the Pod's own that was shown")
}

func TestOlderTLSIsNotSpoken(t *testing.T) {
	k := keys(t, 1, "pod-1")
	old := Client(k)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, _, clientErr, serverErr := shake(t, serverConfig(t, k), old)
	require.Error(t, clientErr)
	require.Error(t, serverErr)
	weak := serverConfig(t, k)
	weak.MinVersion, weak.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, _, clientErr, _ = shake(t, weak, Client(k))
	require.Error(t, clientErr)
}
