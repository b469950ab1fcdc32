package endpoint

import (
	"bufio"
	"net"
	"net/http"
	"sync"
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

	mu   sync.Mutex
	held *[]byte // what is to be written with what comes next; nil: nothing is held
	left int     // how many bytes are written until it is
}

// heldPieces are buffers for what lines hold.
var heldPieces = sync.Pool{New: func() any { b := make([]byte, 0, pieceBytes); return &b }}

// hold has what is written wait for the write with which it is at least so many bytes more, as far as one piece has room for it. That write
// writes all, and nothing is held any more: who caused it has the error.
func (l *line) hold(left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left = left; l.held == nil {
		l.held = heldPieces.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has nothing else
	}
}

// release writes what was held, for want of more. The error is that of Write.
func (l *line) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return nil
	}
	defer l.free()
	return l.empty()
}

// free holds nothing any more; the lock is held.
func (l *line) free() {
	*l.held = (*l.held)[:0]
	heldPieces.Put(l.held)
	l.held = nil
}

// empty writes what is held; the lock is held, too.
func (l *line) empty() error {
	if len(*l.held) == 0 {
		return nil
	}
	_, err := l.write(*l.held)
	*l.held = (*l.held)[:0]
	return err
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.reads.Add(1)
	}
	return n, err //nolint:wrapcheck // a connection's own error
}

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return l.write(p)
	}
	l.left -= len(p)
	last := l.left <= 0
	if last {
		defer l.free()
	}
	if len(*l.held)+len(p) > pieceBytes {
		if err := l.empty(); err != nil {
			return 0, err
		}
		if len(p) > pieceBytes {
			return l.write(p)
		}
	}
	*l.held = append(*l.held, p...)
	if last {
		if err := l.empty(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (l *line) write(p []byte) (int, error) {
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
