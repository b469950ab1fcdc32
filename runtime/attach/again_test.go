package attach

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/router"
)

// givenAgain are the ways in which an agent comes to have the id of a client's own session, s1, for one that the harness has it open, or
// load, for a run to come.
var givenAgain = map[string]func(*testing.T, func(*Config)) (*agent, *guest, *router.Session){
	"the agent before had it": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		b, g := restarted(newHouse(t, c))
		return b, g, b.ahead("s1")()
	},
	"an earlier boot had it": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		dir := t.TempDir()
		t.Run("before", func(t *testing.T) {
			h := newHouseIn(t, dir)
			a := h.rise(0, "", true)
			h.connect(Steer).open(a, "s1")
		})
		h := newHouseIn(t, dir, c)
		b := h.rise(0, "", true)
		return b, h.connect(Steer), b.ahead("s1")()
	},
	"the same agent has it": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		h := newHouse(t, c)
		a, g := h.rise(0, "", true), h.connect(Steer)
		g.open(a, "s1")
		return a, g, a.ahead("s1")()
	},
	"the harness loads it": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		b, g := restarted(newHouse(t, c))
		return b, g, b.takesUp("s1")
	},
	"it is loaded while it is given": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		b, g := restarted(newHouse(t, c))
		return b, g, b.loadsAmid(g, false)
	},
	"it is loaded before the harness knows": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		b, g := restarted(newHouse(t, c))
		return b, g, b.loadsAmid(g, true)
	},
	"it is guessed while it is given": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		h := newHouse(t, c)
		a, g := h.rise(0, "", true), h.connect(Steer)
		return a, g, a.loadsAmid(g, false)
	},
	"it is guessed before the harness knows": func(t *testing.T, c func(*Config)) (*agent, *guest, *router.Session) {
		h := newHouse(t, c)
		a, g := h.rise(0, "", true), h.connect(Steer)
		return a, g, a.loadsAmid(g, true)
	},
}

// restarted is the agent after the one of which the client's own s1 is.
func restarted(h *house) (*agent, *guest) {
	a, g := h.rise(0, "", true), h.connect(Steer)
	g.open(a, "s1")
	a.die()
	return h.rise(0, "", true), g
}

// takesUp has the harness load a session.
func (a *agent) takesUp(session string) *router.Session {
	a.h.t.Helper()
	loaded := make(chan *router.Session, 1)
	go func() {
		s, err := a.conn.LoadSession(context.Background(), session, "/work")
		assert.NoError(a.h.t, err)
		loaded <- s
	}()
	a.write(result(a.read(), `{}`))
	return <-loaded
}

// loadsAmid has a client load s1 while the harness opens a session, which becomes s1. The agent answers the client first, or not.
func (a *agent) loadsAmid(g *guest, first bool) *router.Session {
	a.h.t.Helper()
	opened := a.ahead("s1")
	id := g.send("session/load", `{"sessionId":"s1","cwd":"/here"}`)
	line := a.read()
	if !first {
		s := opened()
		a.write(result(line, `{}`))
		g.until(id)
		return s
	}
	a.write(result(line, `{}`))
	g.until(id)
	assert.Equal(a.h.t, CodeGone, codeOf(g.ask("session/prompt", words("s1", "quick"))), "it may be the run's")
	return opened()
}

