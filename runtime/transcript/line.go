package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxFrameBytes bounds a frame as it is kept; in place of a longer one there is a Note (SPEC.md, Transcripts).
	MaxFrameBytes = 64 << 20
	// maxHeaderBytes bounds a header's line.
	maxHeaderBytes = 64 << 10
	// lineRoom is what an entry's line has around its frame, at most.
	lineRoom = 256
)

// ErrMalformed says that a line is none of a transcript's.
var ErrMalformed = errors.New("malformed transcript")

// lax is how frames are read: whatever JSON's grammar allows may have been said.
var lax = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// headerLine is a header as it is written. Each part of a transcript begins with one.
type headerLine struct {
	Hearth string `json:"hearth"`
	Header
	First uint64 `json:"first"` // the number that the next entry has, if none is missing
}

// AppendHeader appends the header's line; first is the number of the entry that comes next.
func AppendHeader(dst []byte, h Header, first uint64) ([]byte, error) {
	line, err := json.Marshal(headerLine{Hearth: Format, Header: h, First: max(first, 1)})
	if err != nil {
		return dst, fmt.Errorf("header of a transcript: %w", err)
	}
	if len(line) >= maxHeaderBytes {
		return dst, fmt.Errorf("header of a transcript: expected fewer than %d bytes, got %d", maxHeaderBytes, len(line))
	}
	return append(append(dst, line...), '\n'), nil
}

// parseHeader reads a header's line, without its newline.
func parseHeader(line []byte) (Header, uint64, error) {
	var h headerLine
	if err := json.Unmarshal(line, &h, json.RejectUnknownMembers(true)); err != nil {
		return Header{}, 0, fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	if h.Hearth != Format || h.First == 0 {
		return Header{}, 0, fmt.Errorf("%w: header: expected one of %s with the number of its first entry", ErrMalformed, Format)
	}
	return h.Header, h.First, nil
}

const beforeSeq, beforeTime, beforeDirection, beforeFrame = `{"seq":`, `,"time":"`, `","dir":"`, `","frame":`

// AppendEntry appends the entry's line. Its frame must be JSON on one line, as Append and Read return it.
func AppendEntry(dst []byte, e Entry) []byte {
	dst = strconv.AppendUint(append(dst, beforeSeq...), e.Seq, 10)
	dst = e.Time.UTC().AppendFormat(append(dst, beforeTime...), time.RFC3339Nano)
	dst = append(append(dst, beforeDirection...), e.Direction...)
	dst = append(append(dst, beforeFrame...), e.Frame...)
	return append(dst, "}\n"...)
}

// seqOf reads only the number of a line that AppendEntry wrote.
func seqOf(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(beforeSeq))
	digits, _, found := bytes.Cut(rest[:min(len(rest), 21)], []byte(","))
	if !ok || !found {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	return n, err == nil
}

// parseEntry reads an entry's line, without its newline: exactly its four members, once each. The frame shares the line's bytes.
func parseEntry(line []byte) (Entry, error) {
	if e, ok := asWritten(line); ok {
		return e, nil
	}
	return parseAny(line)
}

// asWritten reads a line as AppendEntry writes it, several times as fast as parseAny does.
func asWritten(line []byte) (e Entry, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(beforeSeq))
	seq, rest, ok2 := bytes.Cut(rest, []byte(beforeTime))
	at, rest, ok3 := bytes.Cut(rest, []byte(beforeDirection))
	direction, rest, ok4 := bytes.Cut(rest, []byte(beforeFrame))
	frame, ok5 := bytes.CutSuffix(rest, []byte("}"))
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 || len(seq) == 0 || seq[0] == '0' {
		return e, false
	}
	var err error
	if e.Seq, err = strconv.ParseUint(string(seq), 10, 64); err != nil || e.Time.UnmarshalText(at) != nil {
		return e, false
	}
	if string(e.Time.UTC().AppendFormat(nil, time.RFC3339Nano)) != string(at) { // UnmarshalText is not as strict as JSON's
		return e, false
	}
	switch d := Direction(direction); d {
	case ToAgent, FromAgent, Note:
		e.Direction = d
	default:
		return e, false
	}
	e.Frame = frame[:len(frame):len(frame)]
	return e, e.Frame.IsValid(lax)
}

// parseAny reads an entry's line, whatever the order of its members and the space between them.
func parseAny(line []byte) (Entry, error) {
	var e Entry
	d := jsontext.NewDecoder(bytes.NewBuffer(line), lax)
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return e, fmt.Errorf("%w: expected an entry, which is an object", ErrMalformed)
	}
	seen := 0
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return e, fmt.Errorf("%w: entry: %w", ErrMalformed, err)
		}
		member := name.String()
		bit, err := e.read(member, line, d)
		if err == nil && seen&bit != 0 {
			err = errors.New("is there twice")
		}
		if err != nil {
			return e, fmt.Errorf("%w: entry: %.16q: %w", ErrMalformed, member, err)
		}
		seen |= bit
	}
	if _, err := d.ReadToken(); err != nil {
		return e, fmt.Errorf("%w: entry: %w", ErrMalformed, err)
	}
	switch {
	case len(bytes.TrimSpace(line[d.InputOffset():])) > 0:
		return e, fmt.Errorf("%w: expected one entry on a line", ErrMalformed)
	case seen != 1|2|4|8:
		return e, fmt.Errorf("%w: entry: expected seq, time, dir and frame", ErrMalformed)
	case e.Seq == 0:
		return e, fmt.Errorf("%w: entry: seq: expected a number from 1", ErrMalformed)
	case e.Direction != ToAgent && e.Direction != FromAgent && e.Direction != Note:
		return e, fmt.Errorf("%w: entry: dir: expected %s, %s or %s, got %.16q", ErrMalformed, ToAgent, FromAgent, Note, e.Direction)
	}
	return e, nil
}

// read reads one member's value and tells which member it was.
func (e *Entry) read(member string, line []byte, d *jsontext.Decoder) (bit int, err error) {
	switch member {
	case "seq":
		return 1, json.UnmarshalDecode(d, &e.Seq)
	case "time":
		return 2, json.UnmarshalDecode(d, &e.Time)
	case "dir":
		return 4, json.UnmarshalDecode(d, &e.Direction)
	case "frame":
		value, err := d.ReadValue()
		end := d.InputOffset()
		e.Frame = line[end-int64(len(value)) : end : end]
		return 8, err
	default:
		return 0, errors.New("expected seq, time, dir or frame")
	}
}
