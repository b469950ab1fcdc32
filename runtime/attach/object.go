package attach

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
)

// object is a JSON object; in what is made of it, members that are not changed stay as they were written, in their order. It is never
// changed itself.
type object []member

type member struct {
	name  string
	value jsontext.Value
}

// readObject reads one; of anything else it is empty.
func readObject(raw jsontext.Value) object {
	d := jsontext.NewDecoder(bytes.NewReader(raw), router.Lenient)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	var o object
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		o = append(o, member{text, value.Clone()})
	}
	return o
}

func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set is the object with a member replaced or added.
func (o object) set(name string, value []byte) object {
	o = slices.Clone(o)
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

// without is the object less one member.
func (o object) without(name string) object {
	var rest object
	for _, m := range o {
		if m.name != name {
			rest = append(rest, m)
		}
	}
	return rest
}

// with is the object with a member of a member set that is an object, and made if need be.
func (o object) with(outer, inner string, value []byte) object {
	return o.set(outer, readObject(o.get(outer)).set(inner, value).encode())
}

func (o object) encode() []byte {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, encode(m.name)...)
		b = append(append(b, ':'), m.value...)
	}
	return append(b, '}')
}

// text is the string that a value is, or "".
func text(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, value) // bad UTF-8 is replaced
	return string(s)
}
