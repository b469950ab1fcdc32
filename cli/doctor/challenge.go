package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// maxHeader bounds the headers of an answer.
const maxHeader = 32 << 10

// target is whose delivery port is asked.
type target struct {
	namespace, pod, uid string
	port                int
	scheme              hearthv1.DeliveryScheme
}

// challenge asks the delivery port to prove that it is the Pod's, as the controller does before it sends anything (SPEC.md, Challenge). It
// changes nothing in the harness.
func (c *Cluster) challenge(ctx context.Context, t target, root []byte) Probe {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	keys, err := challenge.Derive(root, t.uid)
	if err != nil {
		return Probe{Heard: HeardOther, Words: "its Secret cannot be used: " + err.Error()}
	}
	raw, err := c.dial(ctx, t.namespace, t.pod, t.port)
	if err != nil {
		return notDialled(ctx, err)
	}
	defer func() { _ = raw.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })() // a port-forward has no deadlines
	conn := raw
	if t.scheme != hearthv1.DeliveryHTTP {
		secure := tls.Client(raw, pinned.Client(keys))
		if err := secure.HandshakeContext(ctx); err != nil {
			return notSecured(ctx, err)
		}
		conn = secure
	}
	return ask(ctx, conn, t, keys)
}

// ask challenges over a connection.
func ask(ctx context.Context, conn net.Conn, t target, keys challenge.Keys) Probe {
	nonce, err := challenge.New(rand.Reader)
	if err != nil {
		return Probe{Heard: HeardOther, Words: err.Error()}
	}
	body, err := wire.Encode(wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: t.pod, UID: t.uid}})
	if err != nil {
		return Probe{Heard: HeardOther, Words: err.Error()}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.pod+wire.ChallengePath, bytes.NewReader(body))
	if err != nil {
		return Probe{Heard: HeardOther, Words: err.Error()}
	}
	signed := challenge.Request{Method: request.Method, Target: wire.ChallengePath, PodName: t.pod, PodUID: t.uid, Challenge: nonce, Body: body}
	request.Header.Set("User-Agent", "hearth-doctor")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(wire.HeaderChallenge, nonce)
	request.Header.Set(wire.HeaderProof, keys.Proof(signed))
	if err := request.Write(conn); err != nil {
		return notDialled(ctx, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeader+wire.MaxAnswerBytes)), request)
	if err != nil {
		if silent(ctx, err) {
			return notDialled(ctx, err)
		}
		return Probe{Heard: HeardUnproven, Words: "the answer is no HTTP"} // a stranger's bytes stay where they are
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(response.Body, wire.MaxAnswerBytes))
	if err != nil {
		return notDialled(ctx, err)
	}
	return judged(keys, signed, t, response, said)
}

// judged reads an answer; one without a valid MAC did not come from the Pod, whatever it says. A harness that knows another root cannot
// make one, and that is what a 401 then tells.
func judged(keys challenge.Keys, signed challenge.Request, t target, response *http.Response, said []byte) Probe {
	if !keys.VerifyAnswer(signed, response.StatusCode, said, response.Header.Get(wire.HeaderAnswer)) {
		if response.StatusCode == http.StatusUnauthorized && response.Header.Get(wire.HeaderAnswer) != "" {
			return Probe{Heard: HeardRefused, Words: "it answered 401 with a proof of another secret"}
		}
		return Probe{Heard: HeardUnproven, Words: fmt.Sprintf("it answered %d without a proof", response.StatusCode)}
	}
	if response.StatusCode != http.StatusOK {
		var p wire.Problem
		_ = wire.DecodeAnswer(said, &p) // without a body the status says enough
		words := fmt.Sprintf("it answered %d %s", response.StatusCode, oneLine(string(p.Code)+" "+p.Detail, maxSaw))
		switch p.Code {
		case wire.CodeUnauthenticated:
			return Probe{Heard: HeardRefused, Words: words}
		case wire.CodeMisdirected:
			return Probe{Heard: HeardOtherPod, Words: words}
		case wire.CodeUnsupportedVersion:
			return Probe{Heard: HeardIncompatible, Words: words}
		default:
			return Probe{Heard: HeardOther, Words: words}
		}
	}
	var a wire.ChallengeAnswer
	if err := wire.DecodeAnswer(said, &a); err != nil {
		return Probe{Heard: HeardIncompatible, Words: "its answer cannot be read: " + oneLine(err.Error(), maxSaw)}
	}
	switch {
	case a.Identity != wire.Identity{Namespace: t.namespace, PodName: t.pod, PodUID: t.uid}:
		return Probe{Heard: HeardOtherPod, Words: fmt.Sprintf("it says that it is Pod %s/%s", oneLine(a.Identity.Namespace, maxSaw), oneLine(a.Identity.PodName, maxSaw))}
	case !slices.Contains(a.Versions, wire.APIVersion):
		return Probe{Heard: HeardIncompatible, Words: "it serves " + oneLine(strings.Join(a.Versions, ", "), maxSaw)}
	}
	return Probe{Heard: HeardOK, Harness: oneLine(a.Harness.Version, maxSaw), Agent: oneLine(a.Agent.Name+" "+a.Agent.Version, maxSaw), State: string(a.Agent.State),
		Room: fmt.Sprintf("%d of %d running, %d of %d queued", a.Capacity.Running, a.Capacity.Concurrency, a.Capacity.Queued, a.Capacity.Queue)}
}

// notDialled says why there is no connection, or why it ended.
func notDialled(ctx context.Context, err error) Probe {
	text := oneLine(err.Error(), maxSaw)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(text, "connection refused"), strings.Contains(text, "nothing listens"):
		return Probe{Heard: HeardClosed, Words: "connection refused"}
	case strings.Contains(text, "forbidden"):
		return Probe{Words: "you have no right to a port-forward: " + text}
	case silent(ctx, err):
		return Probe{Heard: HeardSilence, Words: fmt.Sprintf("no answer within %s", probeLimit)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return Probe{Heard: HeardUnproven, Words: "it hung up"}
	default:
		return Probe{Words: "the port-forward failed: " + text}
	}
}

// notSecured says why a TLS handshake did not end well. It repeats nothing of a peer's.
func notSecured(ctx context.Context, err error) Probe {
	var record tls.RecordHeaderError
	var operation *net.OpError
	switch text := err.Error(); {
	case errors.Is(err, pinned.ErrOtherKey):
		return Probe{Heard: HeardOtherKey, Words: pinned.ErrOtherKey.Error()}
	case errors.As(err, &record), errors.As(err, &operation) && operation.Op == "remote error":
		return Probe{Heard: HeardNoTLS, Words: "what it answered to a TLS handshake is none"}
	case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(text, "connection refused"), strings.Contains(text, "nothing listens"), silent(ctx, err), strings.Contains(text, "port-forward"):
		return notDialled(ctx, err)
	default:
		return Probe{Heard: HeardNoTLS, Words: "the TLS handshake did not end"}
	}
}

// silent tells whether the time was over.
func silent(ctx context.Context, err error) bool {
	var timeout net.Error
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
