package attach

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/turn"
)

// many has the harness know as many sessions as it may, one of them, r1, with so many transcripts.
func (h *house) many(books int) {
	h.t.Helper()
	h.rise(0, "", false)
	h.hub.Watch(1)
	for i := range books {
		h.hub.Begin(1, "r1", turn.Run{Namespace: "ns", Name: "r1", UID: "u1", Attempt: int64(i)}, func(error) {})
	}
	for i := range maxSessions - 1 {
		id := fmt.Sprintf("s%d", i)
		h.hub.sessions[id] = newSession(h.hub, id, nil)
	}
}

// SPEC.md, People at the agent: who reads a replay may ask meanwhile, whatever the answers have in them.
func TestWhoReadsAReplayMayAsk(t *testing.T) {
	h := newHouse(t)
	h.many(1)
	h.hub.session("r1").keep([]byte(`{"models":"` + strings.Repeat("x", maxAnswers/4) + `"}`))
	g := h.connect(View)
	ids := []string{g.send("session/load", `{"sessionId":"r1"}`)}
	for range 5 {
		ids = append(ids, g.send("session/list", `{}`), g.send("session/resume", `{"sessionId":"r1"}`))
	}
	for i, id := range ids {
		all := g.until(id)
		switch last := all[len(all)-1]; {
		case i == 0:
			assert.Len(t, all, 2)
		case i%2 == 1:
			assert.Equal(t, maxSessions, strings.Count(last, `"sessionId":`))
		default:
			assert.Greater(t, len(last), maxAnswers/4)
		}
	}
	assert.Zero(t, g.out.answers)
	assert.Zero(t, g.out.size)
}

// R51: an answer to session/load that waits tells of the session as it was where the replay ends; what changed since comes after it.
func TestAnAnswerThatWaitsIsOfWhenItWasAskedFor(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	d := a.begin("r1", "u1")
	g := h.connect(View)
	mode := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"r1",` +
		`"update":{"sessionUpdate":"current_mode_update","currentModeId":"code"}}}`
	first := g.send("session/load", `{"sessionId":"r1","cwd":"/here"}`)
	a.write(mode)
	a.sync()
	d.end()
	again := g.send("session/resume", `{"sessionId":"r1","cwd":"/"}`)
	all := g.until(first)
	require.Len(t, all, 3, "that the run began, its goal, the answer")
	assert.Contains(t, all[len(all)-1], `"currentModeId":"ask"`)
	assert.Contains(t, all[len(all)-1], `"state":"running","live":true`)
	all = g.until(again)
	require.Len(t, all, 3)
	assert.Equal(t, mode, all[0])
	assert.Contains(t, all[1], `"state":"ended"`)
	assert.Contains(t, all[2], `"currentModeId":"code"`)
	assert.Contains(t, all[2], `"live":false`)
}

// R51: of a session that has many transcripts all are shown, as they were when it was loaded, and what is said then comes after them.
func TestManyTranscriptsAreShownAsTheyWere(t *testing.T) {
	h := newHouse(t)
	h.many(maxBooks + 2)
	want := expected(t, h, "r1")
	g := h.connect(View)
	id := g.send("session/load", `{"sessionId":"r1"}`)
	for i := range maxBooks { // those that are shown make room for others
		h.hub.Begin(1, "r1", turn.Run{Namespace: "ns", Name: "r1", UID: "u2", Attempt: int64(i)}, func(error) {})
	}
	all := g.until(id)
	assert.Equal(t, want, all[:len(all)-1])
	for _, w := range expected(t, h, "r1") {
		assert.Equal(t, w, g.next())
	}
	g.silent()
	assert.Zero(t, g.out.answers)
	assert.Zero(t, g.out.size)
}

// SPEC.md, People at the agent: one message of any size is taken when no other waits; a replay and answers are no others.
func TestALongMessageIsTakenDuringAReplay(t *testing.T) {
	h := newHouse(t)
	h.many(1)
	g := h.connect(View)
	id := g.send("session/load", `{"sessionId":"r1"}`)
	g.out.push(Message{Session: "r1", Data: make([]byte, maxOutbox+1)})
	g.until(id)
	assert.Len(t, g.next(), maxOutbox+1)
}

// SPEC.md, People at the agent: who asks on and reads nothing is let go long before what a viewer may fall behind by, and what the
// harness kept for it was no more than that, whatever it asked.
func TestAnswersThatNobodyReadsAreFew(t *testing.T) {
	long := strings.Repeat("x", 4<<10)
	for name, message := range map[string]string{
		"initialize":     `{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":1,"x":"` + long + `"}}`,
		"a list":         `{"jsonrpc":"2.0","id":2,"method":"session/list","params":{"x":"` + long + `"}}`,
		"a replay":       `{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"r1","cwd":"` + long + `"}}`,
		"to be attached": `{"jsonrpc":"2.0","id":2,"method":"session/resume","params":{"sessionId":"r1","cwd":"` + long + `"}}`,
		"a long id":      `{"jsonrpc":"2.0","id":"` + long + `","method":"session/list"}`,
		"what it may not, in a session of a long name": `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"` + long + `"}}`,
		"what is no message":                           `[`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.many(maxBooks)
			g := h.connect(View)
			before := heap()
			cost := 0
			for range maxAnswers / itemBytes {
				had := g.out.answers
				if had+cost > maxAnswers {
					break
				}
				g.Receive([]byte(message))
				cost = g.out.answers - had
			}
			require.NoError(t, g.out.err)
			assert.Less(t, heap()-before, int64(3*maxAnswers/2))
			g.Receive([]byte(message))
			_, err := g.Next(t.Context())
			require.ErrorIs(t, err, ErrSlow)
			assert.Empty(t, g.out.items)
		})
	}
}

// heap is what is kept in memory, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An answer of any size is taken when no other waits, and what was read makes room.
func TestAnAnswerOfAnySizeIsTaken(t *testing.T) {
	o := newOutbox()
	big := Message{Data: make([]byte, 2*maxAnswers)}
	o.push(big) // what an agent says does not count
	for range 3 {
		o.answer(big)
		o.push(big)
		for range 2 {
			_, err := o.next(t.Context())
			require.NoError(t, err)
		}
	}
	_, err := o.next(t.Context())
	require.NoError(t, err)
	assert.Zero(t, o.answers)
	assert.Zero(t, o.size)
}
