package attach

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fault row 20: whatever waits for an agent that dies is answered at once, with how it ended.
func TestTheEndOfAnAgentAnswersAllThatWaits(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	g := h.connect(Steer)
	g.open(a, "s1")
	ids := []string{g.send("session/prompt", `{"sessionId":"s1","prompt":[]}`), g.send("_x/wait", `{}`), g.send("session/new", `{"cwd":"/here"}`)}
	for range ids {
		a.read()
	}
	a.die()
	answered := map[string]string{}
	for len(answered) <= len(ids) { // and the harness's note in the session, under no id
		m := g.next()
		answered[idOf(m)] = m
	}
	assert.Contains(t, answered[""], `"_meta":{"hearth":{"unanswered":"session/prompt"}}`)
	for _, id := range ids {
		m := answered[id]
		assert.Equal(t, CodeGone, codeOf(m), m)
		assert.Contains(t, m, "the agent exited with status 3 before it answered")
		assert.Contains(t, m, strings.Repeat("x", maxStderr-len("the last words"))+`the last words"}`)
	}
	for method, params := range map[string]string{"session/new": `{"cwd":"/here"}`, "session/prompt": `{"sessionId":"s1"}`, "_x/y": `{}`, "initialize": `{}`} {
		assert.Equal(t, CodeGone, codeOf(g.ask(method, params)), method)
	}
	assert.Len(t, g.load("s1"), 1, "what was said can still be read: the harness's note that the prompt has no answer")
}

// After a restart a client's session is loaded again at the agent before it can be prompted; what the agent repeats is not shown twice.
func TestAfterARestartASessionIsLoadedAgain(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", true)
	g := h.connect(Steer)
	g.open(a, "s1")
	a.write(says("s1", "once"))
	assert.Equal(t, says("s1", "once"), g.next())
	a.die()
	b := h.rise(0, "", true)
	assert.Contains(t, g.ask("session/prompt", `{"sessionId":"s1","prompt":[]}`), "load the session again")
	viewer := h.connect(View)
	assert.Equal(t, []string{says("s1", "once")}, viewer.load("s1"), "who only watches needs no agent for it")

	id := g.send("session/load", `{"sessionId":"s1","cwd":"/elsewhere","mcpServers":[]}`)
	line := b.read()
	assert.Contains(t, line, `"method":"session/load","params":{"sessionId":"s1","cwd":"/here","mcpServers":[]}`)
	assert.Equal(t, CodeBusy, codeOf(h.connect(Steer).ask("session/prompt", `{"sessionId":"s1","prompt":[]}`)), "nobody prompts while it is loaded")
	b.write(says("s1", "once"), result(line, `{"modes":{"currentModeId":"m"}}`))
	all := g.until(id)
	require.Len(t, all, 2)
	assert.Equal(t, says("s1", "once"), all[0])
	assert.Contains(t, all[1], `"result":{"modes":{"currentModeId":"m"},"_meta"`)
	id = g.send("session/prompt", `{"sessionId":"s1","prompt":[]}`)
	b.write(says("s1", "twice"), result(b.read(), `{}`))
	assert.Equal(t, says("s1", "twice"), g.next())
	assert.Equal(t, id, idOf(g.next()))
	assert.Equal(t, says("s1", "twice"), viewer.next())
	viewer.silent()
}

// An earlier boot's runs and sessions are there again, as their transcripts have them.
func TestWhatAnEarlierBootLeftIsListedAndLoaded(t *testing.T) {
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) {
		h := newHouseIn(t, dir)
		a := h.rise(0, "", false)
		d := a.begin("r1", "u1")
		a.write(says("r1", "work"))
		d.end()
		g := h.connect(Steer)
		g.open(a, "s1")
	})
	h := newHouseIn(t, dir)
	a := h.rise(0, "", true)
	g := h.connect(Steer)
	list := g.ask("session/list", `{}`)
	assert.Contains(t, list, `"sessionId":"r1","cwd":"/","title":"run ns/run-u1"`)
	assert.Contains(t, list, `"state":"ended","outcome":"Succeeded","reason":"Completed","live":false`)
	assert.Contains(t, list, `"sessionId":"s1"`)
	seen := g.load("r1")
	assert.Contains(t, seen, says("r1", "work"))
	assert.Contains(t, g.ask("session/prompt", `{"sessionId":"r1","prompt":[]}`), "the run has ended, and its session with it: begin a new one with session/new")
	id := g.send("session/load", `{"sessionId":"s1","cwd":"/laptop"}`)
	b := a.read()
	assert.Contains(t, b, `"method":"session/load","params":{"sessionId":"s1","cwd":"/fresh/1"}`, "a directory that is here")
	a.write(`{"jsonrpc":"2.0","id":` + idOf(b) + `,"error":{"code":-32002,"message":"unknown"}}`)
	answer := g.until(id)[0]
	assert.Contains(t, answer, `"result"`, "the agent has forgotten it, and what was said can still be read")
	assert.Contains(t, answer, `"cwd":"/fresh/1"`)
	assert.Equal(t, CodeGone, codeOf(g.ask("session/prompt", `{"sessionId":"s1","prompt":[]}`)))

	// A session that only the agent knows.
	id = g.send("session/load", `{"sessionId":"old","cwd":"/laptop"}`)
	b = a.read()
	assert.Contains(t, b, `"cwd":"/fresh/2"`)
	a.write(says("old", "long ago"), result(b, `{}`))
	all := g.until(id)
	assert.Equal(t, says("old", "long ago"), all[0])
	require.Len(t, all, 2)
	assert.Contains(t, all[1], `"_meta":{"hearth":{"cwd":"/fresh/2"}}`)
	assert.Equal(t, []string{says("old", "long ago")}, h.connect(View).load("old"))
}

