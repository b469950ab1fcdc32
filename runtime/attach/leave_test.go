package attach

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Bounded: a directory that was given for a client's session is given back once, however the session ends or does not begin.
func TestDirectoriesAreGivenBack(t *testing.T) {
	back := map[string]int{}
	h := newHouse(t, func(c *Config) { c.Left = func(dir string) { back[dir]++ } })
	a := h.rise(0, "", true)
	g := h.connect(Steer)

	g.open(a, "s1")
	id := g.send("session/close", `{"sessionId":"s1"}`)
	a.write(result(a.read(), `{}`))
	assert.Len(t, g.until(id), 1)
	assert.Equal(t, map[string]int{"/here": 1}, back, "closed")

	g.send("session/new", `{"cwd":"/laptop"}`)
	line := a.read()
	a.write(`{"jsonrpc":"2.0","id":` + idOf(line) + `,"error":{"code":-32603,"message":"no"}}`)
	assert.Equal(t, -32603, codeOf(g.next()))
	assert.Equal(t, map[string]int{"/here": 1, "/fresh/1": 1}, back, "refused by the agent")

	g.send("session/load", `{"sessionId":"unknown","cwd":"/here"}`)
	a.read()
	g.send("session/new", `{"cwd":"/laptop"}`)
	a.read()
	a.die()
	assert.Equal(t, map[string]int{"/here": 2, "/fresh/1": 1, "/fresh/2": 1}, back, "not answered, and not loaded")
	assert.Nil(t, h.hub.session("unknown"))
}

// Bounded: whoever watches one run after the other does not keep all of them in memory, and neither does a session that was closed.
func TestASessionThatIsOverIsForgottenWhoeverWatchesIt(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", true)
	g := h.connect(View)
	d := a.begin("r1", "u1")
	g.load("r1")
	s := h.hub.session("r1")
	_, idle := s.idle()
	assert.False(t, idle, "it is under way")
	d.end()
	_, idle = s.idle()
	assert.True(t, idle)
	h.hub.remove(s)
	assert.Contains(t, g.next(), `"state":"ended"`, "what was said before it was forgotten is still told")
	assert.Empty(t, g.sessions)
	assert.Empty(t, s.clients)
}

// Agents number their sessions each for itself: a client's own is not taken for a run's of the same number at another agent.
func TestAnOwnSessionIsNotARunsOfTheSameNumber(t *testing.T) {
	h := newHouse(t)
	agents := []*agent{h.rise(0, "0.", true), h.rise(1, "1.", true)}
	g := h.connect(Steer)
	agents[0].begin("20261130_1", "u1")
	g.open(agents[1], "20261130_1")
	id := g.send("session/prompt", `{"sessionId":"1.20261130_1","prompt":[]}`)
	agents[1].write(result(agents[1].read(), `{}`))
	assert.Equal(t, id, idOf(g.next()))
	for _, params := range []string{`{"sessionId":"0.20261130_1"}`, `{"sessionId":"1.20261130_1","from":"0.20261130_1"}`, `{"sessionId":["0.20261130_1"]}`} {
		assert.Equal(t, CodeNotAllowed, codeOf(g.ask("_x/take", params)), params)
	}
}

// SPEC.md, People at the agent: a run's session is over with the run, unless it is the standing one.
func TestAStandingSessionGoesOnAfterARun(t *testing.T) {
	for name, goesOn := range map[string]bool{"fresh": false, "standing": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(c *Config) { c.Steering = SteerRuns })
			a := h.rise(0, "", true)
			g := h.connect(Steer)
			d := a.begin("r1", "u1")
			d.goesOn = goesOn
			d.end()
			list := g.ask("session/list", `{}`)
			id := g.send("session/prompt", `{"sessionId":"r1","prompt":[]}`)
			if !goesOn {
				assert.Contains(t, list, `"live":false`)
				assert.Equal(t, CodeGone, codeOf(g.next()))
				return
			}
			assert.Contains(t, list, `"live":true`)
			a.write(result(a.read(), `{"stopReason":"end_turn"}`))
			assert.Equal(t, id, idOf(g.next()))
		})
	}
}
