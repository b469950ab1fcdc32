package router

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine bounds one message of the agent, in bytes without the newline (SPEC.md, Harness).
const MaxLine = 64 << 20

// keptBuffer is how long a line's buffer may be to be used again: huge lines are rare.
const keptBuffer = 1 << 20

// beginningBytes is how much is kept of a longer message, to tell whose it was.
const beginningBytes = 4 << 10

// ErrLineTooLong says that a message of more than MaxLine bytes was skipped.
var ErrLineTooLong = errors.New("the agent sent a message of more than 64 MiB")

// lines reads lines of a bounded length and skips longer ones.
type lines struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line without its newline; it is valid until the call after, or for good if it has more than keptBuffer
// bytes. Of a line that is too long it returns the
// beginning and ErrLineTooLong. What the stream ends with, without a newline, is returned as a line.
func (l *lines) next() ([]byte, error) {
	if cap(l.buf) > keptBuffer {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		whole := err == nil
		if whole {
			part = part[:len(part)-1]
		}
		switch {
		case tooLong:
		case len(l.buf)+len(part) > l.max:
			tooLong = true
			l.buf = append(l.buf, part...)
			l.buf = append([]byte(nil), l.buf[:min(len(l.buf), beginningBytes)]...)
		default:
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case !whole && (len(l.buf) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case tooLong:
			return l.buf, ErrLineTooLong
		default:
			return l.buf, nil
		}
	}
}

// more tells whether next has a whole line without another read.
func (l *lines) more() bool {
	waiting, _ := l.r.Peek(l.r.Buffered()) // cannot fail
	return bytes.IndexByte(waiting, '\n') >= 0
}

func trim(line []byte) []byte { return bytes.TrimLeft(bytes.TrimRight(line, "\r \t"), " \t") }
