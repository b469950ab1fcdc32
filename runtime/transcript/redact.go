package transcript

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// minSecretBytes is how long a secret is at least: shorter ones are found where nobody wrote one.
	minSecretBytes = 8
	// maxNesting is how many layers of JSON within JSON strings are looked into for secrets.
	maxNesting = 4
)

var redacted = []byte("[redacted]")

// redactor takes secrets out of frames.
type redactor struct{ secrets [][]byte }

func newRedactor(secrets []string) redactor {
	var r redactor
	for _, s := range secrets {
		if len(s) >= minSecretBytes {
			r.secrets = append(r.secrets, []byte(s))
		}
	}
	// One secret may contain another.
	slices.SortStableFunc(r.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return r
}

func (r redactor) found(text []byte) bool {
	return slices.ContainsFunc(r.secrets, func(secret []byte) bool { return bytes.Contains(text, secret) })
}

// redact returns the text without the secrets, spelled plainly or with any of JSON's escapes. Without any it is the same slice.
func (r redactor) redact(text []byte, depth int) []byte {
	for _, secret := range r.secrets {
		if bytes.Contains(text, secret) {
			text = bytes.ReplaceAll(text, secret, redacted)
		}
	}
	if len(r.secrets) == 0 || depth == 0 || bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	var out []byte
	copied := 0
	for at := 0; at < len(text); {
		from, to, escaped := literal(text, at)
		if from < 0 {
			break
		}
		at = to
		if !escaped {
			continue
		}
		// An error says that there was half a surrogate pair: what can be read of the rest was.
		plain, _ := jsontext.AppendUnquote(nil, text[from:to])
		clean := r.redact(plain, depth-1)
		if bytes.Equal(clean, plain) {
			continue
		}
		quoted, err := jsontext.AppendQuote(nil, clean)
		if err != nil { // it is UTF-8: AppendUnquote saw to that
			quoted = []byte(`"[redacted]"`)
		}
		out = append(append(out, text[copied:from]...), quoted...)
		copied = to
	}
	if copied == 0 {
		return text
	}
	return append(out, text[copied:]...)
}

// literal finds the next JSON string at or after a place; from is -1 if there is none.
func literal(text []byte, at int) (from, to int, escaped bool) {
	open := bytes.IndexByte(text[at:], '"')
	if open < 0 {
		return -1, -1, false
	}
	from = at + open
	for i := from + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			return from, i + 1, escaped
		}
	}
	return -1, -1, false
}

// clean makes of a frame what is kept of it: JSON, on one line, valid UTF-8, without secrets. If nothing has to change it is the
// same slice. What is no JSON becomes a JSON string.
func (r redactor) clean(frame []byte) []byte {
	if !utf8.Valid(frame) {
		frame = bytes.ToValidUTF8(frame, []byte("\uFFFD"))
	}
	frame = r.redact(frame, maxNesting)
	if jsontext.Value(frame).IsValid(lax) {
		if bytes.IndexByte(frame, '\n') >= 0 || bytes.IndexByte(frame, '\r') >= 0 { // between tokens: within a string they would be escaped
			frame = bytes.Map(oneLine, frame)
		}
		return bytes.TrimSpace(frame)
	}
	quoted, err := jsontext.AppendQuote(nil, frame)
	if err != nil { // it is UTF-8 by now
		return []byte(`""`)
	}
	return quoted
}

func oneLine(r rune) rune {
	if r == '\n' || r == '\r' {
		return ' '
	}
	return r
}
