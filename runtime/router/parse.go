package router

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// part is where a value stands in a message; the zero part is none.
type part struct{ from, to int }

func (p part) of(raw []byte) jsontext.Value {
	if p.to == 0 {
		return nil
	}
	return raw[p.from:p.to:p.to]
}

// Frame is one JSON-RPC message as it was written, and where its parts are. Nothing of it may be changed.
type Frame struct {
	Raw    []byte
	Method string // "" for an answer
	// Session is params.sessionId of a request or notification and result.sessionId of an answer; "" where there is none.
	Session string

	id, params, result, failed, session part
}

// ID is as it was written; nil where there is none.
func (f *Frame) ID() jsontext.Value { return f.id.of(f.Raw) }

// Params is as it was written; nil where there is none.
func (f *Frame) Params() jsontext.Value { return f.params.of(f.Raw) }

// Result is as it was written; nil where there is none, or an error.
func (f *Frame) Result() jsontext.Value {
	if f.Error() != nil {
		return nil
	}
	return f.result.of(f.Raw)
}

// Error is the error object as it was written; nil where there is none.
func (f *Frame) Error() jsontext.Value {
	if v := f.failed.of(f.Raw); v != nil && v.Kind() != 'n' {
		return v
	}
	return nil
}

// Malformed says why bytes are no message, with the code of JSON-RPC 2.0 that answers them.
type Malformed struct {
	Code int
	Why  string
}

func (m *Malformed) Error() string { return m.Why }

// Strict reads what clients write: also, no member may be named like one of a message's own in another case, because agents that do not
// look at the case would take it for that.
var Strict = jsontext.AllowDuplicateNames(true) // outside of a message's own members they are the agent's business

// scanners are reused: a message costs no decoder.
var scanners = sync.Pool{New: func() any { return &scanner{d: jsontext.NewDecoder(new(bytes.Buffer))} }}

type scanner struct {
	d   *jsontext.Decoder
	raw []byte
	f   Frame
	bad *Malformed // the first thing that makes JSON no message

	strict bool
}

// Parse reads one message; raw is kept. A member that is named twice makes it none: whoever reads it next might take the other.
func Parse(raw []byte, options jsontext.Options) (Frame, *Malformed) {
	s := scanners.Get().(*scanner) //nolint:errcheck,forcetypeassert // the pool has nothing else
	defer scanners.Put(s)
	s.raw, s.f, s.bad, s.strict = raw, Frame{Raw: raw}, nil, options == Strict
	s.d.Reset(bytes.NewBuffer(raw), options)
	defer func() { s.raw, s.f = nil, Frame{} }()
	if s.d.PeekKind() == '[' {
		return s.f, &Malformed{codeInvalidRequest, "batches are not part of the protocol"}
	}
	if err := s.message(); err != nil {
		return s.f, &Malformed{codeParse, "not JSON"}
	}
	if s.bad == nil {
		s.check()
	}
	return s.f, s.bad
}

func (s *scanner) check() {
	f := &s.f
	switch k := f.ID().Kind(); {
	case f.id.to != 0 && k != '"' && k != '0' && k != 'n':
		s.wrong("id: expected a string, a number or null")
	case f.Method == "" && (f.id.to == 0 || f.result.to == 0 && f.failed.to == 0):
		s.wrong("neither a request nor an answer")
	}
}

func (s *scanner) wrong(why string) {
	if s.bad == nil {
		s.bad = &Malformed{codeInvalidRequest, why}
	}
}

// message reads the whole text, so that what is no JSON is told from what is no message.
func (s *scanner) message() error {
	if s.d.PeekKind() != '{' {
		s.wrong("not a JSON-RPC message")
		if err := s.d.SkipValue(); err != nil {
			return err
		}
		return s.end()
	}
	if _, err := s.d.ReadToken(); err != nil {
		return err
	}
	for s.d.PeekKind() != '}' {
		name, err := s.d.ReadToken()
		if err != nil {
			return err
		}
		if err := s.member(name.String()); err != nil {
			return err
		}
	}
	if _, err := s.d.ReadToken(); err != nil {
		return err
	}
	return s.end()
}

func (s *scanner) end() error {
	_, err := s.d.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("more than one value")
	}
	return err
}

