package dial

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnEndpointIsOnThisHost(t *testing.T) {
	for text, want := range map[string]string{
		"ws://127.0.0.1:4001/acp":          "ws://127.0.0.1:4001/acp",
		"ws://127.0.0.1:4001":              "ws://127.0.0.1:4001/acp",
		"ws://localhost:4001/":             "ws://127.0.0.1:4001/acp",
		"ws://127.7.7.7:1/some/path%20x":   "ws://127.7.7.7:1/some/path%20x",
		"ws://[::1]:65535/acp":             "ws://[::1]:65535/acp",
		"ws://[::ffff:127.0.0.1]:4001/acp": "ws://127.0.0.1:4001/acp",
	} {
		e, err := ParseEndpoint(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, e.String())
	}
	assert.Empty(t, Endpoint{}.String())
}

// Each wrong address is told which part is wrong, and nothing of it is repeated.
func TestAnEndpointElsewhereIsRefused(t *testing.T) {
	for text, part := range map[string]string{
		"":                               "expected an address such as",
		"s3cret":                         "expected an address such as",
		"127.0.0.1:4001":                 "expected an address such as",
		"ws:127.0.0.1":                   "expected an address such as",
		"ws://":                          "expected an address such as",
		"ws://%zz":                       "expected an address such as",
		"http://127.0.0.1:4001/acp":      "scheme: ",
		"wss://127.0.0.1:4001/acp":       "scheme: ",
		"ws://s3cret@127.0.0.1:4001/acp": "user: ",
		"ws://a:s3cret@127.0.0.1:4001/":  "user: ",
		"ws://127.0.0.1:4001/?t=s3cret":  "query: ",
		"ws://127.0.0.1:4001/acp?":       "query: ",
		"ws://127.0.0.1:4001/acp#s3cret": "fragment: ",
		"ws://127.0.0.1:4001/acp#":       "fragment: ",
		"ws://10.0.0.1:4001/acp":         "host: ",
		"ws://0.0.0.0:4001/acp":          "host: ",
		"ws://[::]:4001/acp":             "host: ",
		"ws://agent.default.svc:4001/":   "host: ",
		"ws://localhost.evil.test:1/":    "host: ",
		"ws://2130706433:4001/":          "host: ",
		"ws://127.1:4001/":               "host: ",
		"ws://[::1%25lo]:4001/":          "host: ",
		"ws://127.0.0.1/acp":             "port: ",
		"ws://127.0.0.1:0/acp":           "port: ",
		"ws://127.0.0.1:65536/acp":       "port: ",
		"ws://127.0.0.1:x/acp":           "expected an address such as",
		"ws://127.0.0.1:1/" + strings.Repeat("s3cret", 60): "at most 256 bytes",
	} {
		_, err := ParseEndpoint(text)
		require.ErrorContains(t, err, part, text)
		assert.ErrorContains(t, err, "expected an address such as ws://127.0.0.1:4001/acp")
		assert.NotContains(t, err.Error(), "s3cret")
	}
}

func TestGooseServeNamesItsEndpointItself(t *testing.T) {
	for command, want := range map[string]string{
		"goose serve":                                        "ws://127.0.0.1:3284/acp",
		"/usr/bin/goose serve --port 4001":                   "ws://127.0.0.1:4001/acp",
		"goose serve --port=4001 --host=localhost":           "ws://127.0.0.1:4001/acp",
		"goose serve --host ::1 --with-builtin x --port 402": "ws://[::1]:402/acp",
		"goose acp":   "",
		"goose":       "",
		"other serve": "",
		"":            "",
	} {
		e, err := Served(strings.Fields(command))
		require.NoError(t, err, command)
		assert.Equal(t, want, e.String(), command)
	}
	for command, part := range map[string]string{
		"goose serve --host 0.0.0.0 --port 4000": "host: ",
		"goose serve --port 0":                   "port: ",
		"goose serve --port many":                "expected an address",
	} {
		_, err := Served(strings.Fields(command))
		assert.ErrorContains(t, err, "--host and --port of goose serve: "+part)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add("ws://127.0.0.1:4001/acp")
	f.Add("ws://[::1]:1/%2f")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseEndpoint(text)
		if err != nil {
			return
		}
		assert.True(t, e.address.Addr().IsLoopback())
		again, err := ParseEndpoint(e.String())
		require.NoError(t, err)
		assert.Equal(t, e, again)
	})
}
