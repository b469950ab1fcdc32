package attach

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// R50, R51: the way of a client from initialize to its own prompt, and into the session of a delivered run.
func TestAClientOpensPromptsListsAndLoads(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	g := h.connect(Steer)
	id := g.send("session/new", `{"cwd":"/laptop","mcpServers":[],"_x":1.0}`)
	line := a.read()
	assert.Contains(t, line, `"params":{"cwd":"/fresh/1","mcpServers":[],"_x":1.0}`)
	a.write(says("s1", "before the answer"), result(line, `{"sessionId":"s1","modes":{"currentModeId":"m"}}`))
	assert.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"sessionId":"s1","modes":{"currentModeId":"m"},"_meta":{"hearth":{"cwd":"/fresh/1"}}}}`, g.next())
	assert.Equal(t, says("s1", "before the answer"), g.next())

	other := h.connect(View)
	assert.Equal(t, []string{says("s1", "before the answer")}, other.load("s1"))

	id = g.send("session/prompt", `{"sessionId":"s1","prompt":[{"type":"text","text":"hello"}]}`)
	line = a.read()
	assert.Contains(t, line, `"params":{"sessionId":"s1","prompt":[{"type":"text","text":"hello"}]}`)
	a.write(says("s1", "one"), `{"result": {"stopReason":"end_turn"} ,"jsonrpc":"2.0","id":`+idOf(line)+`}`)
	assert.Equal(t, says("s1", "one"), g.next())
	assert.Equal(t, `{"result": {"stopReason":"end_turn"} ,"jsonrpc":"2.0","id":`+id+`}`, g.next())
	said := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hello"}}}}`
	assert.Equal(t, said, other.next())
	assert.Equal(t, says("s1", "one"), other.next())
	assert.Equal(t, []string{says("s1", "before the answer"), said, says("s1", "one")}, g.load("s1"))

	d := a.begin("r1", "u1")
	a.write(says("r1", "at work"))
	a.sync()
	assert.Contains(t, g.ask("session/list", `{}`), `"_meta":{"hearth":{"run":{"namespace":"ns","name":"run-u1","uid":"u1"},"attempt":1,"state":"running","live":true}}`)
	seen := other.load("r1")
	assert.Len(t, seen, 3)
	assert.Contains(t, seen[0], `"session_info_update","_meta":{"hearth":{"run":{"namespace":"ns","name":"run-u1","uid":"u1"},"attempt":1,"state":"running"}}`)
	assert.Contains(t, seen[1], `"user_message_chunk","content":{"text":"the goal","type":"text"}`)
	d.end()
	assert.Contains(t, other.next(), `"state":"ended","outcome":"Succeeded","reason":"Completed"`)
	assert.Len(t, g.load("r1"), 4)
}
