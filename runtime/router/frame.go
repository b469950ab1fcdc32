package router

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"strconv"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// methodCancelRequest is known to both sides.
const methodCancelRequest = "$/cancel_request"

// Codes of JSON-RPC 2.0, section 5.1.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInternal       = -32603
	codeCancelled      = -32800 // the Agent Client Protocol's own
)

// Lenient reads what agents write: names are case-sensitive, but bad UTF-8 inside of text is the text's problem.
var Lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// peeked is what can be told of a message from its beginning.
type peeked struct {
	id      jsontext.Value
	method  bool
	session string
}

// peek reads the beginning of a message that was too long to keep.
func peek(beginning []byte) peeked {
	var p peeked
	d := jsontext.NewDecoder(bytes.NewReader(beginning), Lenient)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return p
	}
	inParams := false
	for {
		name, err := d.ReadToken()
		if err != nil {
			return p
		}
		if name.Kind() == '}' {
			inParams = false
			continue
		}
		at := name.String()
		if at == "params" && !inParams && d.PeekKind() == '{' {
			inParams = true
			if _, err := d.ReadToken(); err != nil {
				return p
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return p
		}
		switch {
		case inParams && at == "sessionId":
			_ = json.Unmarshal(value, &p.session, Lenient)
		case !inParams && at == "id":
			p.id = value.Clone()
		case !inParams && at == "method":
			p.method = true
		}
	}
}

// message builds one line. The parts are written as they are: an id must not change by as much as an escape.
func message(id jsontext.Value, parts ...any) ([]byte, error) {
	b := []byte(`{"jsonrpc":"2.0"`)
	if id != nil {
		b = append(append(b, `,"id":`...), id...)
	}
	for i := 0; i+1 < len(parts); i += 2 {
		value, err := stdjson.Marshal(parts[i+1])
		if err != nil {
			return nil, fmt.Errorf("encode %v: %w", parts[i], err)
		}
		b = append(b, fmt.Sprintf(",%q:", parts[i])...)
		b = append(b, value...)
	}
	return append(b, '}', '\n'), nil
}

func request(id uint64, method string, params any) ([]byte, error) {
	return message(strconv.AppendUint(nil, id, 10), "method", method, "params", params)
}

func failure(id jsontext.Value, code int, why string) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	b, _ := message(id, "error", acp.RequestError{Code: code, Message: why}) // cannot fail: a number and a string
	return b
}

// What of an agent's error becomes its text: errors are logged.
const (
	maxDetail  = 1 << 10
	maxMessage = 8 << 10
)

// RPCError is an error that the agent answered a request with.
type RPCError struct {
	Code    int
	Message string
}

// Error is the agent's text and its code.
func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

func rpcError(raw jsontext.Value) error {
	var e struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(raw, &e, Lenient); err != nil {
		return &RPCError{Message: "an error without code and message"}
	}
	e.Message = wire.CutText(e.Message, maxMessage)
	if d := e.Data; len(d) > 0 && d.Kind() != 'n' && len(d) <= maxDetail {
		e.Message += ": " + string(d)
	}
	return &RPCError{Code: e.Code, Message: e.Message}
}
