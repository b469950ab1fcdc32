package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	return pinned.Client(p.Keys)
}

// sign makes a call that the harness believes.
func (p *pod) sign(ctx context.Context, method, target string, body []byte) (*http.Request, challenge.Request, error) {
	r, signed, err := p.Sign(ctx, method, strings.ToLower(p.scheme)+"://"+p.delivery, target, p.boot, body)
	if err == nil {
		r.Header.Set("Prefer", "wait=30")
	}
	return r, signed, err
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
	status, got, err := c.Ask(c.transport, r, asked)
	if err != nil {
		return 0, err
	}
	return status, wire.DecodeAnswer(got, into)
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
	target := wire.Target{Name: p.Identity.PodName, UID: p.Identity.PodUID}
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
