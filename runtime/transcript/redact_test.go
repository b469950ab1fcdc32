package transcript

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecretsAreTakenOutHoweverTheyAreSpelled(t *testing.T) {
	nested, err := json.Marshal(`{"token":"s3cret\/key=abcdefgh"}`)
	require.NoError(t, err)
	twice, err := json.Marshal(string(nested))
	require.NoError(t, err)
	for name, row := range map[string]struct{ in, want string }{
		"plain":                    {`{"a":"x ` + secret + ` y"}`, `{"a":"x [redacted] y"}`},
		"a key":                    {`{"` + secret + `":1, "b" : 2}`, `{"[redacted]":1, "b" : 2}`},
		"escaped slash":            {`{"a":"s3cret\/key=abcdefgh","b":"\u00e9"}`, `{"a":"[redacted]","b":"\u00e9"}`},
		"escaped in hexadecimal":   {`["\u00733cret/key\u003Dabcdefgh\n"]`, `["[redacted]\n"]`},
		"beside half a surrogate":  {`["\ud83d s3cret\/key=abcdefgh"]`, "[\"\uFFFD [redacted]\"]"},
		"in JSON in a string":      {string(nested), `"{\"token\":\"[redacted]\"}"`},
		"in JSON twice in strings": {string(twice), `"\"{\\\"token\\\":\\\"[redacted]\\\"}\""`},
		"no JSON":                  {"debug: " + secret, `"debug: [redacted]"`},
		"no JSON, escaped":         {`debug: "s3cret\/key=abcdefgh"`, `"debug: \"[redacted]\""`},
		"quotes and backslashes":   {`{"a":"qu\"ote\\s!"}`, `{"a":"[redacted]"}`},
		"a number":                 {`{"pin":1234567890}`, `"{\"pin\":[redacted]}"`},
		"longest first":            {`["` + secret + secret + `"]`, `["[redacted]"]`},
		"too short for a secret":   {`["short"]`, `["short"]`},
		"just long enough":         {`["8 bytes!"]`, `["[redacted]"]`},
		"nothing":                  {`{"a":"s3cret","\\":"\""}`, `{"a":"s3cret","\\":"\""}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRedactor([]string{"", "short", secret, secret + secret, `qu"ote\s!`, "1234567890", "8 bytes!"})
			assert.Equal(t, row.want, string(r.clean([]byte(row.in))))
		})
	}
}

func TestWhatIsKeptIsJSONOnOneLine(t *testing.T) {
	for name, row := range map[string]struct{ in, want string }{
		"white space":         {" {\"a\":\r\n 1}\n", `{"a":   1}`},
		"no UTF-8":            {"{\"a\":\"\xff\xfe\"}", "{\"a\":\"\uFFFD\"}"},
		"no JSON":             {"panic: \x00\n", `"panic: \u0000\n"`},
		"two values":          {`{} {}`, `"{} {}"`},
		"nothing":             {``, `""`},
		"too deep to be JSON": {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), `"` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, string(newRedactor(nil).clean([]byte(row.in))))
		})
	}
}

// Frames may be 64 MiB, and are others' too.
func TestWhatIsFineIsNotCopied(t *testing.T) {
	in := []byte(`{"a":"é\n"}`)
	assert.Same(t, &in[0], &newRedactor([]string{secret}).clean(in)[0])
}

// Whatever an agent says, what is kept is JSON on one line without the secret, and cleaning it again changes nothing.
func FuzzClean(f *testing.F) {
	for _, s := range []string{`{"a":"` + secret + `"}`, `"s3cret\/key=abcdefgh"`, "\xff\n", `"\ud800\\`, `"\\\"s3cret\\u002fkey=abcdefgh\\\""`, `["s3cret` + "\n" + `/key=abcdefgh"]`} {
		f.Add([]byte(s))
	}
	r := newRedactor([]string{secret})
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out := r.clean(in)
		assert.Equal(t, before, in, "the input is others'")
		assert.True(t, jsontext.Value(out).IsValid(lax))
		assert.True(t, utf8.Valid(out))
		assert.False(t, bytes.ContainsAny(out, "\n\r"))
		assert.False(t, r.found(out))
		if plain, err := jsontext.AppendUnquote(nil, out); err == nil {
			assert.False(t, r.found(plain), "escaped")
		}
		assert.Equal(t, string(out), string(r.clean(out)), "again")
		line := AppendEntry(nil, Entry{Seq: 1, Direction: FromAgent, Frame: out})
		e, err := parseEntry(line[:len(line)-1])
		assert.NoError(t, err)
		assert.Equal(t, string(out), string(e.Frame))
	})
}
