package connect

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// frame is one JSON-RPC message, of which only the outside is looked at: what it holds passes as it is.
type frame struct {
	data   []byte
	id     jsontext.Value // as it is written; nil when there is none
	idAt   int            // where in data it begins
	method string
	params jsontext.Value
	result jsontext.Value
	failed bool // an answer that is an error
}

var (
	errNotJSON = errors.New("expected one JSON-RPC message a line")
	errBatch   = errors.New("expected one JSON-RPC message, not a batch: the Agent Client Protocol has none")
)

// scan reads the outside of a message. The error is errNotJSON or errBatch.
func scan(data []byte) (frame, error) {
	f := frame{data: data}
	d := jsontext.NewDecoder(bytes.NewReader(data), acp.Lenient...)
	switch d.PeekKind() {
	case '{':
	case '[':
		return f, errBatch
	default:
		return f, errNotJSON
	}
	if _, err := d.ReadToken(); err != nil {
		return f, errNotJSON
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return f, errNotJSON
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return f, errNotJSON
		}
		at := int(d.InputOffset()) - len(value)
		switch key {
		case "id":
			f.id, f.idAt = value.Clone(), at
		case "method":
			if f.method, err = acp.Text(value); err != nil {
				return f, errNotJSON
			}
		case "params":
			f.params = data[at : at+len(value)]
		case "result":
			f.result = data[at : at+len(value)]
		case "error":
			f.failed = true
		}
	}
	if _, err := d.ReadToken(); err != nil || d.PeekKind() != 0 {
		return f, errNotJSON
	}
	return f, nil
}

func (f frame) request() bool      { return f.method != "" && f.id != nil }
func (f frame) notification() bool { return f.method != "" && f.id == nil }
func (f frame) response() bool     { return f.method == "" && f.id != nil }

// withID is the message with another id and not another byte changed.
func (f frame) withID(id jsontext.Value) []byte {
	out := make([]byte, 0, len(f.data)-len(f.id)+len(id))
	out = append(out, f.data[:f.idAt]...)
	out = append(out, id...)
	return append(out, f.data[f.idAt+len(f.id):]...)
}

// session is the session that a message belongs to, "" for none.
func (f frame) session() string {
	if f.params == nil {
		return ""
	}
	id, err := acp.Text(acp.Member(f.params, "sessionId"))
	if err != nil {
		return ""
	}
	return id
}

// failure is an error answer.
func failure(id jsontext.Value, code int, message string) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, acp.Quoted(message))
}

func request(id jsontext.Value, method string, params jsontext.Value) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, acp.Quoted(method), params)
}
