package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// caller is who holds the secret: a controller with connections of its own.
type caller struct {
	*pod
	transport *http.Transport
}

func (p *pod) caller() *caller {
	return &caller{pod: p, transport: &http.Transport{TLSClientConfig: p.clientTLS(), Proxy: nil}}
}

// clientTLS is the caller's side of the delivery port; nil where that speaks plain HTTP.
func (p *pod) clientTLS() *tls.Config {
	if p.scheme == string(wire.SchemeHTTP) {
		return nil
	}
	return pinned.Client(p.keys)
}

func (p *pod) url(target string) string {
	if p.scheme == string(wire.SchemeHTTPS) {
		return "https://" + p.delivery + target
	}
	return "http://" + p.delivery + target
}

// sign makes a call that the harness believes.
func (p *pod) sign(ctx context.Context, method, target string, body []byte) (*http.Request, challenge.Request, error) {
	nonce, err := challenge.New(rand.Reader)
	if err != nil {
		return nil, challenge.Request{}, err
	}
	asked := challenge.Request{Method: method, Target: target, PodName: p.identity.PodName, PodUID: podUID, Challenge: nonce, Body: body}
	if target != wire.ChallengePath {
		asked.Boot = p.boot
	}
	r, err := http.NewRequestWithContext(ctx, method, p.url(target), bytes.NewReader(body))
	if err != nil {
		return nil, challenge.Request{}, err
	}
	r.Host = p.identity.PodName
	r.Header.Set(wire.HeaderChallenge, nonce)
	r.Header.Set(wire.HeaderProof, p.keys.Proof(asked))
	r.Header.Set("Prefer", "wait=30")
	if asked.Boot != "" {
		r.Header.Set(wire.HeaderBoot, asked.Boot)
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, asked, nil
}

// call returns a verified answer's status.
func (c *caller) call(ctx context.Context, method, target string, body, into any) (int, error) {
	var encoded []byte
	var err error
	if body != nil {
		if encoded, err = wire.Encode(body); err != nil {
			return 0, err
		}
	}
	r, asked, err := c.sign(ctx, method, target, encoded)
	if err != nil {
		return 0, err
	}
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if !c.keys.VerifyAnswer(asked, response.StatusCode, got, response.Header.Get(wire.HeaderAnswer)) {
		return 0, errors.New("the answer does not verify")
	}
	return response.StatusCode, wire.DecodeAnswer(got, into)
}

// deliver does one run from the first connection to the recorded end, as a controller does: what breaks on the way is tried
// again, on a new connection. It returns how many connections it took.
func (p *pod) deliver(ctx context.Context) (int, error) {
	p.runs++
	uid := "run-" + strconv.Itoa(p.runs)
	var err error
	for try := 1; ; try++ {
		if err = p.once(ctx, uid); err == nil {
			return try, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return try, fmt.Errorf("after %d tries: %w", try, err)
		}
	}
}

// once delivers an attempt, or looks at what became of it.
func (p *pod) once(ctx context.Context, uid string) error {
	c := p.caller()
	defer c.transport.CloseIdleConnections()
	target := wire.Target{Name: p.identity.PodName, UID: podUID}
	var who wire.ChallengeAnswer
	if status, err := c.call(ctx, http.MethodPost, wire.ChallengePath, wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: target}, &who); err != nil || status != http.StatusOK {
		return fmt.Errorf("challenge: %d %w", status, err)
	}
	if p.boot != "" && p.boot != who.Boot {
		return errors.New("the harness restarted")
	}
	p.boot = who.Boot
	var a wire.Attempt
	status, err := c.call(ctx, http.MethodPost, wire.RunsPath, wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: uid, UID: uid}, Attempt: 1, Target: target,
		Journal: who.Journal, Goal: "say: hello",
	}, &a)
	if err != nil || status != http.StatusOK || a.State != wire.StateFinished {
		return fmt.Errorf("deliver: %d %q %w", status, a.State, err)
	}
	if a.Envelope == nil || a.Envelope.Outcome != wire.OutcomeSucceeded || a.Envelope.Output.Value != "hello" {
		return fmt.Errorf("it ended %+v", a.Envelope)
	}
	if status, err = c.call(ctx, http.MethodPost, wire.RunsPath+"/"+uid+wire.RecordedSuffix+"?attempt=1", nil, new(any)); status != http.StatusNoContent {
		return fmt.Errorf("recorded: %d %w", status, err)
	}
	return nil
}