// R53; SPEC.md, People at the agent: agents number their sessions anew. Whatever the steering, nothing of a client reaches the session that
// the harness has opened for a run to come, by any method, although a client's own session has that id; it can be read.
func TestAnIDThatIsGivenAgainIsTheRuns(t *testing.T) {
	for name, given := range givenAgain {
		for _, steering := range []Steering{WatchOnly, SteerRuns} {
			t.Run(name+" "+string(steering), func(t *testing.T) {
				left := func() {}
				b, g, s := given(t, func(c *Config) { c.Steering, c.Left = steering, func(string) { left() } })
				for _, method := range []string{"session/load", "session/resume"} {
					for _, c := range []*guest{g, b.h.connect(Steer), b.h.connect(View)} {
						all := c.until(c.send(method, `{"sessionId":"s1","cwd":"/here"}`))
						assert.Contains(t, all[len(all)-1], `"live":false`)
					}
				}
				assert.Contains(t, g.ask("session/list", `{}`), `"live":false`)
				for _, method := range append(slices.Clone(steered), "session/new", "session/prompt", "session/cancel", "initialized") {
					assert.Equal(t, CodeNotAllowed, codeOf(g.ask(method, `{"sessionId":"s1","cwd":"/here","prompt":[]}`)), method)
					g.Receive([]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{"sessionId":"s1"}}`))
				}
				assert.Equal(t, CodeNotAllowed, codeOf(g.ask("_x/delete", `{"session_id":"s1"}`)))
				b.write(says("s1", "ahead"))
				b.sync() // nothing else came before
				if name != "the same agent has it" {
					g.silent()
				}
				left = func() { assert.True(t, b.h.hub.reserves("s1"), "it is so until the client's own is closed") }
				d := b.beginIn(s, "u1")
				require.Contains(t, d.prompt, `"the goal"`)
				d.end()
			})
		}
	}
}

// R53: until it is known which id the agent gives to a session for a run, one that it loads meanwhile may be that; then it is loaded again.
func TestWhatIsLoadedWhileTheHarnessOpensASessionIsLoadedAgain(t *testing.T) {
	for _, id := range []string{"s1", "only the agent knows it"} {
		b, g := restarted(newHouse(t))
		opened := b.ahead("s2")
		load := `{"sessionId":"` + id + `","cwd":"/here"}`
		loaded := g.send("session/load", load)
		line := b.read()
		b.write(says(id, "once"), result(line, `{}`))
		all := g.until(loaded)
		assert.Equal(t, id != "s1", slices.Contains(all, says(id, "once")))
		assert.Contains(t, g.ask("session/prompt", words(id, "quick")), "load the session again")
		opened()
		loaded = g.send("session/load", load)
		line = b.read()
		b.write(says(id, "once"), result(line, `{}`))
		again := g.until(loaded)
		assert.Equal(t, all[:len(all)-1], again[:len(again)-1], "what it repeats is not shown twice")
		loaded = g.send("session/prompt", words(id, "go"))
		b.write(result(b.read(), `{}`))
		assert.Equal(t, loaded, idOf(g.next()))
	}
}

// SPEC.md, People at the agent: while the agent loads a session nothing else of a client reaches that there.
func TestNothingReachesASessionThatIsBeingLoaded(t *testing.T) {
	for _, id := range []string{"s1", "only the agent knows it"} {
		for _, method := range []string{"session/load", "session/resume"} {
			t.Run(method+" "+id, func(t *testing.T) {
				b, g := restarted(newHouse(t))
				other := b.h.connect(Steer)
				loaded := g.send(method, `{"sessionId":"`+id+`","cwd":"/here"}`)
				line := b.read()
				for _, c := range []*guest{g, other} {
					for _, method := range append(slices.Clone(steered), "session/prompt", "session/cancel", "initialized") {
						assert.Equal(t, CodeBusy, codeOf(c.ask(method, words(id, "early"))), method)
						c.Receive([]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{"sessionId":"` + id + `"}}`))
					}
				}
				b.sync() // nothing else came before
				_, busy := g.hub.session(id).load()
				assert.True(t, busy, "it may not be forgotten")
				b.write(result(line, `{}`))
				g.until(loaded)
				prompted := g.send("session/prompt", words(id, "go"))
				b.write(result(b.read(), `{}`))
				assert.Equal(t, prompted, idOf(g.next()))
			})
		}
	}
}

// R53: what an agent has to load is loaded by no message that names a run's session beside.
func TestALoadAfterARestartNamesNoWatchedSession(t *testing.T) {
	b, g := restarted(newHouse(t))
	b.begin("20261130_1", "u1")
	b.ahead("20261130_2")()
	for _, run := range []string{"20261130_1", "20261130_2"} {
		assert.Equal(t, CodeNotAllowed, codeOf(g.ask("session/load", `{"sessionId":"s1","cwd":"/here","session_id":"`+run+`"}`)))
	}
	b.sync() // nothing else came before
	id := g.send("session/load", `{"sessionId":"s1","cwd":"/here"}`)
	b.write(result(b.read(), `{}`))
	g.until(id)
}

// R53; SPEC.md, Standing sessions: after a restart the harness loads the session that remembers, and nobody else. Then it can be steered where
// the Agent says so, although a run is to come.
func TestTheStandingSessionIsSteeredOnceTheHarnessHasLoadedIt(t *testing.T) {
	for steering, want := range map[Steering]int{WatchOnly: CodeNotAllowed, SteerRuns: CodeGone} {
		h := newHouse(t, func(c *Config) { c.Steering = steering })
		a, g := h.rise(0, "", true), h.connect(Steer)
		d := a.begin("t1", "u1")
		d.goesOn = true
		d.end()
		a.die()
		b := h.rise(0, "", true)
		g.load("t1")
		b.sync() // nothing else came before
		assert.Equal(t, want, codeOf(g.ask("session/prompt", words("t1", "early"))))
		s := b.takesUp("t1")
		id := g.send("session/prompt", words("t1", "go"))
		if steering == SteerRuns {
			b.write(result(b.read(), `{}`))
		}
		assert.Equal(t, id, idOf(g.next()))
		require.Contains(t, b.beginIn(s, "u2").prompt, `"the goal"`)
	}
}
