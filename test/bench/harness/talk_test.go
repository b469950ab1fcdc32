package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A prompt that was answered without its updates took no time, and is no figure.
func TestAPromptIsMeasuredWithAllItsUpdatesOrNotAtAll(t *testing.T) {
	for sent, want := range map[int]string{updates: "", updates + 1: "", updates - 1: "expected 1000 updates, there were 999", 0: "there were 0"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if !assert.NoError(t, err) {
				return
			}
			for range 2 { // initialize, and the prompt
				_, asked, err := conn.Read(r.Context())
				if !assert.NoError(t, err) {
					return
				}
				answer := `{"jsonrpc":"2.0","id":1,"result":{}}`
				if strings.Contains(string(asked), promptID) {
					answer = `{"jsonrpc":"2.0",` + promptID + `,"result":{}}`
					for range sent {
						assert.NoError(t, conn.Write(r.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"session/update"}`)))
					}
				}
				assert.NoError(t, conn.Write(r.Context(), websocket.MessageText, []byte(answer)))
			}
		}))
		v, err := (&harness{acp: strings.TrimPrefix(server.URL, "http://")}).view(t.Context())
		require.NoError(t, err)
		err = v.prompt(t.Context(), "s")
		if want == "" {
			require.NoError(t, err, sent)
		} else {
			require.ErrorContains(t, err, want)
		}
		v.close()
		server.Close()
	}
}
