package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

var (
	errNoTLS       = errors.New("the far end does not speak TLS 1.3")
	errNoHandshake = errors.New("the TLS handshake did not end")
)

// remoteError is crypto/tls's word for an alert (RFC 8446, section 6) that the far end sent.
const remoteError = "remote error"

// secure puts TLS over a new connection, with the Pod's key and no other at the far end (SPEC.md, Confidentiality). Its errors
// say nothing in a peer's words.
func (l *Link) secure(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if l.cfg.Scheme == wire.SchemeHTTP {
		return raw, nil
	}
	conn := tls.Client(raw, l.tls)
	err := conn.HandshakeContext(ctx)
	var network net.Error
	var record tls.RecordHeaderError
	var operation *net.OpError
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, pinned.ErrOtherKey):
		return nil, pinned.ErrOtherKey
	case errors.As(err, &record), errors.As(err, &operation) && operation.Op == remoteError:
		return nil, errNoTLS
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), ctx.Err() != nil:
		return nil, errNoHandshake
	case len(conn.ConnectionState().PeerCertificates) > 0:
		return nil, pinned.ErrOtherKey // the Pod's certificate, which everybody can have, by somebody who could not sign with its key
	default:
		return nil, errNoTLS
	}
}
