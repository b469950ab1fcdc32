package endpoint

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// pieceBytes is what a client has to take within the stall timeout: a message may be long and a line slow.
const pieceBytes = 64 << 10

// line is a connection on which a reader that stands still is told from one that is slow.
type line struct {
	net.Conn
	now     func() time.Time
	stall   time.Duration
	reads   atomic.Int64 // how often something came
	writing atomic.Bool
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.reads.Add(1)
	}
	return n, err //nolint:wrapcheck // a connection's own error
}

func (l *line) Write(p []byte) (int, error) {
	l.writing.Store(true)
	defer l.writing.Store(false)
	written := 0
	for {
		piece := p[written:min(len(p), written+pieceBytes)]
		if err := l.SetWriteDeadline(l.now().Add(l.stall)); err != nil {
			return written, err //nolint:wrapcheck // a connection's own error
		}
		n, err := l.Conn.Write(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err //nolint:wrapcheck // a connection's own error
		}
	}
}

// takeover is a ResponseWriter whose connection becomes a line when it is hijacked.
type takeover struct {
	http.ResponseWriter
	line *line
}

// Hijack implements http.Hijacker.
func (t *takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // websocket.Accept says what it was about
	}
	t.line.Conn = conn
	buffered.Writer.Reset(t.line)
	return t.line, buffered, nil
}