func (s *scanner) member(name string) error {
	f := &s.f
	switch name {
	case "id":
		return s.value(&f.id, name)
	case "method":
		var method part
		again := f.Method != ""
		if err := s.value(&method, name); err != nil {
			return err
		}
		if again || method.of(s.raw).Kind() != '"' || json.Unmarshal(method.of(s.raw), &f.Method, Lenient) != nil || f.Method == "" {
			s.wrong("method: expected one string")
		}
	case "params":
		return s.object(&f.params, name)
	case "result":
		return s.object(&f.result, name)
	case "error":
		return s.value(&f.failed, name)
	default:
		s.unlike(name, "jsonrpc", "id", "method", "params", "result", "error")
		return s.d.SkipValue()
	}
	return nil
}

// unlike refuses a client's member that is not one of these by its case only.
func (s *scanner) unlike(name string, members ...string) {
	for _, m := range members {
		if s.strict && name != m && strings.EqualFold(name, m) {
			s.wrong(m + ": expected no other member of that name, in any case")
		}
	}
}

func (s *scanner) value(p *part, name string) error {
	v, err := s.d.ReadValue()
	if err != nil {
		return err
	}
	if p.to != 0 {
		s.wrong(name + ": expected it once")
	}
	p.to = int(s.d.InputOffset())
	p.from = p.to - len(v)
	return nil
}

// object reads a value and, of an object, finds sessionId on the way.
func (s *scanner) object(p *part, name string) error {
	if s.d.PeekKind() != '{' {
		return s.value(p, name)
	}
	if p.to != 0 {
		s.wrong(name + ": expected it once")
	}
	if _, err := s.d.ReadToken(); err != nil {
		return err
	}
	from := int(s.d.InputOffset()) - 1
	for s.d.PeekKind() != '}' {
		member, err := s.d.ReadToken()
		if err != nil {
			return err
		}
		if text := member.String(); text != "sessionId" {
			s.unlike(text, "sessionId")
			if err := s.d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := s.value(&s.f.session, name+".sessionId"); err != nil {
			return err
		}
		if v := s.f.session.of(s.raw); v.Kind() != '"' || json.Unmarshal(v, &s.f.Session, Lenient) != nil {
			s.f.session, s.f.Session = part{}, "" // the agent says what it thinks of that
		}
	}
	if _, err := s.d.ReadToken(); err != nil {
		return err
	}
	*p = part{from, int(s.d.InputOffset())}
	return nil
}

// replace returns the message with other bytes in the place of a part; every other byte stays.
func (f *Frame) replace(p part, with []byte) []byte {
	b := make([]byte, 0, len(f.Raw)-(p.to-p.from)+len(with)+1) // room for a newline
	b = append(b, f.Raw[:p.from]...)
	b = append(b, with...)
	return append(b, f.Raw[p.to:]...)
}

// WithID is the message with another id; every other byte stays. It must have one.
func (f *Frame) WithID(id []byte) []byte { return f.replace(f.id, id) }

// WithParams is the message with other params.
func (f *Frame) WithParams(params []byte) []byte { return f.replace(f.params, params) }

// WithResult is the message with another result.
func (f *Frame) WithResult(result []byte) []byte { return f.replace(f.result, result) }

// prefixed is the frame with its session's id made unique among several agents.
func (f Frame) prefixed(prefix string, options jsontext.Options) Frame {
	if prefix == "" || f.session.to == 0 {
		return f
	}
	at := part{f.session.from + 1, f.session.from + 1}
	g, _ := Parse(f.replace(at, []byte(prefix)), options) // a longer string makes no message another one
	return g
}

// stripped is the message with the session's id that the agent knows.
func (f *Frame) stripped(prefix string) []byte {
	if prefix == "" || f.session.to == 0 || len(f.Session) < len(prefix) || f.Session[:len(prefix)] != prefix {
		return f.Raw
	}
	from := f.session.from + 1
	if bytes.HasPrefix(f.Raw[from:f.session.to], []byte(prefix)) {
		return f.replace(part{from, from + len(prefix)}, nil)
	}
	quoted, err := jsontext.AppendQuote(nil, f.Session[len(prefix):]) // a client may write any character as \u0030
	if err != nil {
		return f.Raw
	}
	return f.replace(f.session, quoted)
}

func idText(id uint64) []byte { return strconv.AppendUint(nil, id, 10) }
