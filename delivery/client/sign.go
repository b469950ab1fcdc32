package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// ErrNoAnswer: whoever answered did not prove to be the Pod. Whatever the response says, it is a network fault (R26; SPEC.md, Challenge).
var ErrNoAnswer = errors.New("somebody answered who could not prove to be the Pod")

// The headers of W3C Trace Context.
const headerParent, headerState = "traceparent", "tracestate"

// call is one request before it is signed.
type call struct {
	method string
	path   string // with its query
	body   []byte
	wait   time.Duration // Prefer: wait
	trace  Trace
}

// reply is a response whose answer was verified: the target said this.
type reply struct {
	status     int
	retryAfter string
	body       []byte
}

// request makes a call into a signed HTTP request with a challenge of its own. Boot is "" only on the challenge itself.
func (l *Link) request(ctx context.Context, c call, boot string) (*http.Request, challenge.Request, error) {
	nonce, err := challenge.New(l.cfg.Random)
	if err != nil {
		return nil, challenge.Request{}, fmt.Errorf("challenge: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+l.Address()+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, challenge.Request{}, fmt.Errorf("request: %w", err)
	}
	signed := challenge.Request{
		Method: c.method, Target: req.URL.RequestURI(),
		PodName: l.cfg.Target.PodName, PodUID: l.cfg.Target.PodUID,
		Boot: boot, Challenge: nonce, Body: c.body,
	}
	req.Host = l.cfg.Target.PodName
	req.Header.Set("User-Agent", "hearth")
	req.Header.Set(wire.HeaderChallenge, nonce)
	req.Header.Set(wire.HeaderProof, l.cfg.Keys.Proof(signed))
	if boot != "" {
		req.Header.Set(wire.HeaderBoot, boot)
	}
	if len(c.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.trace.Parent != "" { // no part of the proof: whoever could change it could only mislead a trace
		req.Header.Set(headerParent, c.trace.Parent)
	}
	if c.trace.State != "" {
		req.Header.Set(headerState, c.trace.State)
	}
	if c.wait > 0 {
		req.Header.Set("Prefer", fmt.Sprintf("wait=%d", int(c.wait/time.Second)))
	}
	return req, signed, nil
}

// verified reads a response, bounded, and believes it only if its answer is the target's to this very request.
func (l *Link) verified(signed challenge.Request, resp *http.Response) (reply, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxAnswerBytes+1))
	if err != nil {
		return reply{}, fmt.Errorf("read the answer: %w", quiet(err)) // net/http quotes a trailer that it cannot read
	}
	if len(body) > wire.MaxAnswerBytes {
		return reply{}, fmt.Errorf("%w: more than %d bytes", ErrNoAnswer, wire.MaxAnswerBytes)
	}
	if !l.cfg.Keys.VerifyAnswer(signed, resp.StatusCode, body, resp.Header.Get(wire.HeaderAnswer)) {
		return reply{}, ErrNoAnswer
	}
	return reply{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After"), body: body}, nil
}

// problem reads a refusal. One without a known body still has its status.
func (r reply) problem() *wire.Problem {
	var p wire.Problem
	if err := wire.DecodeAnswer(r.body, &p); err != nil {
		p = wire.Problem{}
	}
	p.Status = r.status
	p.Detail = wire.CutText(wire.CleanText(p.Detail), maxMessage)
	if len(p.Code) > maxCode {
		p.Code = ""
	}
	return &p
}

// maxCode is longer than any code of the contract.
const maxCode = 64
