package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	callTimeout = 20 * time.Second // of one call, beyond the wait it prefers; less when the kit has less patience
	dialTimeout = 5 * time.Second
	maxHeaders  = 64 << 10 // of an answer, in bytes
)

// call is one request, to be spoilt before it is sent.
type call struct {
	method, target, host, media string
	boot                        string
	challenge                   []string // values of the header
	proof                       []string // instead of the right one
	proven                      func(*challenge.Request)
	body                        []byte
	prefer                      int // seconds to wait
	chunked                     bool
	missing                     int  // bytes of the body that are declared and not sent
	more                        bool // another call comes over the same connection
}

// answer is what came back.
type answer struct {
	asked   challenge.Request
	proto   string
	status  int
	header  http.Header
	body    []byte
	problem wire.Problem // of a refusal
	what    string       // the call, for messages
}

// request is how the call looks to a MAC.
func (k *Kit) request(c call) challenge.Request {
	r := challenge.Request{
		Method: c.method, Target: c.target, PodName: k.Identity.PodName, PodUID: k.Identity.PodUID, Boot: c.boot, Body: c.body,
	}
	if len(c.challenge) > 0 {
		r.Challenge = c.challenge[0]
	}
	return r
}

// encode is the call byte by byte.
func (k *Kit) encode(c call) []byte {
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", c.method, c.target, c.host)
	if !c.more {
		b.WriteString("Connection: close\r\n")
	}
	for _, v := range c.challenge {
		_, _ = fmt.Fprintf(&b, "%s: %s\r\n", wire.HeaderChallenge, v)
	}
	if c.boot != "" {
		_, _ = fmt.Fprintf(&b, "%s: %s\r\n", wire.HeaderBoot, c.boot)
	}
	proofs := c.proof
	if proofs == nil {
		r := k.request(c)
		if c.proven != nil {
			c.proven(&r)
		}
		proofs = []string{k.keys.Proof(r)}
	}
	for _, v := range proofs {
		_, _ = fmt.Fprintf(&b, "%s: %s\r\n", wire.HeaderProof, v)
	}
	if c.media != "" {
		_, _ = fmt.Fprintf(&b, "Content-Type: %s\r\n", c.media)
	}
	if c.prefer > 0 {
		_, _ = fmt.Fprintf(&b, "Prefer: wait=%d\r\n", c.prefer)
	}
	switch {
	case c.chunked:
		_, _ = fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(c.body), c.body)
	case len(c.body) > 0 || c.method == http.MethodPost:
		_, _ = fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(c.body))
		b.Write(c.body[:len(c.body)-c.missing])
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// exchange sends bytes on a connection of their own and reads one response.
func (k *Kit) exchange(ctx context.Context, c call, raw []byte) (answer, error) {
	return k.over(c, raw, func() (net.Conn, error) { return k.dial(ctx) })
}

// over is exchange on a connection made by dial.
func (k *Kit) over(c call, raw []byte, dial func() (net.Conn, error)) (answer, error) {
	a := answer{asked: k.request(c), what: c.method + " " + strings.SplitN(c.target, "?", 2)[0]}
	conn, err := dial()
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(min(callTimeout, k.Patience) + time.Duration(c.prefer)*time.Second))
	sent := make(chan struct{})
	go func() { // a runtime may answer before it has read all
		defer close(sent)
		_, _ = conn.Write(raw)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && c.missing > 0 {
			_ = half.CloseWrite()
		}
	}()
	in := bufio.NewReader(io.LimitReader(conn, wire.MaxAnswerBytes+maxHeaders)) // a target without end is no reason to run out of memory
	response, err := http.ReadResponse(in, &http.Request{Method: c.method})
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		a.proto, a.status, a.header = response.Proto, response.StatusCode, response.Header
		a.body, err = io.ReadAll(io.LimitReader(response.Body, wire.MaxAnswerBytes))
	}
	_ = conn.Close()
	<-sent
	if err != nil {
		return a, fmt.Errorf("%s: expected a response, got %w", a.what, err)
	}
	if a.status >= http.StatusBadRequest {
		_ = wire.DecodeAnswer(a.body, &a.problem)
	}
	return a, nil
}

func (k *Kit) dialPlain(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", k.Target.Host) //nolint:wrapcheck // has the address
}

func (k *Kit) dial(ctx context.Context) (net.Conn, error) {
	if k.Target.Scheme == "https" {
		return k.secure(ctx, func(*tls.Config) {})
	}
	return k.dialPlain(ctx)
}

// verifies tells whether the answer is the target's, over exactly what was sent.
func (k *Kit) verifies(a answer) bool {
	values := a.header.Values(wire.HeaderAnswer)
	return len(values) == 1 && k.keys.VerifyAnswer(a.asked, a.status, a.body, values[0])
}

func nonce() string {
	n, err := challenge.New(rand.Reader)
	if err != nil {
		panic(err) // the operating system has no random bytes
	}
	return n
}

// as decodes an answer.
func as[T any](t *trial, a answer) T {
	var v T
	if err := wire.DecodeAnswer(a.body, &v); err != nil {
		t.fail("%s: expected an answer that can be read, got %v", a.what, err)
	}
	return v
}
