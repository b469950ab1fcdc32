package endpoint

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestParseMessage(t *testing.T) {
	for text, want := range map[string]message{
		`{}`:                      {},
		` {"method":"a","id":1} `: {method: "a", id: true},
		`{"id":"x","method":"initialize","params":{"sessionId":"s","x":{"sessionId":"t"}}}`: {method: "initialize", session: "s", id: true},
		`{"params":{"_meta":{},"sessionId":"\u0073"},"id":null}`:                            {session: "s"},
		`{"params":["sessionId"],"method":7,"id":{}}`:                                       {id: true},
		`{"params":{"sessionId":7}}`:                                                        {},
		`{"id":0,"result":{"sessionId":"s"}}`:                                               {id: true},
	} {
		got, err := parseMessage([]byte(text))
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{``, ` `, `{`, `{}{}`, `{},`, `"a"`, `1`, `null`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"params":{"sessionId":}}`} {
		_, err := parseMessage([]byte(text))
		assert.Error(t, err, text)
		assert.NotErrorIs(t, err, errBatch, text)
	}
	for _, text := range []string{`[]`, `[{}]`, ` [1]`} {
		_, err := parseMessage([]byte(text))
		assert.ErrorIs(t, err, errBatch, text)
	}
}

// What is taken is one JSON object, and is understood as others understand it.
func FuzzParseMessage(f *testing.F) {
	for _, text := range []string{`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}`, `[{}]`, `{"a":1,"a":2}`, "\xff", `{"params":null}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseMessage(body)
		var other map[string]json.RawMessage
		if err != nil {
			if errors.Is(err, errBatch) {
				assert.Error(t, json.Unmarshal(body, &other))
			}
			return
		}
		assert.True(t, utf8.Valid(body))
		assert.NoError(t, json.Unmarshal(body, &other))
		var method string
		if json.Unmarshal(other["method"], &method) != nil {
			method = ""
		}
		assert.Equal(t, method, got.method)
	})
}
