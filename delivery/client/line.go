package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// line is a connection with one request under way at a time, which is written and read by whoever makes it. An http.Transport would have
// two goroutines and twice the memory for each; most Links only ever wait for their feed (docs/performance.md, P7).
type line struct {
	net.Conn
	left *io.LimitedReader
	in   *bufio.Reader
	over bool // nothing more can be asked on it
}

// lineBuffer holds an answer's head at once; a body is read past it.
const lineBuffer = 1 << 10

func newLine(conn net.Conn) *line {
	left := &io.LimitedReader{R: conn}
	return &line{Conn: conn, left: left, in: bufio.NewReaderSize(left, lineBuffer)}
}

// over carries out one call on a line and believes its answer only if it is the target's. After an error the line is of no use. It is
// neither where the far end says so, nor where it said more than one answer.
func (l *Link) over(ctx context.Context, n *line, c call, boot string) (reply, error) {
	req, signed, err := l.request(ctx, c, boot)
	if err != nil {
		return reply{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = n.SetDeadline(time.Unix(1, 0)) })()
	n.left.N = maxHeaderBytes
	if err := req.Write(n.Conn); err != nil {
		return reply{}, fmt.Errorf("send: %w", quiet(err))
	}
	resp, err := http.ReadResponse(n.in, req)
	if err != nil {
		return reply{}, fmt.Errorf("no answer in HTTP: %w", withoutBytes(err))
	}
	defer func() { _ = resp.Body.Close() }()
	n.left.N += wire.MaxAnswerBytes
	r, err := l.verified(signed, resp)
	if err != nil {
		return reply{}, err
	}
	n.over = resp.Close || n.in.Buffered() > 0
	if err := ctx.Err(); err != nil {
		return reply{}, fmt.Errorf("answer: %w", err)
	}
	return r, nil
}
