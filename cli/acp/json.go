// Package acp reads messages of the Agent Client Protocol as they are written, without believing what they hold.
package acp

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Lenient takes what strangers write: the endpoint judges it, not this.
var Lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Each yields the members of an object, as they are written, until yield says no. It tells whether all was an object that far.
func Each(object jsontext.Value, yield func(name string, value jsontext.Value) bool) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), Lenient...)
	if d.PeekKind() != '{' {
		return false
	}
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return false
		}
		at := int(d.InputOffset())
		if !yield(name, object[at-len(value):at]) {
			return true
		}
	}
	_, err := d.ReadToken()
	return err == nil
}

// Member is one member of an object, nil when there is none or when it is no object.
func Member(object jsontext.Value, path ...string) jsontext.Value {
	for _, name := range path {
		var found jsontext.Value
		Each(object, func(n string, value jsontext.Value) bool {
			if n == name {
				found = value
			}
			return n != name
		})
		object = found
	}
	return object
}

// Text is a JSON string's content.
func Text(value jsontext.Value) (string, error) {
	if value.Kind() != '"' {
		return "", fmt.Errorf("expected a string, got %s", value.Kind())
	}
	content, err := jsontext.AppendUnquote(nil, value)
	return string(content), err
}

// Elements are an array's, as they are written, up to a number of them.
func Elements(array jsontext.Value, limit int) []jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewBuffer(array), Lenient...)
	if d.PeekKind() != '[' {
		return nil
	}
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	var out []jsontext.Value
	for k := d.PeekKind(); k != ']' && k != 0 && len(out) < limit; k = d.PeekKind() {
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		at := int(d.InputOffset())
		out = append(out, array[at-len(value):at])
	}
	return out
}

// Quoted is a text as a JSON string.
func Quoted(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // only of what is no UTF-8, of which it made what is
		return jsontext.Value(strconv.Quote(""))
	}
	return b
}
