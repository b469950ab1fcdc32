package attach

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R53: no way of writing a message gets one into a session that may only be watched, however the agent reads it.
func TestADisguisedMessageReachesNoWatchedSession(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", true)
	a.begin("20261130_1", "u1")
	g := h.connect(Steer)
	g.open(a, "20261130_12")
	for message, code := range map[string]int{
		// Agents that do not look at the case of a name take the last of these.
		`{"id":1,"method":"session/prompt","params":{"sessionId":"OWN","SessionID":"RUN","prompt":[]}}`:                -32600,
		`{"id":1,"method":"session/prompt","params":{"sessionId":"OWN","\u017fessionId":"RUN","prompt":[]}}`:           -32600,
		`{"id":1,"method":"session/close","params":{"sessionId":"OWN"},"Method":"session/prompt"}`:                     -32600,
		`{"id":1,"method":"session/close","params":{"sessionId":"OWN"},"Params":{"sessionId":"RUN"}}`:                  -32600,
		`{"id":1,"result":{"outcome":{"outcome":"cancelled"}},"METHOD":"session/prompt","params":{"sessionId":"RUN"}}`: -32600,
		`{"id":1,"result":{"outcome":{"outcome":"cancelled"}},"Id":2}`:                                                 -32600,
		`{"id":1,"method":"session/new","params":{"cwd":"/here","_meta":{"claudeCode":{"options":{"resume":"RUN"}}}}}`: CodeNotAllowed,
		`{"id":1,"method":"session/load","params":{"sessionId":"none","cwd":"/here","session_id":"RUN"}}`:              CodeNotAllowed,
		`{"id":1,"method":"session/prompt","params":{"sessionId":"OWN","session_id":"RUN","prompt":[]}}`:               CodeNotAllowed,
		`{"id":1,"method":"session/prompt","session":"RUN","params":{"sessionId":"OWN","prompt":[]}}`:                  CodeNotAllowed,
		`{"id":1,"method":"_x/y","session":"RUN"}`:                                                                     CodeNotAllowed,
		`{"id":1,"method":"_x/y","params":{"uri":"acp://session/RUN?x"}}`:                                              CodeNotAllowed,
		`{"id":1,"method":"_x/y","params":{"prompt":"RUN"}}`:                                                           CodeNotAllowed,
		`{"id":1,"method":"session/prompt","params":{"sessionId":"OWN","prompt":[],"_meta":{"prompt":["RUN"]}}}`:       CodeNotAllowed,
		`{"id":1,"method":"$/cancel_request","params":{"requestId":2}}`:                                                -32600,
	} {
		g.Receive([]byte(strings.NewReplacer("OWN", "20261130_12", "RUN", "20261130_1").Replace(message)))
		got := g.next()
		assert.Equal(t, code, codeOf(got), "%s: %s", message, got)
	}
	for _, method := range []string{"initialize", "authenticate", "session/new", "session/prompt", "session/load", "session/close"} {
		g.Receive([]byte(`{"method":"` + method + `","params":{"sessionId":"20261130_12","cwd":"/here","prompt":[]}}`))
	}
	a.sync() // nothing else came before
	// What a prompt says is no name, and nor is a name within a longer one.
	g.Receive([]byte(`{"id":"20261130_1","method":"session/prompt","params":{"prompt":[{"type":"text","text":"20261130_1"}],"sessionId":"20261130_12"}}`))
	assert.Equal(t, "session/prompt", methodOf(a.read()))
	g.Receive([]byte(`{"id":1,"method":"_x/y","params":{"other":"20261130_13","a":"x20261130_1"}}`))
	assert.Equal(t, "_x/y", methodOf(a.read()))
}

// A notification before initialize goes nowhere.
func TestNobodySpeaksBeforeInitialize(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	c, err := h.hub.Connect(Steer)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	c.Receive([]byte(`{"method":"_x/y"}`))
	a.sync()
}

// With several agents the number of the process is part of a session's id: without it there is no such session, although the agent
// would know one (R53).
func TestTheAgentsOwnIDOfASessionIsNobodys(t *testing.T) {
	for _, steering := range []Steering{WatchOnly, SteerRuns} {
		h := newHouse(t, func(c *Config) { c.Steering = steering })
		a := h.rise(0, "0.", true) // the other one is not there yet
		a.begin("s1", "u1")
		g := h.connect(Steer)
		for _, ids := range [][]string{{"s1", "00.s1", "1.s1", ".s1"}, {"s1", "00.s1", "2.s1", ".s1"}} {
			for _, id := range ids {
				for _, method := range []string{"session/load", "session/resume", "session/prompt"} {
					got := g.ask(method, `{"sessionId":"`+id+`","cwd":"/here","prompt":[]}`)
					assert.Contains(t, []int{codeNotFound, CodeNotAllowed}, codeOf(got), "%s %s: %s", method, id, got)
				}
			}
			a.sync()
			h.rise(1, "1.", true)
		}
	}
}

// A session that the harness opens ahead is for the run to come: nobody can be in it before (R53).
func TestASessionThatWaitsForARunIsNobodys(t *testing.T) {
	for _, steering := range []Steering{WatchOnly, SteerRuns} {
		h := newHouse(t, func(c *Config) { c.Steering = steering })
		a := h.rise(0, "", true)
		g := h.connect(Steer)
		opened := make(chan struct{})
		go func() {
			defer close(opened)
			_, err := a.conn.NewSession(context.Background(), "/work")
			assert.NoError(t, err)
		}()
		a.write(result(a.read(), `{"sessionId":"ahead-1"}`))
		<-opened
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			_, err := a.conn.LoadSession(context.Background(), "standing-1", "/work")
			assert.NoError(t, err)
		}()
		line := a.read()
		for _, id := range []string{"ahead-1", "standing-1"} {
			for _, method := range []string{"session/load", "session/resume", "session/prompt", "session/fork"} {
				got := g.ask(method, `{"sessionId":"`+id+`","cwd":"/here","prompt":[]}`)
				assert.Contains(t, []int{codeNotFound, CodeNotAllowed}, codeOf(got), "%s: %s", method, got)
			}
			assert.Equal(t, CodeNotAllowed, codeOf(g.ask("_x/delete", `{"session_id":"`+id+`"}`)))
		}
		a.write(result(line, `{}`))
		<-taken
		// An answer does not make it a client's either.
		id := g.send("_x/y", `{}`)
		a.write(result(a.read(), `{"sessionId":"ahead-1"}`))
		g.until(id)
		assert.NotContains(t, g.ask("session/list", `{}`), "ahead-1")
	}
}