// With several agents session ids may be the same; each reaches its own agent, and one that falls takes only its own along.
func TestSeveralAgentsWithTheSameSessionIDs(t *testing.T) {
	h := newHouse(t)
	agents := []*agent{h.rise(0, "0.", false), h.rise(1, "1.", false)}
	g := h.connect(Steer)
	for i, a := range agents { // the less busy one gets it
		id := g.send("session/new", `{"cwd":"/here"}`)
		a.write(result(a.read(), `{"sessionId":"s"}`))
		answer := g.next()
		assert.Equal(t, id, idOf(answer))
		assert.Contains(t, answer, `"sessionId":"`+[]string{"0.s", "1.s"}[i]+`"`)
	}
	for i, a := range agents {
		session := []string{"0.s", `\u0031.s`}[i]
		id := g.send("session/prompt", `{"sessionId":"`+session+`","prompt":[{"type":"text","text":"1.s"}]}`)
		line := a.read()
		assert.Contains(t, line, `"params":{"sessionId":"s","prompt":[{"type":"text","text":"1.s"}]}`)
		a.write(says("s", "here"), result(line, `{}`))
		assert.Equal(t, says([]string{"0.s", "1.s"}[i], "here"), g.next())
		assert.Equal(t, id, idOf(g.next()))
	}
	agents[1].die()
	assert.Equal(t, CodeGone, codeOf(g.ask("session/prompt", `{"sessionId":"1.s","prompt":[]}`)))
	id := g.send("session/prompt", `{"sessionId":"0.s","prompt":[]}`)
	agents[0].write(result(agents[0].read(), `{}`))
	assert.Equal(t, id, idOf(g.next()))
}

// R54: a client that leaves ends nothing. One prompt at a time; steering passes.
func TestAClientThatLeavesEndsNothing(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	g, other := h.connect(Steer), h.connect(Steer)
	g.open(a, "s1")
	other.load("s1")
	g.send("session/prompt", `{"sessionId":"s1","prompt":[{"type":"text","text":"go"}]}`)
	line := a.read()
	assert.Contains(t, other.next(), `"text":"go"`)
	busy := other.ask("session/prompt", `{"sessionId":"s1","prompt":[]}`)
	assert.Equal(t, CodeBusy, codeOf(busy))
	assert.Contains(t, busy, "_goose/unstable/session/steer")
	g.Close()
	a.sync() // nothing but this was sent
	id := other.send("_goose/unstable/session/steer", `{"sessionId":"s1","prompt":[{"type":"text","text":"left"}]}`)
	a.write(result(a.read(), `{}`), says("s1", "goes on"), result(line, `{}`), says("s1", "is done")) // the last is shown once the prompt is over
	assert.Equal(t, id, idOf(other.next()))
	assert.Equal(t, says("s1", "goes on"), other.next())
	assert.Equal(t, says("s1", "is done"), other.next())
	id = other.send("session/prompt", `{"sessionId":"s1","prompt":[]}`)
	other.Receive([]byte(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + id + `}}`))
	line = a.read()
	assert.Equal(t, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":`+idOf(line)+`}}`, a.read())
	a.write(`{"jsonrpc":"2.0","method":"_news","params":{"a":1.0}}`)
	assert.Equal(t, `{"jsonrpc":"2.0","method":"_news","params":{"a":1.0}}`, other.next())
}
