package attach

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// steered are methods that go to the agent of the session that they name, where they may.
var steered = []string{
	"authenticate", "logout", "session/set_mode", "session/set_config_option", "session/set_model", "session/close", "session/delete", "session/fork",
	"_goose/unstable/session/steer", "_x/anything",
}

// R53; SPEC.md, People at the agent: every method with every key, on every kind of session. reaches: the agent is sent it.
func TestWhatEachKeyMayDo(t *testing.T) {
	const reaches, answered = 1, 0
	methods := append(slices.Clone(steered), "session/new", "session/prompt", "session/cancel", "initialized")
	for _, c := range []struct {
		name     string
		access   Access
		steering Steering
		session  string
		want     map[string]int // other than def
		def      int
	}{
		{"view, own", View, SteerRuns, "s1", nil, CodeNotAllowed},
		{"view, delivered", View, SteerRuns, "r1", nil, CodeNotAllowed},
		{"steer, own", Steer, WatchOnly, "s1", nil, reaches},
		{"steer, delivered, watch only", Steer, WatchOnly, "r1", nil, CodeNotAllowed},
		{"steer, delivered, steering", Steer, SteerRuns, "r1", map[string]int{
			"session/close": CodeNotAllowed, "session/delete": CodeNotAllowed, "session/prompt": CodeBusy,
		}, reaches},
		{"steer, no such session", Steer, SteerRuns, "none", map[string]int{"session/new": reaches}, codeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, func(cfg *Config) { cfg.Steering = c.steering })
			a := h.rise(0, "", true)
			d := a.begin("r1", "u1")
			owner := h.connect(Steer)
			owner.open(a, "s1")
			g := h.connect(c.access)
			for _, method := range methods {
				want, special := c.want[method]
				if !special {
					want = c.def
				}
				id := g.send(method, `{"sessionId":"`+c.session+`","cwd":"/here"}`)
				if want == reaches {
					line := a.read()
					assert.Equal(t, method, methodOf(line))
					a.write(`{"jsonrpc":"2.0","id":` + idOf(line) + `,"error":{"code":7,"message":"m"}}`)
					assert.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":7,"message":"m"}}`, g.next(), method)
					continue
				}
				got := g.next()
				assert.Equal(t, want, codeOf(got), "%s: %s", method, got)
				assert.Equal(t, id, idOf(got))
			}
			for _, method := range []string{"session/list", "session/load", "session/resume", "initialize"} {
				all := g.until(g.send(method, `{"sessionId":"r1"}`))
				assert.Equal(t, answered, codeOf(all[len(all)-1]), all)
			}
			// Notifications that are not allowed go nowhere: what the agent is sent next is the end of the test's own.
			if c.def != reaches {
				g.Receive([]byte(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"` + c.session + `"}}`))
				g.Receive([]byte(`{"jsonrpc":"2.0","method":"_x/anything","params":{"sessionId":"` + c.session + `"}}`))
			}
			a.sync()
			assert.Empty(t, d.cancelled)
		})
	}
}

// Another name for the session's id does not get around it.
func TestAnUnknownMethodMayNotNameAWatchedSession(t *testing.T) {
	for steering, want := range map[Steering]int{WatchOnly: CodeNotAllowed, SteerRuns: 0} {
		h := newHouse(t, func(c *Config) { c.Steering = steering })
		a := h.rise(0, "", false)
		a.begin("r1", "u1")
		g := h.connect(Steer)
		g.open(a, "s1")
		for _, params := range []string{`{"id":"r1"}`, `{"a":[{"b":"r\u0031"}]}`, `["r1"]`, `{"r1":1}`, `{"sessionId":"s1","other":"r1"}`} {
			id := g.send("_x/delete", params)
			if want == 0 {
				line := a.read()
				a.write(result(line, `{}`))
			}
			got := g.next()
			assert.Equal(t, want, codeOf(got), params)
			assert.Equal(t, id, idOf(got))
		}
	}
}

// R53: session/cancel on a run that may be steered ends it by the ladder, and elsewhere does nothing.
func TestARunIsCancelledByWhoMay(t *testing.T) {
	for steering, want := range map[Steering]int{WatchOnly: 0, SteerRuns: 1} {
		h := newHouse(t, func(c *Config) { c.Steering = steering })
		a := h.rise(0, "", false)
		d := a.begin("r1", "u1")
		for _, access := range []Access{View, Steer} {
			h.connect(access).Receive([]byte(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"r1"}}`))
		}
		assert.Len(t, d.cancelled, want, steering)
		a.sync()
		d.end()
		h.connect(Steer).Receive([]byte(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"r1"}}`))
		assert.Len(t, d.cancelled, want, steering)
	}
}

// What is no request is answered as JSON-RPC 2.0 says.
func TestBrokenMessagesOfClients(t *testing.T) {
	h := newHouse(t)
	h.rise(0, "", false)
	for message, code := range map[string]int{
		"": -32700, "x": -32700, `{"jsonrpc":"2.0","id":1,"method":"a"`: -32700, "{\"id\":1,\"method\":\"\xff\"}": -32700, `{} {}`: -32700,
		`[]`: -32600, `[{"jsonrpc":"2.0","id":1,"method":"initialize"}]`: -32600, `{}`: -32600, `7`: -32600, `null`: -32600,
		`{"id":{},"method":"a"}`: -32600, `{"id":1,"method":7}`: -32600, `{"id":1,"method":""}`: -32600,
		`{"id":1,"id":2,"method":"a"}`: -32600, `{"id":1,"method":"a","method":"b"}`: -32600, `{"id":1,"method":"a","params":{},"params":{}}`: -32600,
		`{"id":1,"method":"session/prompt","params":{"sessionId":"a","sessionId":"b"}}`: -32600,
	} {
		g := h.connect(Steer)
		g.Receive([]byte(message))
		got := g.next()
		assert.Equal(t, code, codeOf(got), "%q: %s", message, got)
		assert.Equal(t, "null", idOf(got), message)
	}
}

// The id of a client comes back as it was written, whatever it is, and before initialize nothing else is answered.
func TestIDsOfClientsComeBack(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	for _, id := range []string{`1`, `-7`, `1.50`, `1e3`, `123456789012345678901234567890`, `"1"`, `"é<&>\u00e9\/"`, `null`} {
		c, err := h.hub.Connect(Steer)
		assert.NoError(t, err)
		t.Cleanup(c.Close)
		g := &guest{t: t, Client: c}
		g.Receive([]byte(fmt.Sprintf(`{"id":%s,"method":"session/list"}`, id)))
		got := g.next()
		assert.Equal(t, -32600, codeOf(got))
		assert.Equal(t, id, idOf(got))
		g.Receive([]byte(fmt.Sprintf(`{"id":%s,"method":"initialize"}`, id)))
		got = g.next()
		assert.Contains(t, got, `"_meta":{"hearth":{"version":"v","agent":{"name":"scripted","version":"1.0"},"access":"steer","steering":"WatchOnly"}}`)
		assert.Contains(t, got, `{"promptCapabilities":{"image":true},"sessionCapabilities":{"close":{},"list":{},"resume":{}},"loadSession":true}`)
		assert.Equal(t, id, idOf(got))
		g.Receive([]byte("{\n\"_y\" : 1.0, \"method\":\"_x/y\",\r\n \"id\":" + id + "}"))
		line := a.read()
		assert.Equal(t, `{ "_y" : 1.0, "method":"_x/y",   "id":`+idOf(line)+`}`, line)
		a.write(`{"id":` + idOf(line) + `, "z":[1.0],"result":null}`)
		assert.Equal(t, `{"id":`+id+`, "z":[1.0],"result":null}`, g.next())
	}
}
