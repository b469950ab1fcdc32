//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"time"
)

// relay is the machine in the middle: it ends the TLS of who comes with a key of its own, writes down what it reads inside, and
// passes it on to the real harness as if it were the caller. Only a caller that knows the Pod's key can tell.
func (e *ear) relay() (func(net.Conn), error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	bare := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, bare, bare, public, key)
	if err != nil {
		return nil, err
	}
	own := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return func(conn net.Conn) {
		inside := tls.Server(conn, own)
		defer func() { _ = inside.Close() }()
		if err := inside.Handshake(); err != nil {
			_, _ = io.Copy(io.Discard, conn)
			return
		}
		anybody := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true} // #nosec G402 -- a stranger has nothing to compare with
		up, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", deliveryPort), anybody)
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		go func() {
			_, _ = io.Copy(inside, up)
			_ = inside.Close()
		}()
		_, _ = io.Copy(up, overheard{inside, e})
	}, nil
}
