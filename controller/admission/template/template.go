// Package template fills an Agent's goalTemplate (SPEC.md, Resources). It is pure and knows no Kubernetes.
package template

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	open    = "${"
	escaped = "$${"
)

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Template is a parsed goalTemplate.
type Template struct{ parts []part }

// part is a literal, or the parameter whose value stands there.
type part struct{ literal, name string }

// Parse reads a goalTemplate (SPEC.md, Resources): ${name} stands for a parameter's value, $${ for the characters ${.
// Every other text stands for itself. An unclosed or badly named placeholder is an error.
func Parse(text string) (Template, error) {
	var t Template
	literal := strings.Builder{}
	for rest := text; rest != ""; {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			literal.WriteString(rest)
			break
		}
		literal.WriteString(rest[:at])
		rest = rest[at:]
		switch {
		case strings.HasPrefix(rest, escaped):
			literal.WriteString(open)
			rest = rest[len(escaped):]
		case strings.HasPrefix(rest, open):
			name, after, closed := strings.Cut(rest[len(open):], "}")
			if !closed || !parameterName.MatchString(name) {
				return Template{}, fmt.Errorf("placeholder at byte %d: expected ${name}, a name of letters, digits and _ (write $${ for the characters ${)", len(text)-len(rest))
			}
			t.parts = append(t.parts, part{literal: literal.String()}, part{name: name})
			literal.Reset()
			rest = after
		default:
			literal.WriteByte('$')
			rest = rest[1:]
		}
	}
	t.parts = append(t.parts, part{literal: literal.String()})
	return t, nil
}

// Literal is a template that stands for the text as it is.
func Literal(text string) Template { return Template{parts: []part{{literal: text}}} }

// Names are the parameters that the template uses, sorted, each once.
func (t Template) Names() []string {
	var names []string
	for _, p := range t.parts {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Size is the length in bytes of what Render would make. A short template can ask for gigabytes, so look here first.
func (t Template) Size(values map[string]string) int {
	size := 0
	for _, p := range t.parts {
		if p.name == "" {
			size += len(p.literal)
		} else {
			size += len(values[p.name])
		}
	}
	return size
}

// Render fills the template in one pass: a value is never looked at again.
func (t Template) Render(values map[string]string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.literal)
		} else {
			b.WriteString(values[p.name])
		}
	}
	return b.String()
}
