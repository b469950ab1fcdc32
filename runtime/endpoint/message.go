package endpoint

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// errBatch: a JSON-RPC batch, which the protocol has none of.
var errBatch = errors.New("the message is an array: expected one JSON-RPC message, because there are no batches")

// message is what a transport has to know of a JSON-RPC message; whoever it is for reads the rest.
type message struct {
	method  string
	session string // params.sessionId
	id      bool   // it has one that is not null
}

// parseMessage reads that from a client's message, which must be one whole JSON object of UTF-8 without a name given twice.
func parseMessage(body []byte) (message, error) {
	var m message
	if !jsontext.Value(body).IsValid() {
		return m, errors.New("the message is no JSON: expected one JSON-RPC message")
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	switch d.PeekKind() {
	case '[':
		return m, errBatch
	case '{':
	default:
		return m, errors.New("the message is no JSON object: expected one JSON-RPC message")
	}
	err := members(d, func(name string) error {
		switch name {
		case "method":
			return text(d, &m.method)
		case "id":
			m.id = d.PeekKind() != 'n'
		case "params":
			if d.PeekKind() == '{' {
				return members(d, func(name string) error {
					if name == "sessionId" {
						return text(d, &m.session)
					}
					return d.SkipValue()
				})
			}
		}
		return d.SkipValue()
	})
	if err != nil {
		return message{}, fmt.Errorf("the message: %w", err)
	}
	return m, nil
}

// members calls each with the name of every member of the object that comes next; each reads the value.
func members(d *jsontext.Decoder, each func(name string) error) error {
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	for {
		token, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if token.Kind() == '}' {
			return nil
		}
		if err := each(token.String()); err != nil {
			return err
		}
	}
}

// text reads a value that should be a string; another is for whoever reads the rest to refuse.
func text(d *jsontext.Decoder, into *string) error {
	if d.PeekKind() != '"' {
		return d.SkipValue() //nolint:wrapcheck // members says what it was about
	}
	token, err := d.ReadToken()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	*into = token.String()
	return nil
}
