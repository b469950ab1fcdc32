// Package pinned makes TLS of a Pod's key "tls" (SPEC.md, Confidentiality): the harness presents the Ed25519 key, the caller
// derives the public half and accepts that key and no other. No certificate is issued, renewed or trusted.
package pinned

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/hearthdev/hearth/challenge"
)

// Protocol is the one application protocol (RFC 7301) that is offered and served.
const Protocol = "http/1.1"

// ErrOtherKey: the far end speaks TLS, with a key that is not the Pod's.
var ErrOtherKey = errors.New("the TLS key is not the Pod's")

// The certificate only carries the key; TLS demands a time, the contract has none (RFC 5280, section 4.1.2.5: no expiration).
var (
	notBefore = time.Unix(0, 0)
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Server is the configuration of a Pod's delivery listener. Its certificate is made at the first handshake, because a harness that starts
// has something better to do; a handshake fails where it cannot be made.
func Server(keys challenge.Keys) *tls.Config {
	made := sync.OnceValues(func() (*tls.Certificate, error) { return certificate(keys) })
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return made() },
		NextProtos:             []string{Protocol},
		SessionTicketsDisabled: true, // every connection proves the key anew
	}
}

func certificate(keys challenge.Keys) (*tls.Certificate, error) {
	key := keys.TLSKey()
	bare := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, bare, bare, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the delivery listener: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Client is the configuration of a caller: no name and no authority counts, only the Pod's key. A handshake with another key
// fails with ErrOtherKey before anything but the handshake was sent.
func Client(keys challenge.Keys) *tls.Config {
	want := keys.TLSKey().Public()
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{Protocol},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection pins the key, which says more than an authority could
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !same(want, s.PeerCertificates[0].PublicKey) {
				return ErrOtherKey
			}
			return nil
		},
	}
}

func same(want crypto.PublicKey, got any) bool {
	key, ok := got.(ed25519.PublicKey)
	return ok && key.Equal(want)
}
