package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func tlsCases() []Case {
	return []Case{
		{ID: "T-1", Title: "the listener speaks TLS 1.3 and nothing older", tls: true, run: func(t *trial) {
			t.handshake(func(c *tls.Config) {})
			conn, err := t.kit.secure(t.ctx, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 })
			if err == nil {
				_ = conn.Close()
				t.fail("TLS 1.2: expected no handshake, it was completed")
			}
		}},
		{ID: "T-2", Title: "the listener shows the key derived from the root secret", tls: true, run: func(t *trial) {
			conn, err := t.kit.secure(t.ctx, func(c *tls.Config) { c.VerifyConnection = pinned.Client(t.kit.keys).VerifyConnection })
			if errors.Is(err, pinned.ErrOtherKey) {
				t.fail("expected the Ed25519 key whose seed is the key tls, got another key")
			}
			t.check(err == nil, "expected a handshake, got %v", err)
			_ = conn.Close()
		}},
		{ID: "T-3", Title: "the listener offers http/1.1 only", tls: true, run: func(t *trial) {
			got := t.handshake(func(c *tls.Config) { c.NextProtos = []string{"h2", pinned.Protocol} }).NegotiatedProtocol
			t.check(got == pinned.Protocol || got == "", "offered h2 and http/1.1: expected http/1.1, got %q", got)
		}},
		{ID: "T-4", Title: "in the clear nothing of the contract is answered", tls: true, run: func(t *trial) {
			c := t.challenge()
			a, err := t.kit.over(c, t.kit.encode(c), func() (net.Conn, error) { return t.kit.dialPlain(t.ctx) })
			t.check(err != nil || a.status >= http.StatusBadRequest && len(a.header.Values(wire.HeaderAnswer)) == 0,
				"a challenge without TLS: expected nothing of the contract, got a %d", a.status)
		}},
		{ID: "T-5", Title: "a TLS session is never resumed", tls: true, run: func(t *trial) {
			cache := tls.NewLRUClientSessionCache(1)
			for range 2 {
				conn, err := t.kit.secure(t.ctx, func(c *tls.Config) { c.ClientSessionCache, c.ServerName = cache, "conformance" })
				t.check(err == nil, "expected a handshake, got %v", err)
				t.check(!conn.ConnectionState().DidResume, "expected a full handshake, the session was resumed")
				_ = conn.SetReadDeadline(time.Now().Add(ticketPatience))
				_, _ = conn.Read(make([]byte, 1)) // a ticket comes after the handshake, if one comes
				_ = conn.Close()
			}
		}},
	}
}

// ticketPatience is how long a session ticket, which should not come, is waited for.
const ticketPatience = 300 * time.Millisecond

// secure makes a TLS connection. Any key will do: that it is the right one is the matter of one case, and no goal here is a secret.
func (k *Kit) secure(ctx context.Context, change func(*tls.Config)) (*tls.Conn, error) {
	raw, err := k.dialPlain(ctx)
	if err != nil {
		return nil, err
	}
	config := pinned.Client(k.keys)
	config.VerifyConnection = nil
	change(config)
	_ = raw.SetDeadline(time.Now().Add(dialTimeout))
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	_ = raw.SetDeadline(time.Time{})
	return conn, nil
}

// handshake makes a TLS connection, and tells what was agreed on.
func (t *trial) handshake(change func(*tls.Config)) tls.ConnectionState {
	conn, err := t.kit.secure(t.ctx, change)
	t.check(err == nil, "expected a handshake, got %v", err)
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState()
}
