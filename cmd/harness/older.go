package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hearthdev/hearth/delivery/kontext"
)

// deliverer is a contract's side of the harness: the wire's own, or the older one.
type deliverer interface {
	Boot() string
	AgentChanged()
	Serve(ctx context.Context, listener net.Listener) error
	Drain(ctx context.Context, limit time.Duration)
	Close()
}

// olderCredentials are what the older contract's listener needs (SPEC.md, The older contract): its controller tells a Pod neither
// its name nor its UID, so the hostname is all that says who this is.
type olderCredentials struct {
	hostname string
	token    []byte
}

// identifyOlder reads the older contract's credentials; without a token there are none. A harness serves one contract.
func identifyOlder(environ []string, hostname func() (string, error)) (*olderCredentials, error) {
	token, given := lookup(environ, kontext.TokenVariable)
	if !given {
		return nil, nil //nolint:nilnil // no delivery is no error
	}
	if _, both := lookup(environ, envToken); both {
		return nil, fmt.Errorf("%s and %s are both set: expected one, because a harness serves one contract", envToken, kontext.TokenVariable)
	}
	if len(token) < kontext.MinTokenBytes {
		return nil, fmt.Errorf("%s: expected at least %d bytes, got %d", kontext.TokenVariable, kontext.MinTokenBytes, len(token))
	}
	host, err := hostname()
	if err != nil {
		return nil, fmt.Errorf("hostname: %w", err)
	}
	return &olderCredentials{hostname: host, token: []byte(token)}, nil
}

// openOlder serves the older contract. Its callers are asked to come again until an agent answers.
func (h *harness) openOlder(ctx context.Context, who olderCredentials) error {
	older, err := kontext.New(kontext.Config{
		Hostname: who.hostname, Token: who.token, Journal: h.journal, Runner: h.agents,
		Concurrency: h.cfg.concurrency, Queue: h.cfg.queue, Now: time.Now, Log: h.log,
	})
	if err != nil {
		return err
	}
	h.server = older
	h.agents.session = "" // that contract has no word for it, so the harness's configuration decides
	h.deliver(ctx, "contract", kontext.APIVersion)
	return nil
}
