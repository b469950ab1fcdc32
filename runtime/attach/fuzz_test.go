package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzClientMessage: whatever a client sends, the answer is JSON under the id it was asked with, what reaches the agent is one line of JSON,
// and the view key reaches nothing.
func FuzzClientMessage(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"method":"session/new","params":{"cwd":"/here"}}`, `{"id":"a","method":"session/load","params":{"sessionId":"r1"}}`, "{\n\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s1\"}}",
		`{"id":null,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text"}]}}`, `{"id":1,"result":{}}`, `{"id":1.0,"method":"initialize"}`, `[]`,
		`{"method":"$/cancel_request","params":{"requestId":1}}`, `{"id":1,"method":"_x","params":["r1"]}`, `{"id":1,"method":"session/list"}`, "\xff", `{"id":1,"method":"a","params":7}`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, message []byte, steer bool) {
		h := newHouse(t)
		a := h.rise(0, "", true)
		d := a.begin("r1", "u1")
		owner := h.connect(Steer)
		owner.open(a, "s1")
		access := View
		if steer {
			access = Steer
		}
		g := h.connect(access)
		lines := make(chan string, 16)
		go func() {
			defer close(lines)
			for {
				line, err := a.in.ReadString('\n')
				if err != nil {
					return
				}
				lines <- line
			}
		}()
		g.Receive(bytes.Clone(message))
		require.NoError(t, a.conn.Notify("_end", 1))
		for line := range lines {
			assert.True(t, json.Valid([]byte(line)), line)
			if methodOf(line) == "_end" {
				break
			}
			assert.True(t, steer, line)
		}
		assert.Empty(t, d.cancelled)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for {
			m, err := g.Next(ctx)
			if err != nil {
				break
			}
			assert.True(t, json.Valid(m.Data), "%s", m.Data)
		}
		a.conn.Close()    // what it is sent ends
		for range lines { //nolint:revive // until the reader has ended
		}
	})
}
