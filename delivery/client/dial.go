package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

var (
	errClosed      = errors.New("the link is closed")
	errBootChanged = errors.New("the harness restarted")
	errCapacity    = errors.New("the capacity that the harness tells is not of numbers from 0 to 2147483647")
	errNotVerified = errors.New("the Pod was not challenged successfully yet")
)

// refusal is an answer to the challenge, proven to be the target's, that is not 200.
type refusal struct{ *wire.Problem }

// dial opens a connection and has its far end prove to be the Pod before a byte of anything else goes over it. A Pod's address
// may belong to a stranger by the time a second connection is made, so every connection is challenged, not only the first
// (R26; row 27; SPEC.md, Challenge).
func (l *Link) dial(ctx context.Context) (_ *line, _ wire.ChallengeAnswer, err error) {
	defer l.caught(&err) // it is called by net/http's goroutines too
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeouts.Dial)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)() //nolint:contextcheck // the life of the Link ends the dial too

	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Address())
	if err != nil {
		return nil, wire.ChallengeAnswer{}, fmt.Errorf("connect: %w", err)
	}
	tracked, err := l.track(raw)
	if err != nil {
		return nil, wire.ChallengeAnswer{}, err
	}
	conn, err := l.secure(ctx, tracked)
	if err != nil {
		_ = tracked.Close() // the error that matters is err
		return nil, wire.ChallengeAnswer{}, err
	}
	n := newLine(conn)
	answer, err := l.prove(ctx, n)
	if err != nil {
		_ = conn.Close() // the error that matters is err
		return nil, wire.ChallengeAnswer{}, err
	}
	return n, answer, nil
}

// dialAgain opens another connection to the boot that is believed in. A harness that restarted since is not given a request that was
// signed for its earlier life.
func (l *Link) dialAgain(ctx context.Context, boot string) (*line, error) {
	n, answer, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	if answer.Boot != boot {
		_ = n.Close()
		return nil, errBootChanged
	}
	return n, nil
}

// prove challenges over a connection that nothing else was sent on, and leaves it ready for the next request.
func (l *Link) prove(ctx context.Context, n *line) (wire.ChallengeAnswer, error) {
	body, err := wire.Encode(wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: l.target()})
	if err != nil {
		return wire.ChallengeAnswer{}, err
	}
	r, err := l.over(ctx, n, call{method: http.MethodPost, path: wire.ChallengePath, body: body}, "")
	if err != nil {
		return wire.ChallengeAnswer{}, fmt.Errorf("challenge: %w", err)
	}
	if r.status != http.StatusOK {
		return wire.ChallengeAnswer{}, refusal{r.problem()}
	}
	if n.over {
		return wire.ChallengeAnswer{}, errors.New("challenge: the connection cannot be used any further")
	}
	return l.believe(r)
}

// believe reads a verified answer to the challenge.
func (l *Link) believe(r reply) (wire.ChallengeAnswer, error) {
	var a wire.ChallengeAnswer
	if err := wire.DecodeAnswer(r.body, &a); err != nil {
		return a, err
	}
	switch {
	case a.Identity != l.cfg.Target:
		return a, refusal{wire.NewProblem(wire.CodeMisdirected, "the harness says that it is another Pod")}
	case !slices.Contains(a.Versions, wire.APIVersion):
		return a, refusal{wire.NewProblem(wire.CodeUnsupportedVersion, "the harness does not serve "+wire.APIVersion)}
	case a.Boot == "" || len(a.Boot) > wire.MaxUIDBytes || a.Journal == "" || len(a.Journal) > wire.MaxUIDBytes:
		return a, fmt.Errorf("challenge: the answer has no boot or journal of 1 to %d bytes", wire.MaxUIDBytes)
	case !a.Capacity.Valid():
		return a, fmt.Errorf("challenge: %w", errCapacity)
	}
	return a, nil
}

// withoutBytes keeps a stranger's bytes out of messages and logs: net/http quotes what it could not read.
func withoutBytes(err error) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	default:
		return errors.New("malformed response")
	}
}

// proven is the transport's DialContext. The harness has said no more than the answer to the challenge, so nothing is lost with the line.
func (l *Link) proven(ctx context.Context, _, _ string) (net.Conn, error) {
	boot := l.believed()
	if boot == "" {
		return nil, errNotVerified
	}
	n, err := l.dialAgain(ctx, boot)
	if err != nil {
		return nil, err
	}
	return n.Conn, nil
}

// conn is a connection that its Link can close.
type conn struct {
	net.Conn
	link *Link
}

// Close takes the connection out of the Link's book.
func (c *conn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

func (l *Link) track(raw net.Conn) (net.Conn, error) {
	c := &conn{Conn: raw, link: l}
	l.mu.Lock()
	closed := l.ctx.Err() != nil
	if !closed {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		_ = raw.Close()
		return nil, errClosed
	}
	return c, nil
}

// drop closes every connection: whoever is at their far end proves itself again.
func (l *Link) drop() {
	l.mu.Lock()
	open := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}
