package transcript

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrTorn says that the last line has no end: whoever wrote it was interrupted.
var ErrTorn = errors.New("the transcript ends within a line")

// Reader reads a transcript and takes nothing on trust: every line is whole and well-formed or empty, and no number is missing that
// no Note accounts for. Errors match ErrMalformed, ErrTorn or are the stream's.
type Reader struct {
	r      *bufio.Reader
	line   int
	header Header
	last   uint64
	err    error
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	t := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	line, err := t.next(maxHeaderBytes)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: expected a header, found nothing", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	first := uint64(0)
	if t.header, first, err = parseHeader(line); err != nil {
		return nil, err
	}
	t.last = first - 1
	return t, nil
}

// Header is the transcript's.
func (t *Reader) Header() Header { return t.header }

// Next returns the next entry, io.EOF after the last. After an error there is nothing but that error.
func (t *Reader) Next() (Entry, error) {
	if t.err != nil {
		return Entry{}, t.err
	}
	var e Entry
	e, t.err = t.entry()
	return e, t.err
}

func (t *Reader) entry() (Entry, error) {
	var line []byte
	for len(line) == 0 { // an empty one is a sign of life of whoever sends it
		var err error
		if line, err = t.next(MaxFrameBytes + lineRoom); err != nil {
			return Entry{}, err
		}
	}
	e, err := parseEntry(line)
	if err != nil {
		return Entry{}, fmt.Errorf("line %d: %w", t.line, err)
	}
	if e.Seq <= t.last || e.Seq-t.last != e.Stands() {
		return Entry{}, fmt.Errorf("line %d: %w: entry: seq: expected %d, got %d", t.line, ErrMalformed, t.last+1, e.Seq)
	}
	t.last = e.Seq
	return e, nil
}

func (t *Reader) next(limit int) ([]byte, error) {
	t.line++
	line, err := readLine(t.r, limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: %w", t.line, err)
	}
	return line, err
}

// readLine reads a line without its newline, in memory of its own. Beyond limit it reads on to the line's end and returns
// ErrMalformed. io.EOF means that there was nothing more, ErrTorn that there was no newline.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if whole := err == nil; whole {
			part = part[:len(part)-1]
		}
		if tooLong = tooLong || len(line)+len(part) > limit; !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0 && len(part) == 0 && !tooLong:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, ErrTorn
		case err != nil:
			return nil, fmt.Errorf("read a transcript: %w", err)
		case tooLong:
			return nil, fmt.Errorf("%w: expected lines of at most %d bytes", ErrMalformed, limit)
		default:
			return line, nil
		}
	}
}
